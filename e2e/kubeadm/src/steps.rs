//! The steps of a run and their outcomes.

use std::time::Instant;

use anyhow::Result;

use crate::cluster::Cluster;
use crate::{add_ons, lifecycle, replace};

/// A step of the run.
#[derive(Debug, Clone, Copy)]
pub struct Step<T> {
    pub name: &'static str,
    pub run: fn(&T) -> Result<()>,
    /// Whether the steps after it need its result.
    pub is_needed: bool,
}

const fn needed(name: &'static str, run: fn(&Cluster) -> Result<()>) -> Step<Cluster> {
    Step { name, run, is_needed: true }
}

const fn step(name: &'static str, run: fn(&Cluster) -> Result<()>) -> Step<Cluster> {
    Step { name, run, is_needed: false }
}

/// All steps, in order.
pub const STEPS: [Step<Cluster>; 17] = [
    needed("kubeadm init: the control plane runs as static pods", lifecycle::init),
    step("pods on the host network run while the node has no pod network", add_ons::host_network),
    needed("a network add-on makes the node ready", add_ons::network),
    needed("kubeadm join: the second node joins with a token", lifecycle::join),
    needed("kube-proxy and CoreDNS are ready", lifecycle::cluster_add_ons),
    step("a Service is reached by its DNS name from pods on both nodes", add_ons::service),
    step("a log collector reads the logs of containers", add_ons::log_collector),
    step("a node exporter sees processes and mounts of the node", add_ons::node_exporter),
    step("a restart of ferrolet restarts no container", lifecycle::restart),
    step("kubeadm upgrade node: a changed configuration takes effect", lifecycle::upgrade),
    needed("kubeadm reset: nothing of the second node is left", lifecycle::reset_second),
    step("a changed manifest restarts the controller manager", lifecycle::short_signing),
    needed("the second node joins again, with the upstream kubelet", replace::join_upstream),
    step("docs/install.md on the second node: there, back, and there again", replace::on_worker),
    step("docs/install.md on the node of the control plane", replace::on_control_plane),
    step("client certificates rotate", lifecycle::rotation),
    step("kubeadm reset: nothing of the first node is left", lifecycle::reset_first),
];

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    /// With the error.
    Failed(String),
    /// A step that it needs has failed.
    NotRun,
}

/// The outcome of a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Done {
    pub name: &'static str,
    pub outcome: Outcome,
    pub seconds: u64,
}

/// Runs steps in order. `report` is called after each.
pub fn run<T>(subject: &T, steps: &[Step<T>], report: impl Fn(&Done)) -> Vec<Done> {
    let mut is_broken = false;
    let mut all = Vec::new();
    for step in steps {
        let started = Instant::now();
        let outcome = if is_broken {
            Outcome::NotRun
        } else {
            let result = (step.run)(subject);
            result.map_or_else(|error| Outcome::Failed(format!("{error:#}")), |()| Outcome::Passed)
        };
        is_broken |= step.is_needed && outcome != Outcome::Passed;
        let done = Done { name: step.name, outcome, seconds: started.elapsed().as_secs() };
        report(&done);
        all.push(done);
    }
    all
}

#[cfg(test)]
mod tests {
    use anyhow::bail;

    use super::*;

    #[test]
    fn steps_after_a_failed_one_run_unless_they_need_it() {
        let fail = |(): &()| bail!("no");
        let steps = [
            Step { name: "a", run: fail, is_needed: false },
            Step { name: "b", run: |(): &()| Ok(()), is_needed: true },
            Step { name: "c", run: fail, is_needed: true },
            Step { name: "d", run: |(): &()| Ok(()), is_needed: false },
        ];
        let outcomes: Vec<Outcome> =
            run(&(), &steps, |_| {}).into_iter().map(|done| done.outcome).collect();
        let failed = Outcome::Failed("no".to_owned());
        assert_eq!(outcomes, [failed.clone(), Outcome::Passed, failed, Outcome::NotRun]);
    }
}
