//! A runtime that becomes unavailable during a pass.

use model::ports::runtime::Code;
use testkit::runtime::{Fault, Rule};

use super::*;

fn away(method: Method) -> Rule {
    Rule::on(method, Fault::error(Code::Unavailable))
}

// behaviour: GC-100
#[tokio::test(start_paused = true)]
async fn pass_ends_and_fails_when_the_runtime_is_away() {
    for method in [Method::ContainerStatus, Method::RemoveContainer] {
        let bench = Bench::new(Pods::ready().active(&["uid-web"]), keep(0));
        bench.dead_pod("web", 40).await;
        bench.runtime.inject(away(method));
        let report = bench.pass(false).await;
        assert_eq!(report.removed(), 0, "{report:?}");
        assert!((5..=8).contains(&report.failed()), "{report:?}");
        assert!(bench.runtime.count(method) <= 8);
        assert_eq!(bench.calls(&[Method::RemovePodSandbox]), [], "{method:?}");
        let problems: Vec<String> = report.problems.iter().map(ToString::to_string).collect();
        let [problem] = &*problems else { panic!("{problems:?}") };
        assert!(problem.starts_with("the container runtime is unavailable"), "{problem}");
        assert!(!report.is_complete());
        bench.runtime.clear_faults();
        let report = bench.pass(false).await;
        assert_eq!((report.failed(), report.problems.len()), (0, 0), "{report:?}");
        assert_eq!((bench.containers(), bench.sandboxes()), (vec![], 1));
    }
}

// behaviour: GC-100
#[tokio::test(start_paused = true)]
async fn pass_ends_among_sandboxes_when_the_runtime_is_away() {
    let bench = Bench::new(Pods::ready(), keep(1));
    for pod in 0..40 {
        bench.dead_pod(&format!("p{pod}"), 0).await;
    }
    bench.runtime.inject(away(Method::RemovePodSandbox));
    let report = bench.pass(false).await;
    assert!((5..=8).contains(&report.failed()), "{report:?}");
    assert_eq!(report.problems.len(), 1);
}

// behaviour: GC-100
#[tokio::test(start_paused = true)]
async fn pass_continues_after_other_failures() {
    let bench = Bench::new(Pods::ready().active(&["uid-web"]), keep(0));
    let (_, ids) = bench.dead_pod("web", 40).await;
    for (number, id) in ids.iter().enumerate() {
        // Every fifth call works, so the runtime is available.
        if number % 5 != 4 {
            bench.runtime.inject(away(Method::RemoveContainer).object(id.as_str()));
        }
    }
    let report = bench.pass(false).await;
    assert_eq!((report.removed(), report.failed(), report.problems.len()), (8, 32, 0));
    let bench = Bench::new(Pods::ready().active(&["uid-web"]), keep(0));
    bench.dead_pod("web", 40).await;
    bench.runtime.inject(Rule::on(Method::RemoveContainer, Fault::error(Code::Internal)));
    let report = bench.pass(false).await;
    assert_eq!((report.removed(), report.failed(), report.problems.len()), (0, 40, 0));
}
