//! This agent and the upstream kubelet, given the same manifests, ask the same of the runtime: every
//! field of every request is compared, and so are the files and events that go with them. Needs root
//! and the parts that `make testbed` builds.
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

/// Events that say why something is not as asked; upstream's and ours have the same words.
const REASONS: [&str; 5] =
    ["DNSConfigForming", "Failed", "FailedCreatePodSandBox", "InspectFailed", "SysctlForbidden"];

/// Pods that run with less than they ask for, or not at all, and the number of events about it.
const EXPECTED_EVENTS: [(&str, usize); 5] = [
    ("a-name-of-more-than-sixty-four-characters-with-its-domain", 1),
    ("dns-too-much", 2),
    // Why each image is no name, and that containers wait for that.
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
        writeln!(differences, "only this agent says {event:?}")?;
    }
    for event in upstreams.difference(&ours) {
        writeln!(differences, "only upstream says {event:?}")?;
    }
    ensure!(differences.is_empty(), "\n{differences}");
    both.stop()
}

/// Waits until an agent has asked for all that is wanted and said why the rest is not there.
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

/// Lines of one text that the other has not at that place, ours first.
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
