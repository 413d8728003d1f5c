//! The statuses of pods of the agent in a virtual machine.

use anyhow::{Context, Result};
use serde_json::Value;

use crate::node::NODE_NAME;
use crate::vm_node::VmNode;

impl VmNode {
    /// The status of a pod; null when the agent does not have the pod.
    pub fn status(&self, pod: &str) -> Result<Value> {
        let output = self.ferrolet(&["get", "pods", "-o", "json"])?;
        let mut list: Value = serde_json::from_str(&output).context("read the list of pods")?;
        let items = list["items"].as_array_mut().context("there are pods")?;
        let name = format!("{pod}-{NODE_NAME}");
        let pod = items.iter_mut().find(|item| item["metadata"]["name"] == name.as_str());
        Ok(pod.map(|pod| pod["status"].take()).unwrap_or_default())
    }

    /// Waits until the status of a pod has a value.
    pub fn wait_for_status<T>(
        &self,
        pod: &str,
        what: &str,
        look: impl Fn(&Value) -> Option<T>,
    ) -> Result<T> {
        self.until(&format!("{pod}: {what}"), || {
            let status = self.status(pod)?;
            Ok(look(&status).ok_or_else(|| status.to_string()))
        })
    }

    /// Waits until a pod has ended; returns reason and exit code of its first container.
    pub fn wait_ended(&self, pod: &str) -> Result<(String, i64)> {
        self.wait_for_log(&[
            "Pod terminated and cleaned up",
            &format!("default/{pod}-{NODE_NAME}\""),
        ])?;
        let status = self.status(pod)?;
        let end = &status["containerStatuses"][0]["state"]["terminated"];
        let reason = end["reason"].as_str().with_context(|| format!("a reason: {status}"))?;
        let code = end["exitCode"].as_i64().with_context(|| format!("a code: {status}"))?;
        Ok((reason.to_owned(), code))
    }
}

/// Reason and message of a condition, if a status has it.
pub fn condition(status: &Value, kind: &str) -> Option<(String, String)> {
    let found = status["conditions"].as_array()?.iter().find(|one| one["type"] == kind)?;
    let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
    Some((text("reason"), text("message")))
}
