//! `ferrolet get node`.

use std::collections::BTreeMap;
use std::io::{self, Write};

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use serde::Serialize;
use server::wire::{PodItem, Version};

use super::Place;
use super::agent::AgentClient;
use super::output::Output;
use super::table::Columns;

/// The metric with the name of the node.
const NODE_NAME: &str = "kubelet_node_name{node=\"";

/// The arguments of `get node`.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub place: Place,
    /// The format of the output.
    #[arg(short, long, value_enum)]
    pub output: Option<Output>,
}

/// The node as its agent sees it.
#[derive(Debug, PartialEq, Serialize)]
struct NodeSummary {
    name: String,
    healthy: bool,
    checks: Vec<HealthCheck>,
    /// The number of pods by phase.
    pods: BTreeMap<String, usize>,
    version: Version,
}

#[derive(Debug, PartialEq, Serialize)]
struct HealthCheck {
    name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<String>,
}

pub(crate) async fn run(args: &Args) -> Result<()> {
    get_node(&args.place.agent(), args, &mut io::stdout()).await
}

/// Writes the name of the node, the health of its agent, and the number of its pods.
pub async fn get_node(agent: &AgentClient, args: &Args, out: &mut dyn Write) -> Result<()> {
    let pods = agent.pods().await?.items;
    let checks = checks(&agent.health().await?);
    let node = NodeSummary {
        name: node_name(&agent.metrics().await?, &pods).unwrap_or_else(|| "<unknown>".to_owned()),
        healthy: checks.iter().all(|check| check.problem.is_none()),
        checks,
        pods: phases(&pods),
        version: agent.version().await?,
    };
    if let Some(output) = args.output {
        return Ok(out.write_all(output.text(&node)?.as_bytes())?);
    }
    for line in table(&node) {
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// The checks in the text of `/healthz?verbose`.
fn checks(text: &str) -> Vec<HealthCheck> {
    let check = |line: &str| {
        if let Some(name) = line.strip_prefix("[+]").and_then(|rest| rest.strip_suffix(" ok")) {
            return Some(HealthCheck { name: name.to_owned(), problem: None });
        }
        let (name, problem) = line.strip_prefix("[-]")?.split_once(" failed: ")?;
        Some(HealthCheck { name: name.to_owned(), problem: Some(problem.to_owned()) })
    };
    text.lines().filter_map(check).collect()
}

fn node_name(metrics: &str, pods: &[PodItem<Pod>]) -> Option<String> {
    let measured = metrics.lines().find_map(|line| line.strip_prefix(NODE_NAME)?.split('"').next());
    let of_pod = |item: &PodItem<Pod>| item.pod.spec.as_ref()?.node_name.clone();
    measured.map(str::to_owned).or_else(|| pods.iter().find_map(of_pod))
}

fn phases(pods: &[PodItem<Pod>]) -> BTreeMap<String, usize> {
    let mut phases = BTreeMap::new();
    for item in pods {
        let phase = item.pod.status.as_ref().and_then(|status| status.phase.clone());
        *phases.entry(phase.unwrap_or_else(|| "Pending".to_owned())).or_default() += 1;
    }
    phases
}

/// A table, followed by the failed checks.
fn table(node: &NodeSummary) -> Vec<String> {
    let header = ["NAME", "AGENT", "PODS", "VERSION", "FERROLET"].map(str::to_owned).to_vec();
    let phases: Vec<String> =
        node.pods.iter().map(|(phase, count)| format!("{count} {phase}")).collect();
    let row = vec![
        node.name.clone(),
        if node.healthy { "healthy" } else { "unhealthy" }.to_owned(),
        if phases.is_empty() { "0".to_owned() } else { phases.join(", ") },
        node.version.kubernetes.clone(),
        node.version.ferrolet.clone(),
    ];
    let rows = [header, row];
    let columns = Columns::of(&rows);
    let failed = node.checks.iter().filter_map(|check| {
        Some(format!("check {} failed: {}", check.name, check.problem.as_ref()?))
    });
    rows.iter().map(|row| columns.line(row, None)).chain(failed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::test_pods::{crashing, running};

    #[test]
    fn node_is_a_row_with_failed_checks_below() {
        let text = "[+]ping ok\n[-]relist failed: late\nhealthz check failed\n";
        let checks = checks(text);
        assert_eq!(checks.len(), 2, "{checks:?}");
        let pods = [running("default", "a"), crashing("default", "b")];
        let node = NodeSummary {
            name: node_name("# HELP x\nkubelet_node_name{node=\"n1\"} 1\n", &pods).unwrap(),
            healthy: false,
            checks,
            pods: phases(&pods),
            version: Version { kubernetes: "v1.36.3".to_owned(), ferrolet: "0.1.0".to_owned() },
        };
        let expected = [
            "NAME   AGENT       PODS        VERSION   FERROLET",
            "n1     unhealthy   2 Running   v1.36.3   0.1.0",
            "check relist failed: late",
        ];
        assert_eq!(table(&node), expected);
        assert_eq!(node_name("", &pods).as_deref(), Some("node"));
    }
}
