//! The API server's audit log of one user.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The audit log of a user. Its files are removed with it.
#[derive(Debug)]
pub struct Audit {
    directory: TempDir,
}

/// A node may read these as soon as one of its pods refers to them. The API server learns of pods by its own watch,
/// which may lag behind the agent's.
const LATE: [&str; 2] = ["configmaps", "secrets"];

impl Audit {
    /// For an API server with the flags of this log.
    pub fn of(user: &str) -> Result<Self> {
        let audit = Self { directory: tempfile::tempdir().context("make a directory")? };
        let policy = json!({
            "apiVersion": "audit.k8s.io/v1",
            "kind": "Policy",
            "omitStages": ["RequestReceived"],
            "rules": [{ "level": "Metadata", "users": [user] }, { "level": "None" }],
        });
        fs::write(audit.file("policy"), policy.to_string()).context("write an audit policy")?;
        Ok(audit)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The API server's flags for this audit log.
    pub fn flags(&self) -> Vec<String> {
        let flag = |name: &str, file: &str| format!("--audit-{name}={}", self.file(file).display());
        vec![flag("policy-file", "policy"), flag("log-path", "calls")]
    }

    /// All calls so far. A watch has two entries: for its begin and its end.
    pub fn calls(&self) -> Result<Vec<Value>> {
        let text = fs::read_to_string(self.file("calls")).context("read the calls")?;
        // The last line may be incomplete.
        let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        lines.map(|line| serde_json::from_str(line).with_context(|| line.to_owned())).collect()
    }

    /// Checks that no call was refused, except calls that were too early and succeeded later.
    pub fn nothing_was_refused(&self) -> Result<()> {
        let calls = self.calls()?;
        let refused = refused(&calls);
        ensure!(refused.is_empty(), "{} of {} calls: {refused:#?}", refused.len(), calls.len());
        Ok(())
    }
}

/// Whether the API server refused a call: unauthenticated or unauthorized.
fn is_refused(call: &Value) -> bool {
    [401, 403].iter().any(|code| call["responseStatus"]["code"] == *code)
}

fn refused(calls: &[Value]) -> Vec<&Value> {
    let object =
        |call: &Value| ["resource", "namespace", "name"].map(|key| call["objectRef"][key].clone());
    let is_granted_later = |at: usize| {
        let wanted = object(&calls[at]);
        let is_late = LATE.iter().any(|kind| wanted[0] == *kind);
        is_late && calls[at..].iter().any(|call| object(call) == wanted && !is_refused(call))
    };
    let all = calls.iter().enumerate();
    all.filter(|(at, call)| is_refused(call) && !is_granted_later(*at))
        .map(|(_, call)| call)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(resource: &str, name: &str, code: u16) -> Value {
        let object = json!({ "resource": resource, "namespace": "shop", "name": name });
        json!({ "objectRef": object, "responseStatus": { "code": code } })
    }

    #[test]
    fn refused_calls_are_found_except_early_ones_that_were_granted_later() {
        let calls = [
            call("pods", "web", 404),
            call("secrets", "early", 403),
            call("secrets", "early", 200),
            call("secrets", "foreign", 403),
            call("secrets", "lost", 200),
            call("secrets", "lost", 403),
            call("configmaps", "foreign", 200),
            call("nodes", "mine", 403),
            call("nodes", "mine", 200),
            call("pods", "web", 401),
        ];
        let expected = [&calls[3], &calls[5], &calls[7], &calls[9]];
        assert_eq!(refused(&calls), expected);
    }
}
