//! The program `bench`. See the library.
#![allow(clippy::disallowed_methods, reason = "a measuring tool works on real files")]

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bench::agent::Programs;
use bench::cluster::status::{self, StatusPlan};
use bench::cluster::volumes::{self, VolumesPlan};
use bench::cluster::{self, ClusterPlan, ClusterResults};
use bench::collect::{Collect, collect};
use bench::garbage::GarbagePlan;
use bench::judge::{Judgement, every};
use bench::logs::{self, LogsPlan};
use bench::machine::PATIENCE;
use bench::node_api::{self, NodeApiPlan};
use bench::plan::Plan;
use bench::pod_gc::{self, PodGcPlan};
use bench::probes::{self, ProbesPlan};
use bench::results::Results;
use bench::rounds::Session;
use bench::verdict::Verdict;
use bench::{
    cluster_report, garbage, garbage_report, logs_report, node_api_report, plot, pod_gc_report,
    probes_report, report, rounds, status_report, targets, volumes_report,
};
use lexopt::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;

const USAGE: &str = "\
usage: bench --out DIR [--name NAME] [--rounds N] [--scenario PART] [--commit ID] [--binary ID] [--tiny]
       bench --out DIR [--name NAME] --garbage [--rounds N] [--commit ID] [--binary ID] [--tiny]
       bench --out DIR [--name NAME] --pod-gc [--commit ID] [--binary ID] [--tiny]
       bench --out DIR [--name NAME] --cluster [--rounds N] [--commit ID] [--binary ID] [--tiny]
       bench --out DIR [--name NAME] --node-api [--rounds N] [--commit ID] [--binary ID] [--tiny]
       bench --out DIR [--name NAME] --probes [--rounds N] [--commit ID] [--binary ID] [--tiny]
       bench --out DIR [--name NAME] --volumes [--rounds N] [--commit ID] [--binary ID] [--tiny]
       bench --out DIR [--name NAME] --status [--rounds N] [--commit ID] [--binary ID] [--tiny]
       bench --out DIR [--name NAME] --logs [--rounds N] [--commit ID] [--binary ID] [--tiny]
       bench --out DIR [--name NAME] --render [--garbage | --pod-gc | --cluster | --node-api | --probes
                                               | --volumes | --status | --logs]
  Measures ferrolet, from the directory of this program, and the upstream kubelet side by side, and
  writes NAME.json, NAME.md and NAME.svg (standalone) to DIR. Needs root. Each round waits some minutes for a
  load below 1. Ends with code 3 when all is written and a target was missed, unless it was --tiny.

  --garbage          on a node full of dead containers (NAME: garbage; no picture)
  --pod-gc           the Pod GC controller and the controller manager's (NAME: pod-gc; no picture)
  --cluster          as nodes of a cluster (NAME: cluster)
  --node-api         as servers of the node's API (NAME: node-api; no picture)
  --probes           with 1,000 probed containers (NAME: probes; no picture)
  --volumes          with pods that have a token volume (NAME: volumes; no picture)
  --status           with pods whose statuses change (NAME: status; no picture)
  --logs             with 200 containers that write logs (NAME: logs; no picture)

  --rounds N         how often (3)
  --scenario PART    only scenarios with PART in their names
  --commit ID        what is measured, for the record
  --binary ID        the digest of the measured program, for the record. Rounds are added to those in NAME.json
                     if commit, digest, upstream, plan and cores are the same; otherwise they replace them
  --tiny             few pods and short times: does it work?
  --render           only write the page and the picture again from NAME.json";

/// The exit code when all was measured and written, and a target was missed.
const MISSED: u8 = 3;

/// The benchmarks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Benchmark {
    /// Agents on a node without a cluster.
    #[default]
    Standalone,
    /// Agents on a node full of dead containers.
    Garbage,
    /// Controllers on an API server full of pods.
    PodGc,
    /// Agents as nodes of a cluster.
    Cluster,
    /// Agents as servers of the node's API.
    NodeApi,
    /// Agents that probe many containers.
    Probes,
    /// Agents that start default pods.
    Volumes,
    /// Agents that report statuses.
    Status,
    /// Agents that rotate logs.
    Logs,
}

#[derive(Debug, Default)]
struct Arguments {
    out: Option<PathBuf>,
    name: Option<String>,
    rounds: Option<u32>,
    scenario: String,
    commit: String,
    binary: String,
    tiny: bool,
    what: Benchmark,
    render: bool,
}

fn main() -> ExitCode {
    match arguments(std::env::args_os().skip(1))
        .and_then(|arguments| arguments.map_or(Ok(true), run))
    {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(MISSED),
        Err(error) => {
            eprintln!("bench: {error:?}");
            ExitCode::FAILURE
        }
    }
}

/// Reads the command line; nothing if help was requested.
fn arguments(args: impl Iterator<Item = OsString>) -> Result<Option<Arguments>> {
    let mut arguments = Arguments::default();
    let mut parser = lexopt::Parser::from_args(args);
    while let Some(arg) = parser.next()? {
        match arg {
            Long("out") => arguments.out = Some(parser.value()?.into()),
            Long("name") => arguments.name = Some(parser.value()?.string()?),
            Long("rounds") => arguments.rounds = Some(parser.value()?.parse()?),
            Long("scenario") => arguments.scenario = parser.value()?.string()?,
            Long("commit") => arguments.commit = parser.value()?.string()?,
            Long("binary") => arguments.binary = parser.value()?.string()?,
            Long("tiny") => arguments.tiny = true,
            Long("garbage") => arguments.what = Benchmark::Garbage,
            Long("pod-gc") => arguments.what = Benchmark::PodGc,
            Long("cluster") => arguments.what = Benchmark::Cluster,
            Long("node-api") => arguments.what = Benchmark::NodeApi,
            Long("probes") => arguments.what = Benchmark::Probes,
            Long("volumes") => arguments.what = Benchmark::Volumes,
            Long("status") => arguments.what = Benchmark::Status,
            Long("logs") => arguments.what = Benchmark::Logs,
            Long("render") => arguments.render = true,
            Long("help") | Short('h') => {
                println!("{USAGE}");
                return Ok(None);
            }
            other => return Err(other.unexpected()).context(USAGE),
        }
    }
    Ok(Some(arguments))
}

/// Measures; returns whether all targets were met. A tiny plan has none.
fn run(arguments: Arguments) -> Result<bool> {
    let tiny = arguments.tiny;
    let met = match arguments.what {
        Benchmark::Standalone => standalone(arguments),
        Benchmark::Garbage => garbage(arguments),
        Benchmark::PodGc => pod_gc(arguments),
        Benchmark::Cluster => cluster(arguments),
        Benchmark::NodeApi => node_api(arguments),
        Benchmark::Probes => probes(arguments),
        Benchmark::Volumes => volumes(arguments),
        Benchmark::Status => status(arguments),
        Benchmark::Logs => logs(arguments),
    }?;
    Ok(met || tiny)
}

impl Arguments {
    fn session(&self) -> Session {
        let patience = if self.tiny { Duration::ZERO } else { PATIENCE };
        Session { commit: self.commit.clone(), patience }
    }
}

/// Prints the judgement of a target. Returns whether it was not missed.
fn was_not_missed(judgement: &Judgement, what: &str) -> bool {
    match judgement {
        Judgement::Met => println!("met    {what}"),
        Judgement::Missed => println!("MISSED {what}"),
        Judgement::NotJudged(why) => println!("not judged ({why}) {what}"),
    }
    *judgement != Judgement::Missed
}

fn cluster(arguments: Arguments) -> Result<bool> {
    let session = arguments.session();
    let out = arguments.out.context(USAGE)?;
    let name = arguments.name.unwrap_or_else(|| "cluster".to_owned());
    let data = out.join(format!("{name}.json"));
    let results = if arguments.render {
        read(&data)?
    } else {
        let mut plan = if arguments.tiny { ClusterPlan::tiny() } else { ClusterPlan::full(3) };
        plan.rounds = arguments.rounds.unwrap_or(plan.rounds);
        measured(&out, &data, arguments.binary, |stored| {
            plan.earlier_blocks = stored.map_or(0, |stored: &ClusterResults| stored.blocks.len());
            cluster::play(&plan, &programs()?, &session)
        })?
    };
    write(&out.join(format!("{name}.md")), &cluster_report::markdown(&results, &name))?;
    write(&out.join(format!("{name}.svg")), &cluster_report::svg(&results))?;
    let mut met = true;
    for row in cluster_report::rows(&results) {
        if let (Some(limit), Some(judgement)) = (row.metric.limit, row.judgement()) {
            let (all, limit) = (every(&row.measured), report::short(limit));
            let what = format!("{}: {all}, at most {limit}", row.metric.described());
            met &= was_not_missed(&judgement, &what);
        }
    }
    Ok(met)
}

fn pod_gc(arguments: Arguments) -> Result<bool> {
    let session = arguments.session();
    let out = arguments.out.context(USAGE)?;
    let name = arguments.name.unwrap_or_else(|| "pod-gc".to_owned());
    let data = out.join(format!("{name}.json"));
    let results = if arguments.render {
        read(&data)?
    } else {
        let plan = if arguments.tiny { PodGcPlan::tiny() } else { PodGcPlan::full() };
        let own = std::env::current_exe().context("find this program")?;
        let built = own.parent().context("find this program's directory")?;
        let programs = pod_gc::Programs::built_in(built)?;
        measured(&out, &data, arguments.binary, |_| pod_gc::play(&plan, &programs, &session))?
    };
    write(&out.join(format!("{name}.md")), &pod_gc_report::markdown(&results, &name))?;
    let mut met = true;
    for verdict in pod_gc_report::verdicts(&results) {
        let (pods, all, allowed) = (verdict.pods, every(&verdict.measured), verdict.allowed);
        let what = format!("{all} of upstream's memory at {pods} pods, {allowed} allowed");
        met &= was_not_missed(&verdict.judgement(), &what);
    }
    Ok(met)
}

fn garbage(arguments: Arguments) -> Result<bool> {
    let session = arguments.session();
    let out = arguments.out.context(USAGE)?;
    let name = arguments.name.unwrap_or_else(|| "garbage".to_owned());
    let data = out.join(format!("{name}.json"));
    let results = if arguments.render {
        read(&data)?
    } else {
        let mut plan = if arguments.tiny { GarbagePlan::tiny() } else { GarbagePlan::full(3) };
        plan.rounds = arguments.rounds.unwrap_or(plan.rounds);
        measured(&out, &data, arguments.binary, |_| garbage::play(&plan, &programs()?, &session))?
    };
    write(&out.join(format!("{name}.md")), &garbage_report::markdown(&results, &name))?;
    let (growth, judgement) = garbage_report::verdict(&results);
    Ok(was_not_missed(&judgement, &format!("memory grows by {} MiB", every(&growth))))
}

fn node_api(arguments: Arguments) -> Result<bool> {
    let session = arguments.session();
    let out = arguments.out.context(USAGE)?;
    let name = arguments.name.unwrap_or_else(|| "node-api".to_owned());
    let data = out.join(format!("{name}.json"));
    let results = if arguments.render {
        read(&data)?
    } else {
        let mut plan = if arguments.tiny { NodeApiPlan::tiny() } else { NodeApiPlan::full(3) };
        plan.rounds = arguments.rounds.unwrap_or(plan.rounds);
        measured(&out, &data, arguments.binary, |_| node_api::play(&plan, &programs()?, &session))?
    };
    write(&out.join(format!("{name}.md")), &node_api_report::markdown(&results, &name))?;
    let mut met = true;
    for verdict in node_api_report::verdicts(&results) {
        let (all, limit) = (every(&verdict.measured), report::short(verdict.limit));
        let what = format!("{}: {all} of upstream's, at most {limit}", verdict.name);
        met &= was_not_missed(&verdict.judgement(), &what);
    }
    Ok(met)
}

fn probes(arguments: Arguments) -> Result<bool> {
    let session = arguments.session();
    let out = arguments.out.context(USAGE)?;
    let name = arguments.name.unwrap_or_else(|| "probes".to_owned());
    let data = out.join(format!("{name}.json"));
    let results = if arguments.render {
        read(&data)?
    } else {
        let mut plan = if arguments.tiny { ProbesPlan::tiny() } else { ProbesPlan::full(3) };
        plan.rounds = arguments.rounds.unwrap_or(plan.rounds);
        measured(&out, &data, arguments.binary, |_| probes::play(&plan, &programs()?, &session))?
    };
    write(&out.join(format!("{name}.md")), &probes_report::markdown(&results, &name))?;
    let mut met = true;
    for verdict in probes_report::verdicts(&results) {
        let (all, limit) = (every(&verdict.measured), report::short(verdict.target.limit));
        let what = format!("{}: {all} of upstream's, at most {limit}", verdict.target.name);
        met &= was_not_missed(&verdict.judgement(), &what);
    }
    Ok(met)
}

fn volumes(arguments: Arguments) -> Result<bool> {
    let mut plan = if arguments.tiny { VolumesPlan::tiny() } else { VolumesPlan::full(3) };
    plan.rounds = arguments.rounds.unwrap_or(plan.rounds);
    let page = Page {
        name: "volumes",
        markdown: volumes_report::markdown,
        verdicts: volumes_report::verdicts,
    };
    paged(arguments, &page, |session| volumes::play(&plan, &programs()?, session))
}

fn status(arguments: Arguments) -> Result<bool> {
    let mut plan = if arguments.tiny { StatusPlan::tiny() } else { StatusPlan::full(3) };
    plan.rounds = arguments.rounds.unwrap_or(plan.rounds);
    let page = Page {
        name: "status",
        markdown: status_report::markdown,
        verdicts: status_report::verdicts,
    };
    paged(arguments, &page, |session| status::play(&plan, &programs()?, session))
}

fn logs(arguments: Arguments) -> Result<bool> {
    let mut plan = if arguments.tiny { LogsPlan::tiny() } else { LogsPlan::full(3) };
    plan.rounds = arguments.rounds.unwrap_or(plan.rounds);
    let page =
        Page { name: "logs", markdown: logs_report::markdown, verdicts: logs_report::verdicts };
    paged(arguments, &page, |session| logs::play(&plan, &programs()?, session))
}

/// The page of a part.
struct Page<R> {
    name: &'static str,
    markdown: fn(&R, &str) -> String,
    verdicts: fn(&R) -> Vec<Verdict>,
}

/// Measures a part, writes its page and prints its targets.
fn paged<R: Collect + Serialize + DeserializeOwned>(
    arguments: Arguments,
    page: &Page<R>,
    play: impl FnOnce(&Session) -> Result<R>,
) -> Result<bool> {
    let session = arguments.session();
    let out = arguments.out.context(USAGE)?;
    let name = arguments.name.unwrap_or_else(|| page.name.to_owned());
    let data = out.join(format!("{name}.json"));
    let results = if arguments.render {
        read(&data)?
    } else {
        measured(&out, &data, arguments.binary, |_| play(&session))?
    };
    write(&out.join(format!("{name}.md")), &(page.markdown)(&results, &name))?;
    let mut met = true;
    for verdict in (page.verdicts)(&results) {
        met &= was_not_missed(&verdict.judgement(), &verdict.described());
    }
    Ok(met)
}

/// Measures a plan, adds its rounds to the stored ones of the same program, and stores them all.
fn measured<R: Collect + Serialize + DeserializeOwned>(
    out: &Path,
    data: &Path,
    binary: String,
    play: impl FnOnce(Option<&R>) -> Result<R>,
) -> Result<R> {
    // An unreadable file is an error before the hour of measurements.
    let stored = if data.exists() { Some(read(data)?) } else { None };
    let mut new = play(stored.as_ref())?;
    new.about_mut().binary = binary;
    let results = collect(stored, new);
    keep(out, data, &results)?;
    Ok(results)
}

fn read<T: DeserializeOwned>(data: &Path) -> Result<T> {
    let text = fs::read(data).with_context(|| format!("read {}", data.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("understand {}", data.display()))
}

fn keep(out: &Path, data: &Path, results: &impl Serialize) -> Result<()> {
    fs::create_dir_all(out).with_context(|| format!("make {}", out.display()))?;
    write(data, &(serde_json::to_string_pretty(results)? + "\n"))
}

fn programs() -> Result<Programs> {
    let own = std::env::current_exe().context("find this program")?;
    Programs::built_in(own.parent().context("find this program's directory")?)
}

fn standalone(arguments: Arguments) -> Result<bool> {
    let session = arguments.session();
    let out = arguments.out.context(USAGE)?;
    let name = arguments.name.unwrap_or_else(|| "standalone".to_owned());
    let data = out.join(format!("{name}.json"));
    let results = if arguments.render {
        read(&data)?
    } else {
        let mut plan = if arguments.tiny { Plan::tiny() } else { Plan::full(3) };
        plan.rounds = arguments.rounds.unwrap_or(plan.rounds);
        plan.scenarios.retain(|scenario| scenario.name.contains(&arguments.scenario));
        ensure!(!plan.scenarios.is_empty(), "no scenario is called {:?}", arguments.scenario);
        measured(&out, &data, arguments.binary, |_| rounds::play(&plan, &programs()?, &session))?
    };
    write(&out.join(format!("{name}.md")), &report::markdown(&results, &name))?;
    write(&out.join(format!("{name}.svg")), &plot::svg(&results))?;
    Ok(print_verdict(&results))
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| format!("write {}", path.display()))?;
    println!("{}", path.display());
    Ok(())
}

fn print_verdict(results: &Results) -> bool {
    let mut met = true;
    for verdict in targets::judge(results).iter().filter(|verdict| !verdict.measured.is_empty()) {
        met &= was_not_missed(&verdict.judgement(), &report::verdict(verdict));
    }
    met
}
