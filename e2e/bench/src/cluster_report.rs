//! What agents took as nodes of a cluster, as a page of Markdown and a picture.

use std::fmt::Write as _;

use crate::cluster::{
    Block, ClusterPlan, ClusterResults, Costs, Quiet, Requests, Round, Times, of_pods,
};
use crate::plot::{Bar, picture};
use crate::report::{ends, head, line, short};
use crate::results::Agent;
use crate::spread::{Spread, mebibytes, number};

/// A number of a turn; less is better, always.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// What it is, with its unit.
    pub name: &'static str,
    /// Where it comes from.
    pub of: Number,
    /// The most that ours may be of upstream's; of times, what both took longer than bare calls.
    pub limit: Option<f64>,
}

/// Where a number comes from.
#[derive(Debug, Clone, Copy)]
pub enum Number {
    /// A time, which bare calls take too.
    Time(fn(&Times) -> Option<f64>),
    /// A cost, which only agents have.
    Cost(fn(&Costs, &ClusterPlan) -> f64),
}

impl Metric {
    /// What of it is held against the limit.
    pub fn described(&self) -> String {
        match self.of {
            Number::Time(_) => format!("{}, beyond bare calls, of upstream's", self.name),
            Number::Cost(_) => format!("{}, of upstream's", self.name),
        }
    }

    fn group(&self) -> &'static str {
        match self.of {
            Number::Time(_) => "time beyond bare calls",
            Number::Cost(_) => "cost",
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

/// All of them, in the order of the report.
pub const METRICS: [Metric; 11] = [
    time("one pod, create to Ready, s", 0.3, |times| median(&times.start_one)),
    time("one pod, delete to gone, s", 0.3, |times| median(&times.delete_one)),
    time("all at once, create to Ready, s", 0.3, |times| Some(times.start_all)),
    time("all at once, delete to gone, s", 0.3, |times| Some(times.delete_all)),
    cost("resident memory without pods, MiB", Some(0.25), |run, _| resident(&run.idle)),
    cost("resident memory with all, MiB", Some(0.25), |run, _| resident(&run.full)),
    cost("CPU without pods, millicores", Some(0.15), |run, _| millicores(&run.idle)),
    cost("CPU with all, millicores", Some(0.15), |run, _| millicores(&run.full)),
    cost("API requests per pod", Some(0.7), |run, plan| per_pod(of_pods(&run.requests), plan)),
    cost("CPU until all are Ready, s", None, |run, _| run.start_all_cpu_seconds),
    cost("CPU until all are gone, s", None, |run, _| run.delete_all_cpu_seconds),
];

fn median(all: &[f64]) -> Option<f64> {
    Spread::of(all.iter().copied()).map(|spread| spread.median)
}

fn resident(quiet: &Quiet) -> f64 {
    mebibytes(quiet.memory.rss_bytes)
}

fn millicores(quiet: &Quiet) -> f64 {
    quiet.cpu_seconds * 1000.0 / quiet.seconds
}

fn per_pod(count: u64, plan: &ClusterPlan) -> f64 {
    number(count) / number(plan.at_once as u64)
}

/// A metric of bare calls and both agents, over all turns.
#[derive(Debug, Clone, Copy)]
pub struct Row {
    /// The metric.
    pub metric: Metric,
    /// Of bare calls.
    pub floor: Option<Spread>,
    /// Ours.
    pub ferrolet: Spread,
    /// The kubelet's.
    pub upstream: Spread,
    /// Ours divided by the kubelet's of the same block or round; of times, both beyond bare calls.
    pub ratio: Option<Spread>,
}

impl Row {
    /// Whether the median keeps the limit; nothing where there is no limit.
    pub fn met(&self) -> Option<bool> {
        let limit = self.metric.limit?;
        Some(self.ratio.is_some_and(|ratio| ratio.median <= limit))
    }
}

/// All that was measured.
pub fn rows(results: &ClusterResults) -> Vec<Row> {
    METRICS.into_iter().filter_map(|metric| row(results, metric)).collect()
}

fn row(results: &ClusterResults, metric: Metric) -> Option<Row> {
    // Of each turn of both, with what bare calls took.
    let turns: Vec<(Option<f64>, f64, f64)> = match metric.of {
        Number::Time(of) => {
            let turn = |block: &Block| {
                let agents = Agent::BOTH.map(|agent| of(block.of(agent)));
                Some((Some(of(&block.floor)?), agents[0]?, agents[1]?))
            };
            results.blocks.iter().filter_map(turn).collect()
        }
        Number::Cost(of) => {
            let turn = |round: &Round| {
                let [ours, theirs] = Agent::BOTH.map(|agent| of(round.of(agent), &results.plan));
                (None, ours, theirs)
            };
            results.rounds.iter().map(turn).collect()
        }
    };
    let ratio = |&(floor, ours, theirs): &(Option<f64>, f64, f64)| {
        let floor = floor.unwrap_or_default();
        (theirs > floor).then_some((ours - floor) / (theirs - floor))
    };
    Some(Row {
        metric,
        floor: Spread::of(turns.iter().filter_map(|(floor, ..)| *floor)),
        ferrolet: Spread::of(turns.iter().map(|(_, ours, _)| *ours))?,
        upstream: Spread::of(turns.iter().map(|(.., theirs)| *theirs))?,
        ratio: Spread::of(turns.iter().filter_map(ratio)),
    })
}

/// The page; `name` is that of the files beside it.
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
         runtime take.\n\n\
         | | bare calls | | ferrolet | | upstream | | ratio | |\n\
         |---|---:|---|---:|---|---:|---|---:|---|\n",
        plan.turns * plan.one_by_one,
        plan.at_once,
        results.blocks.len(),
        results.rounds.len()
    )
    .expect("a string takes every text");
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
    .expect("a string takes every text");
    requests(&mut page, results, |run, _, kind| {
        number(count(&run.full.requests, kind)) / run.full.seconds * 60.0
    });
    page
}

fn cells(spread: Option<Spread>) -> (String, String) {
    spread.map_or_else(Default::default, |spread| (short(spread.median), ends(spread)))
}

fn targets(rows: &[Row]) -> String {
    let mut text = String::from(
        "\n## Targets\n\n| target | at most | median | spread | |\n|---|---:|---:|---:|---|\n",
    );
    for row in rows {
        let Some(limit) = row.metric.limit else { continue };
        let (median, spread) = cells(row.ratio);
        let word = match row.met() {
            Some(true) => "met",
            _ if row.ratio.is_none() => "not measured",
            _ => "**missed**",
        };
        line(&mut text, &[&row.metric.described(), &short(limit), &median, &spread, word]);
    }
    text
}

fn count(requests: &Requests, kind: &str) -> u64 {
    requests.get(kind).copied().unwrap_or_default()
}

/// A row for every kind of request of which there was one.
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
    use crate::rendering_tests::about;
    use crate::results::Memory;

    fn quiet(mebibytes: u64, cpu_seconds: f64) -> Quiet {
        let bytes = mebibytes << 20;
        let memory = Memory {
            rss_bytes: bytes,
            pss_bytes: bytes,
            anonymous_bytes: bytes,
            peak_rss_bytes: bytes,
        };
        let requests = Requests::from([("update leases".to_owned(), 12)]);
        Quiet { seconds: 120.0, cpu_seconds, memory, requests }
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
        let blocks = vec![block(0.1), block(0.2), block(0.4)];
        ClusterResults { about: about(), plan: ClusterPlan::full(3), blocks, rounds }
    }

    fn row(name: &str) -> Row {
        rows(&results()).into_iter().find(|row| row.metric.name == name).unwrap()
    }

    #[test]
    fn times_are_compared_beyond_what_bare_calls_take() {
        let one = row("one pod, create to Ready, s");
        let ratio = one.ratio.unwrap();
        assert!((ratio.median - 0.2).abs() < 1e-9 && (ratio.max - 0.4).abs() < 1e-9, "{one:?}");
        assert_eq!(one.met(), Some(true));
        assert_eq!(row("all at once, create to Ready, s").met(), Some(true));
        // Upstream took no longer than bare calls: there is nothing to be a part of.
        let gone = row("all at once, delete to gone, s");
        assert!(gone.ratio.is_none() && gone.met() == Some(false), "{gone:?}");
    }

    #[test]
    fn requests_of_the_node_itself_are_not_the_pods() {
        let requests = row("API requests per pod");
        assert!((requests.ferrolet.median - 2.0).abs() < 1e-9, "{requests:?}");
        assert!((requests.upstream.median - 5.0).abs() < 1e-9, "{requests:?}");
        assert_eq!(requests.met(), Some(true));
    }

    #[test]
    fn the_page_tells_targets_numbers_and_requests() {
        let page = markdown(&results(), "cluster");
        for row in [
            "| one pod, create to Ready, s, beyond bare calls, of upstream's | 0.300 | 0.200 | 0.100–0.400 | met |",
            "| all at once, delete to gone, s, beyond bare calls, of upstream's | 0.300 |  |  | not measured |",
            "| CPU with all, millicores, of upstream's | 0.150 | 1.00 | 1.00–1.00 | **missed** |",
            "| resident memory with all, MiB |  |  | 40.0 | 40.0–40.0 | 160 | 160–160 | 0.250 | 0.250–0.250 |",
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
