//! The results of agents as nodes of a cluster, as a page of Markdown and a picture.

use std::fmt::Write as _;

use crate::cluster::{
    Block, ClusterPlan, ClusterResults, Costs, Quiet, Requests, Round, Times, of_pods,
};
use crate::judge::{Floor, Judgement, Measured, every, judge, load_before, worst};
use crate::plan::WINDOW;
use crate::plot::{Bar, picture};
use crate::report::{TARGETS_HEAD, ends, head, line, short};
use crate::results::{Agent, Asleep};
use crate::spread::{Spread, mebibytes, number};

/// A number of a turn; less is better.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Its name, with its unit.
    pub name: &'static str,
    /// Its source.
    pub of: Number,
    /// The limit of ours divided by upstream's; of times, both beyond those of bare calls.
    pub limit: Option<f64>,
}

/// The source of a number.
#[derive(Debug, Clone, Copy)]
pub enum Number {
    /// A time, which bare calls have, too.
    Time(fn(&Times) -> Option<f64>),
    /// A cost of quiet minutes that a sleeping process has too: the minutes, and the cost.
    Quiet(fn(&Costs) -> &Quiet, fn(Usage) -> f64),
    /// A cost that only agents have.
    Cost(fn(&Costs, &ClusterPlan) -> f64),
}

/// The usage of a process in quiet minutes.
#[derive(Debug, Clone, Copy)]
pub struct Usage {
    seconds: f64,
    cpu_seconds: f64,
    rss_bytes: u64,
}

impl Usage {
    fn of(quiet: &Quiet) -> Self {
        let Quiet { seconds, cpu_seconds, memory, .. } = quiet;
        Self { seconds: *seconds, cpu_seconds: *cpu_seconds, rss_bytes: memory.rss_bytes }
    }

    /// The cost of the sleeping process in the same time.
    fn asleep(quiet: &Quiet) -> Option<Self> {
        let Asleep { cpu_seconds, rss_bytes } = quiet.asleep?;
        Some(Self { seconds: quiet.seconds, cpu_seconds, rss_bytes })
    }
}

impl Metric {
    /// The name of the number that is compared with the limit.
    pub fn described(&self) -> String {
        match self.of {
            Number::Time(_) => format!("{}, beyond bare calls, of upstream's", self.name),
            _ => format!("{}, of upstream's", self.name),
        }
    }

    fn group(&self) -> &'static str {
        match self.of {
            Number::Time(_) => "time beyond bare calls",
            _ => "cost",
        }
    }
}

const fn time(name: &'static str, limit: f64, of: fn(&Times) -> Option<f64>) -> Metric {
    Metric { name, of: Number::Time(of), limit: Some(limit) }
}

const fn cost(
    name: &'static str,
    limit: Option<f64>,
    of: fn(&Costs, &ClusterPlan) -> f64,
) -> Metric {
    Metric { name, of: Number::Cost(of), limit }
}

const fn quiet(
    name: &'static str,
    limit: f64,
    minutes: fn(&Costs) -> &Quiet,
    of: fn(Usage) -> f64,
) -> Metric {
    Metric { name, of: Number::Quiet(minutes, of), limit: Some(limit) }
}

/// All of them, in the order of the report.
pub const METRICS: [Metric; 11] = [
    time("one pod, create to Ready, s", 0.3, |times| median(&times.start_one)),
    time("one pod, delete to gone, s", 0.3, |times| median(&times.delete_one)),
    time("all at once, create to Ready, s", 0.3, |times| Some(times.start_all)),
    time("all at once, delete to gone, s", 0.3, |times| Some(times.delete_all)),
    quiet("resident memory without pods, MiB", 0.25, |run| &run.idle, resident),
    quiet("resident memory with all, MiB", 0.25, |run| &run.full, resident),
    quiet("CPU without pods, millicores", 0.15, |run| &run.idle, millicores),
    quiet("CPU with all, millicores", 0.15, |run| &run.full, millicores),
    cost("API requests per pod", Some(0.7), |run, plan| per_pod(of_pods(&run.requests), plan)),
    cost("CPU until all are Ready, s", None, |run, _| run.start_all_cpu_seconds),
    cost("CPU until all are gone, s", None, |run, _| run.delete_all_cpu_seconds),
];

fn median(all: &[f64]) -> Option<f64> {
    Spread::of(all.iter().copied()).map(|spread| spread.median)
}

fn resident(usage: Usage) -> f64 {
    mebibytes(usage.rss_bytes)
}

fn millicores(usage: Usage) -> f64 {
    usage.cpu_seconds * 1000.0 / usage.seconds
}

fn per_pod(count: u64, plan: &ClusterPlan) -> f64 {
    number(count) / number(plan.at_once as u64)
}

/// A metric of bare calls and both agents, over all turns.
#[derive(Debug, Clone)]
pub struct Row {
    /// The metric.
    pub metric: Metric,
    /// Of bare calls; of memory and CPU, of a sleeping process.
    pub floor: Option<Spread>,
    /// Ours.
    pub ferrolet: Spread,
    /// The kubelet's.
    pub upstream: Spread,
    /// Ours divided by the kubelet's of the same block or round; of times, both beyond those of bare calls.
    pub ratio: Option<Spread>,
    /// The number that is compared with the limit, of each block or round.
    pub measured: Vec<Measured>,
}

impl Row {
    /// Whether all rounds are within the limit; nothing where there is none.
    pub fn judgement(&self) -> Option<Judgement> {
        Some(judge(self.metric.limit?, &self.measured))
    }
}

/// The rows of all metrics.
pub fn rows(results: &ClusterResults) -> Vec<Row> {
    METRICS.into_iter().filter_map(|metric| row(results, metric)).collect()
}

/// A metric of a turn of both agents.
struct Turn {
    round: u32,
    floor: Option<f64>,
    ours: f64,
    theirs: f64,
    /// Whether both numbers contain the floor, as times contain those of bare calls.
    is_part: bool,
    flaw: Option<String>,
}

impl Turn {
    /// Ours divided by theirs; of times, both beyond those of bare calls.
    fn ratio(&self) -> Option<f64> {
        let base = self.floor.filter(|_| self.is_part).unwrap_or_default();
        (self.theirs > base).then_some((self.ours - base) / (self.theirs - base))
    }
}

fn turns(results: &ClusterResults, metric: Metric) -> Vec<Turn> {
    let costs = |of: &dyn Fn(u32, &Round) -> Turn| -> Vec<Turn> {
        (1..).zip(&results.rounds).map(|(number, round)| of(number, round)).collect()
    };
    match metric.of {
        Number::Time(of) => {
            let each = usize::try_from(results.plan.blocks).unwrap_or(1).max(1);
            let numbers = (1u32..).flat_map(|round| std::iter::repeat_n(round, each));
            let turn = |(round, block): (u32, &Block)| {
                let [ours, theirs] = Agent::BOTH.map(|agent| of(block.of(agent)));
                let (ours, theirs, floor) = (ours?, theirs?, Some(of(&block.floor)?));
                Some(Turn { round, floor, ours, theirs, is_part: true, flaw: None })
            };
            numbers.zip(&results.blocks).filter_map(turn).collect()
        }
        Number::Quiet(minutes, of) => costs(&|round, costs| {
            let [quiet, theirs] = Agent::BOTH.map(|agent| minutes(costs.of(agent)));
            let (ours, theirs) = (of(Usage::of(quiet)), of(Usage::of(theirs)));
            let floor = Usage::asleep(quiet).map(of);
            Turn { round, floor, ours, theirs, is_part: false, flaw: short_window(quiet) }
        }),
        Number::Cost(of) => costs(&|round, costs| {
            let [ours, theirs] = Agent::BOTH.map(|agent| of(costs.of(agent), &results.plan));
            Turn { round, floor: None, ours, theirs, is_part: false, flaw: None }
        }),
    }
}

/// Why the quiet minutes are too short.
fn short_window(quiet: &Quiet) -> Option<String> {
    let is_short = quiet.seconds < WINDOW.as_secs_f64();
    is_short.then(|| format!("a window of {:.0} s, not {}", quiet.seconds, WINDOW.as_secs()))
}

fn row(results: &ClusterResults, metric: Metric) -> Option<Row> {
    let turns = turns(results, metric);
    let measured = turns.iter().map(|turn| Measured {
        round: turn.round,
        value: turn.ratio(),
        load: load_before(&results.about, turn.round),
        floor: match metric.of {
            Number::Cost(_) => Floor::NotNeeded,
            _ => Floor::of(turn.floor, turn.ours),
        },
        flaw: turn.flaw.clone(),
    });
    Some(Row {
        metric,
        floor: Spread::of(turns.iter().filter_map(|turn| turn.floor)),
        ferrolet: Spread::of(turns.iter().map(|turn| turn.ours))?,
        upstream: Spread::of(turns.iter().map(|turn| turn.theirs))?,
        ratio: Spread::of(turns.iter().filter_map(Turn::ratio)),
        measured: measured.collect(),
    })
}

/// The page. `name` is the base name of the files that belong to it.
pub fn markdown(results: &ClusterResults, name: &str) -> String {
    let plan = &results.plan;
    let rows = rows(results);
    let mut page = head(&results.about, plan.rounds, name);
    page.push_str(&targets(&rows));
    write!(
        page,
        "\n![ferrolet's share of upstream's cost]({name}.svg)\n\n\
         ## Numbers\n\n\
         As a node of a cluster: {} pods one after the other, then {} at once, in {} blocks of short turns; costs in \
         {} rounds. Median and spread over them; the ratio is taken in each, of times beyond what bare calls to the \
         runtime take. The floor is that of bare calls; of memory and CPU, that of a process that sleeps.\n\n\
         | | floor | | ferrolet | | upstream | | ratio | |\n\
         |---|---:|---|---:|---|---:|---|---:|---|\n",
        plan.turns * plan.one_by_one,
        plan.at_once,
        results.blocks.len(),
        results.rounds.len()
    )
    .expect("writing to a string does not fail");
    for row in &rows {
        let all = [row.floor, Some(row.ferrolet), Some(row.upstream), row.ratio].map(cells);
        let mut columns = vec![row.metric.name];
        columns.extend(all.iter().flat_map(|(median, spread)| [median.as_str(), spread.as_str()]));
        line(&mut page, &columns);
    }
    page.push_str("\n## Requests per pod\n\n| request | ferrolet | upstream |\n|---|---:|---:|\n");
    requests(&mut page, results, |run, plan, kind| per_pod(count(&run.requests, kind), plan));
    writeln!(
        page,
        "\n## Requests per quiet minute, {} pods\n\n| request | ferrolet | upstream |\n|---|---:|---:|",
        plan.at_once
    )
    .expect("writing to a string does not fail");
    requests(&mut page, results, |run, _, kind| {
        number(count(&run.full.requests, kind)) / run.full.seconds * 60.0
    });
    page
}

fn cells(spread: Option<Spread>) -> (String, String) {
    spread.map_or_else(Default::default, |spread| (short(spread.median), ends(spread)))
}

fn targets(rows: &[Row]) -> String {
    let mut text = format!("\n## Targets\n\n{TARGETS_HEAD}");
    for row in rows {
        let (Some(limit), Some(judgement)) = (row.metric.limit, row.judgement()) else { continue };
        let worst = worst(&row.measured).map_or("–".to_owned(), short);
        let (every, what) = (every(&row.measured), row.metric.described());
        line(&mut text, &[&what, &short(limit), &worst, &every, &judgement.written()]);
    }
    text
}

fn count(requests: &Requests, kind: &str) -> u64 {
    requests.get(kind).copied().unwrap_or_default()
}

/// A row for every kind of request that occurred.
fn requests(
    page: &mut String,
    results: &ClusterResults,
    of: fn(&Costs, &ClusterPlan, &str) -> f64,
) {
    let all = results.rounds.iter().flat_map(|round| Agent::BOTH.map(|agent| round.of(agent)));
    let mut kinds: Vec<&str> =
        all.flat_map(|run| run.requests.keys().map(String::as_str)).collect();
    kinds.sort_unstable();
    kinds.dedup();
    for kind in kinds {
        let median = |agent| {
            let rounds = results.rounds.iter();
            let values = rounds.map(|round| of(round.of(agent), &results.plan, kind));
            Spread::of(values).map_or(0.0, |spread| spread.median)
        };
        let (ours, theirs) = (median(Agent::Ferrolet), median(Agent::Upstream));
        if ours > 0.0 || theirs > 0.0 {
            line(page, &[kind, &short(ours), &short(theirs)]);
        }
    }
}

/// A picture in SVG of ferrolet's share of upstream's numbers.
pub fn svg(results: &ClusterResults) -> String {
    let rows = rows(results);
    let bars = rows.iter().filter_map(|row| {
        let Metric { name, limit, .. } = row.metric;
        Some(Bar { group: row.metric.group(), name, ratio: row.ratio?, limit })
    });
    picture(&bars.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rendering_tests::quiet_rounds;
    use crate::results::Memory;

    fn quiet(mebibytes: u64, cpu_seconds: f64) -> Quiet {
        let bytes = mebibytes << 20;
        let memory = Memory {
            rss_bytes: bytes,
            pss_bytes: bytes,
            anonymous_bytes: bytes,
            peak_rss_bytes: bytes,
        };
        let requests = Requests::from([("update leases".to_owned(), 15)]);
        let asleep = Some(Asleep { cpu_seconds: 0.0, rss_bytes: 1 << 20 });
        Quiet { seconds: 150.0, cpu_seconds, memory, requests, asleep }
    }

    fn times(one: f64, gone: f64, all: f64, all_gone: f64) -> Times {
        Times {
            start_one: vec![one, one * 2.0, one / 2.0],
            delete_one: vec![gone],
            start_all: all,
            delete_all: all_gone,
        }
    }

    fn run(mebibytes: u64, patches: u64) -> Costs {
        Costs {
            start_all_cpu_seconds: 2.0,
            delete_all_cpu_seconds: 1.0,
            idle: quiet(mebibytes, 0.6),
            full: quiet(mebibytes * 2, 1.2),
            requests: Requests::from([
                ("patch pods/status".to_owned(), patches),
                ("update leases".to_owned(), 30),
            ]),
        }
    }

    fn results() -> ClusterResults {
        let block = |more: f64| Block {
            floor: times(0.2, 0.1, 8.0, 4.0),
            ferrolet: times(0.2 + more, 0.2, 8.5, 5.0),
            upstream: times(1.2, 1.1, 13.0, 4.0),
        };
        let rounds = vec![Round { ferrolet: run(20, 200), upstream: run(80, 500) }; 3];
        let blocks = vec![block(0.1), block(0.2), block(0.25)];
        let plan = ClusterPlan { blocks: 1, ..ClusterPlan::full(3) };
        ClusterResults { about: quiet_rounds(3), plan, blocks, rounds }
    }

    fn row(name: &str) -> Row {
        rows(&results()).into_iter().find(|row| row.metric.name == name).unwrap()
    }

    #[test]
    fn times_are_compared_beyond_what_bare_calls_take() {
        let one = row("one pod, create to Ready, s");
        let ratio = one.ratio.unwrap();
        assert!((ratio.median - 0.2).abs() < 1e-9 && (ratio.max - 0.25).abs() < 1e-9, "{one:?}");
        assert_eq!(one.judgement(), Some(Judgement::Met));
        let all = row("all at once, create to Ready, s");
        assert_eq!(all.judgement(), Some(Judgement::Met));
        // Upstream took no longer than bare calls: there is no ratio.
        let gone = row("all at once, delete to gone, s");
        let not_measured = Judgement::NotJudged("round 1: not measured".to_owned());
        assert_eq!((gone.ratio, gone.judgement()), (None, Some(not_measured)));
    }

    #[test]
    fn time_below_bare_calls_is_not_judged() {
        let mut results = results();
        results.blocks[1].ferrolet.start_all = 7.5;
        let rows = rows(&results);
        let is_it = |row: &&Row| row.metric.name == "all at once, create to Ready, s";
        let all = rows.iter().find(is_it).unwrap();
        assert!(all.ratio.unwrap().min < 0.0, "{all:?}");
        let why = "round 2: the floor (8.00) is not below ours (7.50)".to_owned();
        assert_eq!(all.judgement(), Some(Judgement::NotJudged(why)));
    }

    #[test]
    fn blocks_of_one_round_are_one_round() {
        let mut results = results();
        results.plan.blocks = 2;
        let why = "2 of 3 rounds with a load below 1 before".to_owned();
        let one = &rows(&results)[0];
        assert_eq!(one.judgement(), Some(Judgement::NotJudged(why)));
    }

    #[test]
    fn short_quiet_minutes_are_not_judged() {
        let mut results = results();
        results.rounds[2].ferrolet.full.seconds = 60.0;
        let rows = rows(&results);
        let is_it = |row: &&Row| row.metric.name == "resident memory with all, MiB";
        let why = "round 3: a window of 60 s, not 150".to_owned();
        let resident = rows.iter().find(is_it).unwrap();
        assert_eq!(resident.judgement(), Some(Judgement::NotJudged(why)));
    }

    #[test]
    fn requests_of_the_node_itself_are_not_the_pods() {
        let requests = row("API requests per pod");
        assert!((requests.ferrolet.median - 2.0).abs() < 1e-9, "{requests:?}");
        assert!((requests.upstream.median - 5.0).abs() < 1e-9, "{requests:?}");
        assert_eq!(requests.judgement(), Some(Judgement::Met));
    }

    #[test]
    fn page_has_targets_numbers_and_requests() {
        let page = markdown(&results(), "cluster");
        for row in [
            "| one pod, create to Ready, s, beyond bare calls, of upstream's | 0.300 | 0.250 | 0.100, 0.200, 0.250 | met |",
            "| all at once, delete to gone, s, beyond bare calls, of upstream's | 0.300 | – | –, –, – | not judged: round 1: not measured |",
            "| CPU with all, millicores, of upstream's | 0.150 | 1.00 | 1.00, 1.00, 1.00 | **missed** |",
            "| resident memory with all, MiB | 1.00 | 1.00–1.00 | 40.0 | 40.0–40.0 | 160 | 160–160 | 0.250 | 0.250–0.250 |",
            "| patch pods/status | 2.00 | 5.00 |",
            "| update leases | 6.00 | 6.00 |",
        ] {
            assert!(page.contains(row), "{row}\n\n{page}");
        }
        let text = serde_json::to_string(&results()).unwrap();
        let again: ClusterResults = serde_json::from_str(&text).unwrap();
        assert_eq!(markdown(&again, "cluster"), page);
        assert!(svg(&results()).contains("API requests per pod"));
    }
}
