//! Tests of the page and the picture that are made from raw numbers.

use std::collections::BTreeMap;

use crate::judge::{Judgement, worst};
use crate::metrics::{CPU, RESIDENT, TO_CREATE, rows};
use crate::plan::{HOLLOW_100, HOLLOW_1000, PODS_30, Plan};
use crate::plot::svg;
use crate::report::{markdown, short};
use crate::results::{
    About, Agent, Asleep, Converged, Death, Machine, Memory, Results, RoundStart, Run, Steady,
};
use crate::targets::{Measure, Verdict, judge};

/// A run in which the kubelet costs `upstream` times as much as ferrolet.
fn run(round: u32, scenario: &str, agent: Agent, upstream: f64) -> Run {
    let times = if agent == Agent::Upstream { upstream } else { 1.0 };
    let pods: usize = scenario.split(' ').next().unwrap().parse().unwrap_or_default();
    let converged = |containers| Converged {
        containers,
        seconds: 2.0 * times,
        cpu_seconds: 0.5 * times,
        calls: 10,
    };
    let mebibytes = if agent == Agent::Upstream { 80 } else { 16 };
    Run {
        round,
        scenario: scenario.to_owned(),
        agent,
        start: converged(pods),
        steady: Steady {
            seconds: 150.0,
            cpu_seconds: 0.05 * times,
            memory: Memory {
                rss_bytes: mebibytes << 20,
                pss_bytes: mebibytes << 19,
                anonymous_bytes: 1 << 20,
                peak_rss_bytes: mebibytes << 20,
            },
            calls: BTreeMap::from([
                ("ListContainers".to_owned(), 75),
                ("ListPodSandbox".to_owned(), 2),
            ]),
            sent_bytes: 512,
            received_bytes: 512,
            asleep: Some(Asleep { cpu_seconds: 0.0, rss_bytes: 1 << 20 }),
        },
        deaths: if scenario == PODS_30 {
            vec![death(0.01, times), death(0.03, times)]
        } else {
            Vec::new()
        },
        restart: (scenario == HOLLOW_1000).then(|| converged(10)),
    }
}

fn death(seconds: f64, times: f64) -> Death {
    Death {
        event_seconds: seconds / 2.0,
        create_seconds: seconds * times,
        running_seconds: seconds * times * 10.0,
    }
}

/// Three quiet rounds, in which the kubelet costs 20, 12.5 and 40 times as much.
pub(crate) fn results() -> Results {
    let scenarios = Plan::full(3).scenarios;
    let mut runs = Vec::new();
    for (round, upstream) in [(1, 20.0), (2, 12.5), (3, 40.0)] {
        for scenario in &scenarios {
            for agent in Agent::BOTH {
                runs.push(run(round, &scenario.name, agent, upstream));
            }
        }
    }
    Results { about: quiet_rounds(3), scenarios, runs }
}

/// So many rounds, each on a quiet machine.
pub(crate) fn quiet_rounds(count: usize) -> About {
    let about = about();
    let start = RoundStart { date: about.date.clone(), machine: about.machine.clone() };
    About { rounds: vec![start; count], ..about }
}

pub(crate) fn about() -> About {
    let machine = Machine {
        cores: 2,
        processor: "some processor".into(),
        kernel: "6.1.0".into(),
        memory_bytes: 24 << 30,
        load_before: 0.25,
    };
    About {
        commit: "abc123".into(),
        date: "2026-01-02 03:04 UTC".into(),
        seconds: 600.0,
        ferrolet: "Kubernetes v1.36.3, ferrolet 0.1.0".into(),
        upstream: "Kubernetes v1.36.3".into(),
        machine,
        binary: "0123456789abcdef".into(),
        rounds: Vec::new(),
    }
}

#[test]
fn ratio_is_the_median_of_the_ratios_of_all_rounds() {
    let results = results();
    let rows = rows(&results);
    let row = rows.iter().find(|row| row.scenario == PODS_30 && row.metric == TO_CREATE).unwrap();
    let close = |a: f64, b: f64| (a - b).abs() < 1e-9;
    // The mean of 10 and 30 ms.
    assert!(close(row.ferrolet.median, 20.0), "{row:?}");
    assert!(close(row.upstream.median, 400.0), "{row:?}");
    let ratio = row.ratio.unwrap();
    assert!(close(ratio.min, 0.025) && close(ratio.median, 0.05) && close(ratio.max, 0.08));
    let cpu = rows.iter().find(|row| row.metric == CPU).unwrap();
    assert!(close(cpu.ferrolet.median, 20.0), "{cpu:?}");
}

#[test]
fn round_without_one_agent_has_no_ratio() {
    let mut results = results();
    results.runs.retain(|run| run.agent == Agent::Ferrolet || run.round == 3);
    let rows = rows(&results);
    let row = rows.iter().find(|row| row.metric == CPU).unwrap();
    let ratio = row.ratio.unwrap();
    assert!(ratio.min.to_bits() == ratio.max.to_bits(), "{ratio:?}");
}

#[test]
fn targets_are_met_missed_or_not_measured() {
    let mut results = results();
    let verdicts = judge(&results);
    let is_met = |verdict: &Verdict| verdict.judgement() == Judgement::Met;
    assert!(verdicts.iter().all(is_met), "{verdicts:#?}");
    // With 2.5 times the CPU in the large scenario, the growth exceeds its limit, the ratio does not.
    let large = |run: &&mut Run| run.scenario == HOLLOW_1000 && run.agent == Agent::Ferrolet;
    results.runs.iter_mut().filter(large).for_each(|run| run.steady.cpu_seconds = 0.125);
    let page = markdown(&results, "x");
    let missed: Vec<&str> = page.lines().filter(|line| line.contains("**missed**")).collect();
    assert_eq!(missed.len(), 2, "{missed:#?}");
    let growth = |verdict: &&Verdict| verdict.target.measure == Measure::GrowthFrom(HOLLOW_100);
    let verdicts = judge(&results);
    let verdict = verdicts.iter().find(growth).unwrap();
    assert!((worst(&verdict.measured).unwrap() - 2.5).abs() < 1e-9);
    assert_eq!(verdict.judgement(), Judgement::Missed);
    results.runs.retain(|run| run.scenario == PODS_30);
    let page = markdown(&results, "x");
    assert_eq!(page.matches("not measured").count(), 3, "{page}");
}

#[test]
fn page_has_facts_targets_and_a_table_for_each_scenario() {
    let page = markdown(&results(), "standalone");
    for part in [
        "| commit | abc123 |",
        "| machine | 2 cores (some processor), 24 GiB, Linux 6.1.0 |",
        "| rounds | 3, in 10 minutes |",
        "[standalone.json](standalone.json)",
        "![ferrolet's share of upstream's cost](standalone.svg)",
        "| load before | 0.25, 0.25, 0.25 |",
        "| 30 pods: resident memory, MiB | 20.0 | 16.0 | 16.0, 16.0, 16.0 | met |",
        "| 30 pods: CPU, ms per minute, of upstream's | 0.150 | 0.080 | 0.050, 0.080, 0.025 | met |",
        "| CPU, ms per minute | 0.000 | 20.0 | 20.0–20.0 | 400 | 250–800 | 0.050 | 0.025–0.080 |",
        "| resident memory, MiB | 1.00 | 16.0 |",
        "## idle",
        "## 1000 pods, hollow",
        "| restart to converged, s |  | 2.00 | 2.00–2.00 | 40.0 | 25.0–80.0 | 0.050 | 0.025–0.080 |",
        "| ListContainers | 30.0 | 30.0 |",
    ] {
        assert!(page.contains(part), "{part} is not in:\n{page}");
    }
    // Without pods there is no start, no death and no restart.
    let idle = page.split("## ").find(|part| part.starts_with("idle")).unwrap();
    assert_eq!(idle.lines().filter(|line| line.starts_with("| ")).count(), 6, "{idle}");
}

#[test]
fn picture_has_a_bar_for_each_ratio_and_a_mark_for_its_target() {
    let results = results();
    let picture = svg(&results);
    let ratios = rows(&results).iter().filter(|row| row.ratio.is_some()).count();
    assert_eq!(picture.matches("fill=\"#4a7ebb\"").count(), ratios);
    assert_eq!(picture.matches("stroke=\"#c33\"").count(), 5);
    assert_eq!(picture.matches("<text").count(), picture.matches("</text>").count());
    assert!(picture.contains(RESIDENT) && !picture.contains("NaN"), "{picture}");
}

#[test]
fn numbers_are_rounded() {
    let rows = [
        (1234.5, "1234"),
        (99.94, "99.9"),
        (1.234, "1.23"),
        (0.0456, "0.046"),
        (0.0, "0.000"),
        (0.001_23, "0.0012"),
    ];
    for (value, text) in rows {
        assert_eq!(short(value), text);
    }
}

#[test]
fn target_reports_when_the_runtime_without_agent_exceeds_it() {
    let mut results = results();
    let ours = |run: &&mut Run| run.scenario == PODS_30 && run.agent == Agent::Ferrolet;
    for run in results.runs.iter_mut().filter(ours) {
        // Upstream takes 400 ms in the middle round.
        run.deaths =
            vec![Death { event_seconds: 0.05, create_seconds: 0.054, running_seconds: 0.06 }];
    }
    let page = markdown(&results, "x");
    let missed = page.lines().find(|line| line.contains("**missed**")).unwrap();
    assert!(
        missed.ends_with("**missed**; 0.125 of it pass before the runtime reports the death |")
    );
}
