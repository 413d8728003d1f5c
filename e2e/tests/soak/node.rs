//! A node of a cluster: for longer, and with the upstream kubelet as its agent. What our agent is asked for must be
//! what upstream does.

use std::time::Duration;

use anyhow::{Result, ensure};
use e2e::absence::without_the_api_server;
use e2e::agent::Agent;
use e2e::differences::{differences, is_time, leaves};
use e2e::scenarios::{of_controllers, of_pods};

// behaviour: API-7, STW-35
#[test]
fn without_the_api_server_for_a_minute_pods_go_on() -> Result<()> {
    without_the_api_server(Duration::from_mins(1))
}

/// What is different, by words in the paths, and why.
const DIFFERENT: &[(&str, &str)] = &[
    ("already present on machine", "it is not looked at yet who may use an image that is there"),
    ("/user/linux/", "as whom containers run is not told yet"),
    (
        "/status/resources",
        "what a pod has as a whole is not told yet; upstream tells huge numbers for no limit",
    ),
    (
        "Pod resize ",
        "upstream puts the reason of admission where it has the one of the condition elsewhere",
    ),
    ("FailedCreatePodSandBox", "without the words of gRPC"),
    ("/lesser/files/log ", "the logs of a pod that was evicted go with their directories"),
];

#[test]
fn upstream_gives_pods_of_the_api_the_same_and_tells_the_same_of_them() -> Result<()> {
    let (theirs, ours) = (of_pods(Agent::Upstream)?, of_pods(Agent::Ferrolet)?);
    let leaves = |seen| -> Result<_> {
        let mut all = leaves(&serde_json::to_value(seen)?);
        all.retain(|path, _| !is_time(path));
        Ok(all)
    };
    let found = differences(&leaves(ours)?, &leaves(theirs)?, DIFFERENT);
    ensure!(found.is_empty(), "{}", found.join("\n"));
    Ok(())
}

#[test]
fn upstream_gives_controllers_and_the_scheduler_the_same() -> Result<()> {
    of_controllers(Agent::Upstream)
}
