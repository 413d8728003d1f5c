//! `ferrolet evict plan`.

use std::io::{self, Write};

use anyhow::{Result, bail};
use server::wire::{EvictPlan, EvictPod, EvictRanking, EvictSignal};

use super::Place;
use super::get_pods::terminal_size;
use super::table::{Columns, clean};

pub use super::output::Output;

/// How many pods of a ranking are shown.
const SHOWN: usize = 10;

/// The arguments of `evict plan`.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub place: Place,
    /// The format of the output.
    #[arg(short, long, value_enum)]
    pub output: Option<Output>,
}

pub(crate) async fn run(args: &Args) -> Result<()> {
    let plan = args.place.agent().evict_plan().await?;
    let terminal = terminal_size().map(|size| size.columns);
    write_plan(&plan, args.output, terminal, &mut io::stdout())
}

/// Writes a plan; an error if a part of it is missing.
pub fn write_plan(
    plan: &EvictPlan,
    output: Option<Output>,
    terminal: Option<usize>,
    out: &mut dyn Write,
) -> Result<()> {
    match output {
        Some(output) => out.write_all(output.text(plan)?.as_bytes())?,
        None => {
            for line in lines(plan, terminal) {
                writeln!(out, "{line}")?;
            }
        }
    }
    if plan.problems.is_empty() {
        return Ok(());
    }
    bail!("the plan is incomplete: {}", clean(&plan.problems.join("; ")))
}

fn lines(plan: &EvictPlan, terminal: Option<usize>) -> Vec<String> {
    let mut lines = Vec::new();
    if plan.problems.is_empty() {
        lines.push(match &plan.conditions[..] {
            [] => "The node is not under pressure.".to_owned(),
            conditions => format!("The node is under pressure: {}.", conditions.join(", ")),
        });
    }
    let header = ["SIGNAL", "AVAILABLE", "THRESHOLD", "CAPACITY", "STATE"];
    let rows = plan.signals.iter().map(signal).collect();
    lines.extend(table(&header, rows, terminal));
    for limit in &plan.limits {
        let of = if limit.name.is_empty() { String::new() } else { format!(" of {}", limit.name) };
        lines.push(String::new());
        lines.push(clean(&format!(
            "Pod {} exceeds {}{of}: usage {}, limit {}. It is evicted first.",
            limit.pod, limit.signal, limit.usage, limit.limit
        )));
    }
    for ranking in &plan.rankings {
        lines.push(String::new());
        lines.extend(order(ranking, terminal));
    }
    lines
}

fn signal(signal: &EvictSignal) -> Vec<String> {
    let amount = |amount: &Option<String>| amount.clone().unwrap_or_else(|| "unknown".to_owned());
    let kind = match &signal.grace_period {
        Some(grace) => format!("soft, grace {grace}"),
        None => "hard".to_owned(),
    };
    let state = match (&signal.met_for, signal.met, &signal.available) {
        (Some(time), ..) => format!("met for {time} ({kind})"),
        (None, true, _) => format!("met ({kind})"),
        (None, false, Some(_)) => format!("not met ({kind})"),
        (None, false, None) => format!("not observed ({kind})"),
    };
    let EvictSignal { signal, available, threshold, capacity, .. } = signal;
    vec![signal.clone(), amount(available), amount(threshold), amount(capacity), state]
}

/// The order of eviction for a resource.
fn order(ranking: &EvictRanking, terminal: Option<usize>) -> Vec<String> {
    let EvictRanking { resource, signals, pods } = ranking;
    let signals = signals.join(", ");
    if pods.is_empty() {
        return vec![format!("No pod can be evicted for {resource} ({signals}).")];
    }
    let mut lines = vec![format!("Order of eviction for {resource} ({signals}):")];
    let mut position = 0;
    let rows = pods.iter().take(SHOWN).map(|pod| {
        position += u64::from(!pod.critical);
        let place = if pod.critical { "never".to_owned() } else { position.to_string() };
        row(place, pod)
    });
    let header = ["ORDER", "POD", "USAGE", "REQUEST", "PRIORITY", "WHY"];
    lines.extend(table(&header, rows.collect(), terminal));
    let more = pods.len().saturating_sub(SHOWN);
    if more > 0 {
        lines.push(format!("{more} more; -o json has all."));
    }
    lines
}

fn row(place: String, pod: &EvictPod) -> Vec<String> {
    let why = match pod {
        EvictPod { critical: true, .. } => "critical pods are not evicted",
        EvictPod { usage: None, .. } => "its usage is unknown",
        EvictPod { exceeds_request: true, request: Some(_), .. } => "uses more than it requests",
        EvictPod { request: None, .. } => "-",
        EvictPod { .. } => "within its request",
    };
    vec![
        place,
        pod.pod.clone(),
        pod.usage.clone().unwrap_or_else(|| "unknown".to_owned()),
        pod.request.clone().unwrap_or_else(|| "-".to_owned()),
        pod.priority.to_string(),
        why.to_owned(),
    ]
}

fn table(header: &[&str], rows: Vec<Vec<String>>, terminal: Option<usize>) -> Vec<String> {
    let mut all = vec![header.iter().map(ToString::to_string).collect::<Vec<String>>()];
    all.extend(rows);
    let columns = Columns::of(&all);
    all.iter().map(|row| columns.line(row, terminal)).collect()
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use server::wire::EvictLimit;

    use super::*;

    #[expect(clippy::unnecessary_wraps, reason = "the fields are optional")]
    fn text(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    fn pod(name: &str, usage: Option<&str>, exceeds_request: bool, critical: bool) -> EvictPod {
        EvictPod {
            pod: format!("default/{name}"),
            pod_uid: format!("uid-of-{name}"),
            usage: usage.map(str::to_owned),
            request: text("100Mi"),
            priority: 0,
            exceeds_request,
            critical,
        }
    }

    fn plan() -> EvictPlan {
        let signal = EvictSignal {
            signal: "memory.available".to_owned(),
            threshold: text("100Mi"),
            available: text("5Mi"),
            capacity: text("1Gi"),
            grace_period: None,
            met: true,
            met_for: None,
        };
        let soft =
            EvictSignal { grace_period: text("1m0s"), met_for: text("12s"), ..signal.clone() };
        let silent = EvictSignal {
            signal: "pid.available".to_owned(),
            threshold: None,
            available: None,
            capacity: None,
            met: false,
            ..signal.clone()
        };
        EvictPlan {
            generated_at: Timestamp::UNIX_EPOCH,
            layout: text("single"),
            conditions: vec!["MemoryPressure".to_owned()],
            signals: vec![signal, soft, silent],
            rankings: vec![
                EvictRanking {
                    resource: "memory".to_owned(),
                    signals: vec!["memory.available".to_owned()],
                    pods: vec![
                        pod("agent", text("900Mi").as_deref(), true, true),
                        pod("web", text("300Mi").as_deref(), true, false),
                        pod("new", None, false, false),
                        pod("db", text("5Mi").as_deref(), false, false),
                    ],
                },
                EvictRanking {
                    resource: "pids".to_owned(),
                    signals: vec!["pid.available".to_owned()],
                    pods: Vec::new(),
                },
            ],
            limits: vec![EvictLimit {
                pod: "default/web".to_owned(),
                signal: "emptydirfs.limit".to_owned(),
                name: "cache".to_owned(),
                usage: "2Ki".to_owned(),
                limit: "1Ki".to_owned(),
            }],
            problems: Vec::new(),
        }
    }

    fn written(plan: &EvictPlan, output: Option<Output>) -> (String, Result<()>) {
        let mut out = Vec::new();
        let result = write_plan(plan, output, None, &mut out);
        (String::from_utf8(out).unwrap(), result)
    }

    // behaviour: EVI-63
    #[test]
    fn plan_shows_signals_limits_and_the_order_of_eviction() {
        let (shown, result) = written(&plan(), None);
        result.unwrap();
        let expected = "\
The node is under pressure: MemoryPressure.
SIGNAL             AVAILABLE   THRESHOLD   CAPACITY   STATE
memory.available   5Mi         100Mi       1Gi        met (hard)
memory.available   5Mi         100Mi       1Gi        met for 12s (soft, grace 1m0s)
pid.available      unknown     unknown     unknown    not observed (hard)

Pod default/web exceeds emptydirfs.limit of cache: usage 2Ki, limit 1Ki. It is evicted first.

Order of eviction for memory (memory.available):
ORDER   POD             USAGE     REQUEST   PRIORITY   WHY
never   default/agent   900Mi     100Mi     0          critical pods are not evicted
1       default/web     300Mi     100Mi     0          uses more than it requests
2       default/new     unknown   100Mi     0          its usage is unknown
3       default/db      5Mi       100Mi     0          within its request

No pod can be evicted for pids (pid.available).
";
        assert_eq!(shown, expected);
    }

    // behaviour: EVI-63
    #[test]
    fn incomplete_plan_is_an_error() {
        let problems = vec!["list containers: away".to_owned()];
        let plan = EvictPlan { problems, conditions: Vec::new(), ..plan() };
        let (shown, result) = written(&plan, Some(Output::Json));
        assert_eq!(
            result.unwrap_err().to_string(),
            "the plan is incomplete: list containers: away"
        );
        let read: EvictPlan = serde_json::from_str(&shown).unwrap();
        assert_eq!(read, plan);
        let (shown, _) = written(&plan, None);
        assert!(!shown.contains("not under pressure"), "{shown}");
    }
}
