//! The benchmark with tiny plans: every scenario with both agents. Nothing here depends on the speed of this machine.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test of the whole")]

use std::path::Path;

use bench::agent::Programs;
use bench::cluster::{self, ClusterPlan, of_pods};
use bench::garbage::GarbagePlan;
use bench::logs::{self, LogsPlan, Setting};
use bench::metrics::rows;
use bench::node_api::{self, NodeApiPlan};
use bench::plan::{On, Plan};
use bench::pod_gc::{self, PodGcPlan};
use bench::probes::{self, ProbesPlan};
use bench::results::{Agent, Results, Run};
use bench::rounds::Session;
use bench::targets::{Measure, judge};
use bench::{
    cluster_report, garbage, garbage_report, logs_report, node_api_report, plot, pod_gc_report,
    probes_report, report, rounds,
};

#[test]
fn tiny_run_measures_both_agents() {
    let program = std::env::current_exe().unwrap();
    let built = program.parent().and_then(Path::parent).unwrap();
    let plan = Plan::tiny();
    let results =
        rounds::play(&plan, &Programs::built_in(built).unwrap(), &Session::default()).unwrap();
    assert_eq!(results.runs.len(), plan.scenarios.len() * 2);
    for run in &results.runs {
        check(&plan, run);
    }
    let rows = rows(&results);
    for scenario in &plan.scenarios {
        let names: Vec<&str> =
            rows.iter().filter(|r| r.scenario == scenario.name).map(|r| r.metric).collect();
        let starts = usize::from(scenario.pods > 0) * 2;
        let deaths = usize::from(scenario.deaths > 0) * 3;
        let restarts = usize::from(scenario.died_meanwhile > 0) * 2;
        assert_eq!(names.len(), 5 + starts + deaths + restarts, "{}: {names:?}", scenario.name);
    }
    let text = serde_json::to_string(&results).unwrap();
    let again = serde_json::from_str::<Results>(&text).unwrap();
    assert_eq!(report::markdown(&again, "tiny"), report::markdown(&results, "tiny"));
    for verdict in judge(&results) {
        // An empty scenario cannot grow.
        let may_lack = matches!(verdict.target.measure, Measure::GrowthFrom(_));
        assert!(!verdict.measured.is_empty() || may_lack, "{verdict:?}");
    }
    let page = report::markdown(&results, "tiny");
    assert!(page.contains("## 30 pods") && page.contains("death to CreateContainer"), "{page}");
    assert!(plot::svg(&results).ends_with("</svg>\n"));
}

#[test]
fn garbage_benchmark_reports_both_agents_and_ferrolet_removes_all_containers() {
    let program = std::env::current_exe().unwrap();
    let built = program.parent().and_then(Path::parent).unwrap();
    let plan = GarbagePlan::tiny();
    let results =
        garbage::play(&plan, &Programs::built_in(built).unwrap(), &Session::default()).unwrap();
    let [ours, theirs] = &results.runs[..] else { panic!("{results:?}") };
    assert_eq!((ours.agent, theirs.agent), (Agent::Ferrolet, Agent::Upstream));
    assert_eq!(ours.collected.left, 0, "{ours:?}");
    // Two parts of the agent may try to remove the same container.
    assert!(ours.collected.calls["RemoveContainer"] >= plan.containers() as u64, "{ours:?}");
    assert!(ours.collected.seconds.is_some(), "{ours:?}");
    // The kubelet keeps the last instance of each container until its second pass, a minute later.
    assert!(theirs.collected.left <= plan.pods, "{theirs:?}");
    for run in [ours, theirs] {
        assert!(run.collected.cpu_seconds > 0.0 && run.empty.rss_bytes > 1 << 20, "{run:?}");
    }
    assert!(garbage_report::markdown(&results, "tiny").contains("| containers left | 0"));
}

fn check(plan: &Plan, run: &Run) {
    let scenario = plan.scenarios.iter().find(|one| one.name == run.scenario).unwrap();
    let steady = &run.steady;
    assert!(steady.seconds >= scenario.window.as_secs_f64(), "{run:?}");
    assert!(steady.cpu_seconds < 60.0, "{run:?}");
    assert!(steady.memory.rss_bytes > 1 << 20, "{run:?}");
    assert!(steady.memory.pss_bytes <= steady.memory.rss_bytes, "{run:?}");
    assert!(steady.memory.peak_rss_bytes > 1 << 20, "{run:?}");
    let asleep = steady.asleep.unwrap();
    assert!(asleep.rss_bytes > 0 && asleep.rss_bytes < steady.memory.rss_bytes, "{run:?}");
    // The kubelet relists every second. Ferrolet may make no call for that long.
    if run.agent == Agent::Upstream {
        assert!(steady.cpu_seconds > 0.0, "{run:?}");
        assert!(steady.calls["ListPodSandbox"] >= 1, "{run:?}");
        assert!(steady.sent_bytes > 0 && steady.received_bytes > 0, "{run:?}");
    }
    assert_eq!(run.start.containers, scenario.pods);
    // Each pod takes at least a sandbox, a container and its start.
    assert!(run.start.calls > 3 * scenario.pods as u64, "{run:?}");
    assert!(run.start.cpu_seconds > 0.0 && run.start.seconds > 0.0, "{run:?}");
    assert_eq!(run.deaths.len(), scenario.deaths);
    for death in &run.deaths {
        assert!(death.create_seconds > 0.0, "{run:?}");
        assert!(death.running_seconds > death.create_seconds, "{run:?}");
    }
    let restarted = run.restart.as_ref().map_or(0, |restart| restart.containers);
    assert_eq!(restarted, scenario.died_meanwhile);
    assert!(restarted == 0 || scenario.on == On::Hollow);
}

#[test]
fn tiny_pod_gc_run_measures_both_controllers() {
    let program = std::env::current_exe().unwrap();
    let built = program.parent().and_then(Path::parent).unwrap();
    let programs = pod_gc::Programs::built_in(built).unwrap();
    let plan = PodGcPlan::tiny();
    let results = pod_gc::play(&plan, &programs, &Session::default()).unwrap();
    assert_eq!(results.quiet.len(), 2);
    assert!(results.quiet.iter().all(|quiet| quiet.memory.rss_bytes > 0));
    assert_eq!(results.deletions.len(), 3 * plan.deletion_rounds);
    let page = pod_gc_report::markdown(&results, "tiny");
    assert!(page.contains("| 30 | 1 | ferrolet |") && page.contains("bare calls"), "{page}");
}

#[test]
fn tiny_cluster_run_measures_both_agents_and_bare_calls() {
    let program = std::env::current_exe().unwrap();
    let built = program.parent().and_then(Path::parent).unwrap();
    let plan = ClusterPlan::tiny();
    let results =
        cluster::play(&plan, &Programs::built_in(built).unwrap(), &Session::default()).unwrap();
    let [round] = &results.rounds[..] else { panic!("{results:?}") };
    let [block] = &results.blocks[..] else { panic!("{results:?}") };
    for times in [&block.floor, &block.ferrolet, &block.upstream] {
        assert_eq!((times.start_one.len(), times.delete_one.len()), (1, 1));
        let all = times.start_one.iter().chain(&times.delete_one);
        let all = all.chain([&times.start_all, &times.delete_all]);
        assert!(all.into_iter().all(|seconds| *seconds > 0.0), "{times:?}");
    }
    for run in [&round.ferrolet, &round.upstream] {
        assert!(run.idle.memory.rss_bytes > 1 << 20 && run.full.memory.rss_bytes > 1 << 20);
        assert!(run.start_all_cpu_seconds > 0.0 && run.delete_all_cpu_seconds > 0.0, "{run:?}");
        // Each pod has at least one status update and is deleted.
        let pods = plan.at_once as u64;
        assert!(run.requests["patch pods/status"] >= pods, "{run:?}");
        assert!(run.requests["delete pods"] >= pods, "{run:?}");
        assert!(of_pods(&run.requests) >= 2 * pods, "{run:?}");
    }
    let page = cluster_report::markdown(&results, "tiny");
    assert!(page.contains("| one pod, create to Ready, s |"), "{page}");
    assert!(cluster_report::svg(&results).ends_with("</svg>\n"));
}

#[test]
fn tiny_node_api_run_measures_both_agents() {
    let program = std::env::current_exe().unwrap();
    let built = program.parent().and_then(Path::parent).unwrap();
    let plan = NodeApiPlan::tiny();
    let results =
        node_api::play(&plan, &Programs::built_in(built).unwrap(), &Session::default()).unwrap();
    let [ours, theirs] = &results.runs[..] else { panic!("{results:?}") };
    for run in [ours, theirs] {
        assert!(run.read_cpu_seconds > 0.0, "{run:?}");
        assert_eq!(run.exec_seconds.len(), plan.execs);
        assert!(run.quiet_rss_bytes > 1 << 20 && run.followed_rss_bytes > 1 << 20, "{run:?}");
    }
    assert!(node_api_report::markdown(&results, "tiny").contains("| exec, median, ms |"));
}

#[test]
fn tiny_run_of_probes_measures_both_agents() {
    let program = std::env::current_exe().unwrap();
    let built = program.parent().and_then(Path::parent).unwrap();
    let plan = ProbesPlan::tiny();
    let results =
        probes::play(&plan, &Programs::built_in(built).unwrap(), &Session::default()).unwrap();
    let [ours, theirs] = &results.runs[..] else { panic!("{results:?}") };
    assert_eq!((ours.agent, theirs.agent), (Agent::Ferrolet, Agent::Upstream));
    for run in [ours, theirs] {
        for cost in [run.http, run.mixed, run.exec] {
            assert!(
                cost.attempts > 0 && cost.cpu_seconds > 0.0 && cost.rss_bytes > 1 << 20,
                "{run:?}"
            );
        }
        // The agent closes the connection of a TCP probe first, which leaves a socket.
        assert!(run.time_wait.client > 0, "{run:?}");
    }
    let [bare] = &results.bare[..] else { panic!("{results:?}") };
    assert!(bare.http.attempts > 0 && bare.http.cpu_seconds > 0.0, "{bare:?}");
    assert!(probes_report::markdown(&results, "tiny").contains("| sockets in TIME_WAIT |"));
}

#[test]
fn tiny_run_of_logs_measures_both_agents_with_each_setting() {
    let program = std::env::current_exe().unwrap();
    let built = program.parent().and_then(Path::parent).unwrap();
    let plan = LogsPlan::tiny();
    let results =
        logs::play(&plan, &Programs::built_in(built).unwrap(), &Session::default()).unwrap();
    assert_eq!(results.runs.len(), 2 * Setting::ALL.len());
    for run in &results.runs {
        assert!(run.seconds >= 1.0 && run.rss_bytes > 1 << 20, "{run:?}");
    }
    assert!(logs_report::markdown(&results, "tiny").contains("| CPU of logs, of upstream's |"));
}
