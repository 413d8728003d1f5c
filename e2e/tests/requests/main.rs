//! This agent and the upstream kubelet, with the same manifests, send the same runtime requests: every field of every
//! request is compared, with the files and events that belong to it. Needs root and the parts that `make testbed`
//! builds.
#![allow(
    clippy::disallowed_methods,
    reason = "tests on the real thing: real files, processes and time"
)]

mod agents;
mod requests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use agents::{Agent, Both, NODE_NAME, wanted_requests};
use anyhow::{Result, ensure};
use requests::Request;

/// Reasons of events about refusals and limits; upstream's and our messages are equal.
const REASONS: [&str; 5] =
    ["DNSConfigForming", "Failed", "FailedCreatePodSandBox", "InspectFailed", "SysctlForbidden"];

/// Pods that run with less than they ask for, or not at all, and the number of events about it.
const EXPECTED_EVENTS: [(&str, usize); 5] = [
    ("a-name-of-more-than-sixty-four-characters-with-its-domain", 1),
    ("dns-too-much", 2),
    // For each image why its name is invalid, and that containers wait for it.
    ("image-name", 9),
    ("root", 3),
    ("sysctl", 1),
];

#[test]
fn runtime_requests_equal_those_of_the_upstream_kubelet() -> Result<()> {
    let both = Both::start()?;
    let wanted = wanted_requests()?;
    ensure!(wanted.len() > 40, "only {} requests are compared", wanted.len());
    let expected: BTreeMap<&str, usize> = EXPECTED_EVENTS.into();
    let ours = settled(&both.ours, &wanted, &expected)?;
    let upstreams = settled(&both.upstream, &wanted, &expected)?;
    let mut differences = String::new();
    for (key, upstream) in upstreams.iter().filter(|(key, _)| wanted.contains(*key)) {
        let differing = differing_lines(&ours[key].text(), &upstream.text());
        if !differing.is_empty() {
            writeln!(differences, "{key}:\n{differing}")?;
        }
    }
    for uid in both.pod_uids()? {
        let (ours, upstreams) = (both.ours.hosts_file(&uid), both.upstream.hosts_file(&uid));
        let differing = differing_lines(&ours, &upstreams);
        if !differing.is_empty() {
            writeln!(differences, "hosts file of {uid}:\n{differing}")?;
        }
    }
    let (ours, upstreams) = (both.ours.events(&REASONS), both.upstream.events(&REASONS));
    for event in ours.difference(&upstreams) {
        writeln!(differences, "only this agent has {event:?}")?;
    }
    for event in upstreams.difference(&ours) {
        writeln!(differences, "only upstream has {event:?}")?;
    }
    ensure!(differences.is_empty(), "\n{differences}");
    both.stop()
}

/// Waits until an agent has sent all wanted requests and recorded the events for the others.
fn settled(
    agent: &Agent,
    wanted: &BTreeSet<String>,
    expected: &BTreeMap<&str, usize>,
) -> Result<BTreeMap<String, Request>> {
    agent.wait("all requests and events", || {
        let requests = agent.requests()?;
        let lacking: Vec<&String> =
            wanted.iter().filter(|key| !requests.contains_key(*key)).collect();
        let events = agent.events(&REASONS);
        let silent: Vec<&&str> = expected
            .iter()
            .filter(|(pod, count)| {
                let name = format!("shop/{pod}-{NODE_NAME}");
                events.iter().filter(|event| event.pod == name).count() < **count
            })
            .map(|(pod, _)| pod)
            .collect();
        if lacking.is_empty() && silent.is_empty() {
            Ok(Ok(requests))
        } else {
            Ok(Err(format!("no request for {lacking:?}, no event for {silent:?}")))
        }
    })
}

/// Differing lines of two texts, ours first.
fn differing_lines(ours: &str, upstreams: &str) -> String {
    if ours == upstreams {
        return String::new();
    }
    let mut differing = String::new();
    let lines: BTreeSet<&str> = upstreams.lines().collect();
    for line in ours.lines().filter(|line| !lines.contains(line)) {
        writeln!(differing, "  this agent: {line}").expect("writing to a string does not fail");
    }
    let lines: BTreeSet<&str> = ours.lines().collect();
    for line in upstreams.lines().filter(|line| !lines.contains(line)) {
        writeln!(differing, "  upstream:   {line}").expect("writing to a string does not fail");
    }
    if differing.is_empty() {
        differing = format!(
            "  the same lines in another order; this agent:\n{ours}\nupstream:\n{upstreams}\n"
        );
    }
    differing
}
