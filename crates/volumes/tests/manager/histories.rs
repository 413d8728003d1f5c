//! Random histories of pods with faults of the host and restarts of the manager.

use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::json;
use testkit::volumes::Operation;
use tokio::time::{sleep, timeout};

use crate::harness::{Harness, pod, volume};

const PODS: usize = 3;
/// The data that a container writes into its volume.
const DATA: &str = "of a container";

/// What happens next.
#[derive(Debug, Clone)]
enum Step {
    /// A pod is synced. One that has ended does not come back.
    Sync(usize),
    /// A pod ends.
    End(usize),
    /// An operation on a volume of a pod fails from now on.
    Fail(Operation, usize, usize),
    /// All operations work again.
    Repair,
    /// The manager is killed, and another one starts.
    Restart,
    /// Time passes.
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    let operations = [
        Operation::Mount,
        Operation::Unmount,
        Operation::MakeDirectory,
        Operation::WritePayload,
        Operation::Directories,
    ];
    prop_oneof![
        4 => (0..PODS).prop_map(Step::Sync),
        2 => (0..PODS).prop_map(Step::End),
        3 => (select(operations.to_vec()), 0..PODS, 0..3_usize)
            .prop_map(|(operation, pod, volume)| Step::Fail(operation, pod, volume)),
        1 => Just(Step::Repair),
        2 => Just(Step::Restart),
        2 => (1..5000_u64).prop_map(Step::Wait),
    ]
}

/// The progress of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Phase {
    #[default]
    New,
    /// Its containers use its volumes.
    Runs,
    Ended,
}

#[derive(Debug)]
struct History {
    harness: Harness,
    pods: Vec<Arc<Pod>>,
    phases: Vec<Phase>,
    faults: BTreeSet<(Operation, PathBuf)>,
}

impl History {
    fn new() -> Self {
        let volumes = json!([
            { "name": "fast", "emptyDir": { "medium": "Memory" } },
            { "name": "scratch", "emptyDir": {} },
            { "name": "conf", "configMap": { "name": "app" } },
        ]);
        let pods: Vec<_> = (0..PODS).map(|number| pod(&format!("u{number}"), &volumes)).collect();
        let harness = Harness::new();
        harness.put_config("fast");
        Self { harness, pods, phases: vec![Phase::New; PODS], faults: BTreeSet::new() }
    }

    fn path(&self, pod: usize, at: usize) -> PathBuf {
        let (plugin, name) =
            [("empty-dir", "fast"), ("empty-dir", "scratch"), ("configmap", "conf")][at];
        volume(&self.pods[pod], plugin, name)
    }

    async fn play(mut self, step: &Step) -> Self {
        match *step {
            Step::Sync(pod) if self.phases[pod] != Phase::Ended => self.sync(pod).await,
            Step::Sync(_) => {}
            Step::End(pod) => self.end(pod).await,
            Step::Fail(operation, pod, at) => {
                let path = self.path(pod, at);
                self.harness.host.fail(operation, &path, ErrorKind::ResourceBusy);
                self.faults.insert((operation, path));
            }
            Step::Repair => self.repair(),
            Step::Restart => {
                self.harness = self.harness.restarted();
                // As after each start: pods that run are synced.
                for pod in self.running() {
                    self.harness.register(&self.pods[pod]);
                    self.harness.manager.update(&self.pods[pod]);
                }
            }
            Step::Wait(milliseconds) => sleep(Duration::from_millis(milliseconds)).await,
        }
        self
    }

    fn running(&self) -> Vec<usize> {
        (0..PODS).filter(|pod| self.phases[*pod] == Phase::Runs).collect()
    }

    fn repair(&mut self) {
        for (operation, path) in std::mem::take(&mut self.faults) {
            self.harness.host.repair(operation, path);
        }
    }

    async fn sync(&mut self, pod: usize) {
        let synced = timeout(Duration::from_secs(2), self.harness.sync(&self.pods[pod])).await;
        if synced.is_ok_and(|wait| wait.is_none()) && self.phases[pod] == Phase::New {
            self.phases[pod] = Phase::Runs;
            self.harness.files.write(self.path(pod, 1).join("data"), DATA);
        }
    }

    async fn end(&mut self, pod: usize) {
        self.phases[pod] = Phase::Ended;
        let uid = format!("u{pod}").as_str().into();
        let name = Some(podspec::view::pod_name(&self.pods[pod]));
        let release = self.harness.manager.release(&uid, name);
        _ = timeout(Duration::from_secs(1), release).await;
    }

    /// Nothing that containers use is lost.
    async fn check(&self) {
        let mounts = self.harness.mounts().await;
        for pod in self.running() {
            let fast = self.path(pod, 0);
            assert!(mounts.iter().any(|mount| mount.path == fast), "u{pod}: {mounts:?}");
            let data = self.harness.content(&self.path(pod, 1), "data").await;
            assert_eq!(data.as_deref(), Some(DATA), "u{pod}");
            let config = self.harness.content(&self.path(pod, 2), "mode").await;
            assert_eq!(config.as_deref(), Some("fast"), "u{pod}");
        }
    }

    /// Without faults everything is as desired in the end.
    async fn settle(mut self) {
        self.repair();
        for pod in 0..PODS {
            if self.phases[pod] == Phase::Ended {
                let uid = format!("u{pod}").as_str().into();
                self.harness.manager.release(&uid, None).await.expect("no operation fails");
            } else {
                let wait = self.harness.sync(&self.pods[pod]).await;
                assert_eq!(wait, None, "u{pod}");
            }
        }
        let mounts = self.harness.mounts().await;
        let paths: Vec<_> = mounts.into_iter().map(|mount| mount.path).collect();
        let left = (0..PODS).filter(|pod| self.phases[*pod] != Phase::Ended);
        let mut expected: Vec<_> = left.map(|pod| self.path(pod, 0)).collect();
        let mut found = paths;
        expected.sort();
        found.sort();
        assert_eq!(found, expected);
        for pod in (0..PODS).filter(|pod| self.phases[*pod] == Phase::Ended) {
            for at in 0..3 {
                assert_eq!(self.harness.files.mode(self.path(pod, at)), None, "u{pod}");
            }
        }
    }
}

async fn history(steps: Vec<Step>) {
    let mut history = History::new();
    for step in &steps {
        history = history.play(step).await;
        history.check().await;
    }
    history.settle().await;
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    // behaviour: VOL-106
    #[test]
    fn volumes_in_use_stay_and_all_others_go_whatever_fails(
        steps in proptest::collection::vec(step(), 1..30),
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime for a test");
        runtime.block_on(history(steps));
    }
}
