//! A panic in the work for one pod keeps the objects of that pod, and of no other.

use model::panics::PanicStep;
use model::pod_state::PodState;
use testkit::panics::KeptPanics;
use testkit::runtime::{Fault, Rule};

use super::*;

/// Pod states, of which one panics.
#[derive(Debug)]
struct PanickingPodStates(Pods, &'static str);

impl PodStates for PanickingPodStates {
    fn sources_ready(&self) -> bool {
        self.0.sources_ready()
    }

    fn state(&self, uid: &PodUid) -> PodState {
        assert!(uid.as_str() != self.1, "injected by a test");
        self.0.state(uid)
    }

    fn needs_first_sandbox(&self, uid: &PodUid) -> bool {
        self.0.needs_first_sandbox(uid)
    }

    fn any_terminating(&self) -> bool {
        self.0.any_terminating()
    }
}

// behaviour: WRK-38
#[tokio::test(start_paused = true)]
async fn panic_in_a_removal_keeps_its_pod_for_the_next_pass() {
    let mut bench = Bench::new(Pods::ready(), keep(0));
    let (panics, guard) = KeptPanics::guard();
    bench.parts.panics = guard;
    let (web_sandbox, web) = bench.dead_pod("web", 1).await;
    bench.dead_pod("other", 2).await;
    for (method, object) in
        [(Method::RemoveContainer, web[0].as_str()), (Method::StopPodSandbox, web_sandbox.as_str())]
    {
        bench.runtime.inject(Rule::on(method, Fault::panic()).object(object).once());
        let report = bench.pass(false).await;
        assert_eq!((report.failed(), report.problems.len()), (1, 0), "{method}: {report:?}");
        assert_eq!(bench.sandboxes(), 1, "{method}: only the sandbox of the pod is left");
    }
    assert_eq!(bench.pass(false).await.failed(), 0);
    assert_eq!((bench.containers().len(), bench.sandboxes()), (0, 0));
    let panic = (PanicStep::ContainerGc, "uid-web".to_owned());
    assert_eq!(panics.all(), [panic.clone(), panic]);
}

// behaviour: WRK-38
#[tokio::test(start_paused = true)]
async fn panic_in_a_decision_keeps_all_objects_of_its_pod() {
    let mut bench = Bench::new(Pods::ready(), keep(0));
    let (panics, guard) = KeptPanics::guard();
    bench.parts.panics = guard;
    let (_, web) = bench.dead_pod("web", 2).await;
    bench.dead_pod("other", 2).await;
    bench.parts.pods = Arc::new(PanickingPodStates(Pods::ready(), "uid-web"));
    let report = bench.pass(false).await;
    assert_eq!((report.failed(), report.problems.len()), (0, 0), "{report:?}");
    let left: BTreeSet<ContainerId> = bench.containers().into_iter().collect();
    assert_eq!((left, bench.sandboxes()), (web.into_iter().collect(), 1));
    let logs = "/var/log/pods/default_web_uid-web/main/1.log";
    assert!(bench.files.content(logs).is_some());
    let reports = panics.all();
    assert!(!reports.is_empty());
    let panic = (PanicStep::ContainerGc, "uid-web".to_owned());
    assert!(reports.iter().all(|one| *one == panic), "{reports:?}");
    bench.parts.pods = Arc::new(Pods::ready());
    bench.pass(false).await;
    assert_eq!((bench.containers().len(), bench.sandboxes()), (0, 0));
}
