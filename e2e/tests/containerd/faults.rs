//! Failing runtime calls, one of every method that the agent calls: the pods run in the end, and nothing is left over.
//! `make soak` has every method with every kind of fault.

mod soak;

use std::collections::BTreeSet;

use anyhow::Result;
use e2e::faults::{Fault, FaultyNode, HeldRunc, METHODS, slow_start};
use e2e::node::Node;

use crate::actions::{log, manifest, written};

/// A method, and the fault of one call.
type Planned = (&'static str, &'static str);

/// A round with these faults, and one without: leftovers of the first, even reserved names, would block pods with the
/// same names, or raise their attempt numbers.
fn rounds(faults: &[Planned]) -> Result<()> {
    let faults: Vec<Fault> =
        faults.iter().map(|(method, kind)| Fault::new(method, kind)).collect::<Result<_>>()?;
    let mut node = FaultyNode::start()?;
    node.round(&["first", "second", "third"], &faults)?;
    node.round(&["first", "second", "third"], &[])?;
    node.check_methods()?;
    node.stop()
}

// behaviour: ACT-137
#[test]
fn container_start_without_response_counts_as_started() -> Result<()> {
    let mut node = Node::start()?;
    let proxy = node.put_proxy_before_runtime()?;
    node.configure("runtimeRequestTimeout: 2s")?;
    let spec = "
  containers:
  - name: main
    image: IMAGE
    args: [sleep, forever]
    lifecycle:
      postStart: {exec: {command: [/workload, write, /proc/1/fd/1, post-start]}}
";
    node.write_manifest("hooked.yaml", &manifest("hooked", spec))?;
    proxy.fault("StartContainer=late")?;
    node.start_agent()?;
    written(&node, &log("hooked", "main", 0), "post-start")?;
    node.wait_for_log(&["runs although its start got no response"])?;
    node.wait_running("hooked")?;
    node.stop()
}

// behaviour: ACT-136
#[test]
fn pull_that_times_out_is_retried_and_delays_no_pod() -> Result<()> {
    let mut node = FaultyNode::start()?;
    node.round_with_a_fetch_that_hangs("web")?;
    node.round(&["web"], &[Fault::new("PullImage", "late")?])?;
    node.round(&["web"], &[])?;
    node.stop()
}

/// Calls while the pods start.
const LOOKS: [Planned; 10] = [
    ("Version", "unavailable"),
    ("RuntimeConfig", "unavailable"),
    ("GetContainerEvents", "unavailable"),
    ("ListPodSandbox", "hang"),
    ("ListContainers", "deadline"),
    ("PodSandboxStatus", "not-found"),
    ("ContainerStatus", "late"),
    ("ImageStatus", "hang"),
    ("PullImage", "unavailable"),
    ("ListImages", "unavailable"),
];

/// Calls of streamed lists.
const LISTS: [Planned; 2] = [("StreamPodSandboxes", "hang"), ("StreamContainers", "unavailable")];

const DEEDS: [Planned; 13] = [
    ("RunPodSandbox", "late"),
    ("Status", "deadline"),
    // In a separate round: without a list of images there is no request for their disk.
    ("ImageFsInfo", "hang"),
    ("CreateContainer", "late"),
    ("StartContainer", "late"),
    ("UpdateContainerResources", "late"),
    ("UpdatePodSandboxResources", "not-found"),
    ("RemoveImage", "late"),
    ("RemoveContainer", "hang"),
    ("ExecSync", "hang"),
    ("StopContainer", "deadline"),
    ("StopPodSandbox", "late"),
    ("RemovePodSandbox", "hang"),
];

#[test]
fn every_called_method_has_a_fault_round() {
    let planned = [&LOOKS[..], &LISTS, &DEEDS].concat();
    let planned: Vec<&str> = planned.into_iter().map(|(method, _)| method).collect();
    let once: BTreeSet<&str> = planned.iter().copied().collect();
    let called: BTreeSet<&str> = METHODS.iter().map(|row| row.method).collect();
    assert_eq!(once, called);
    assert_eq!(once.len(), planned.len(), "one fault is enough");
}

#[test]
fn failing_lists_restart_no_pod() -> Result<()> {
    rounds(&LOOKS)
}

#[test]
fn interrupted_streams_of_large_lists_restart_no_pod() -> Result<()> {
    rounds(&LISTS)
}

#[test]
fn agent_retries_failed_runtime_calls_until_they_succeed() -> Result<()> {
    rounds(&DEEDS)
}
