//! The JSON report that ginkgo writes at the end of a run.

use std::collections::BTreeMap;

use serde::Deserialize;

/// The outcome of a spec.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outcome {
    Passed,
    Failed,
    /// The spec itself found that it does not apply here.
    Skipped,
}

impl Outcome {
    pub fn name(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }
}

/// A spec that did run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spec {
    pub outcome: Outcome,
    pub seconds: u64,
    /// The failure; empty without one.
    pub message: String,
    /// Its output.
    pub output: String,
}

/// The results of a run.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// By full name.
    pub specs: BTreeMap<String, Spec>,
    /// How many specs were selected. Some of them have no entry if the time limit was too short.
    pub selected: usize,
    /// Failures of the suite itself, before or after its specs.
    pub suite_failures: Vec<String>,
}

impl Report {
    /// Reads ginkgo's report. Specs that were not selected, or not reached in time, are not in it.
    pub fn parse(json: &[u8]) -> Result<Self, serde_json::Error> {
        let suites: Vec<Suite> = serde_json::from_slice(json)?;
        let mut report = Self::default();
        for suite in suites {
            report.selected += suite.pre_run_stats.map_or(0, |stats| stats.specs_that_will_run);
            suite.spec_reports.unwrap_or_default().into_iter().for_each(|entry| report.add(entry));
        }
        Ok(report)
    }

    fn add(&mut self, entry: SpecReport) {
        let outcome = match entry.state.as_str() {
            "passed" => Outcome::Passed,
            // ginkgo reports specs that were not selected as skipped, too, without an attempt.
            "skipped" | "pending" if entry.attempts == 0 => return,
            "skipped" | "pending" => Outcome::Skipped,
            _ => Outcome::Failed,
        };
        let message = entry.failure.map(Failure::text).unwrap_or_default();
        if entry.leaf_node_type != "It" {
            if outcome == Outcome::Failed {
                self.suite_failures.push(format!("{}: {message}", entry.leaf_node_type));
            }
            return;
        }
        let mut words = entry.container_texts.unwrap_or_default();
        words.push(entry.leaf_node_text);
        let seconds = entry.nanoseconds / 1_000_000_000;
        let output = [entry.writer_output, entry.std_output].concat();
        let spec = Spec { outcome, seconds, message, output };
        self.specs.insert(words.join(" "), spec);
    }

    /// How many selected specs did not run.
    pub fn not_run(&self) -> usize {
        self.selected.saturating_sub(self.specs.len())
    }

    /// The outcome of each spec.
    pub fn outcomes(&self) -> BTreeMap<String, Outcome> {
        self.specs.iter().map(|(name, spec)| (name.clone(), spec.outcome)).collect()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Suite {
    spec_reports: Option<Vec<SpecReport>>,
    pre_run_stats: Option<PreRunStats>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct PreRunStats {
    specs_that_will_run: usize,
}

#[derive(Deserialize)]
struct SpecReport {
    #[serde(rename = "ContainerHierarchyTexts")]
    container_texts: Option<Vec<String>>,
    #[serde(rename = "LeafNodeType")]
    leaf_node_type: String,
    #[serde(rename = "LeafNodeText")]
    leaf_node_text: String,
    #[serde(rename = "State")]
    state: String,
    #[serde(rename = "RunTime", default)]
    nanoseconds: u64,
    #[serde(rename = "NumAttempts", default)]
    attempts: u64,
    #[serde(rename = "Failure")]
    failure: Option<Failure>,
    #[serde(rename = "CapturedGinkgoWriterOutput", default)]
    writer_output: String,
    #[serde(rename = "CapturedStdOutErr", default)]
    std_output: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Failure {
    #[serde(default)]
    message: String,
    #[serde(default)]
    location: Location,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "PascalCase")]
struct Location {
    #[serde(default)]
    file_name: String,
    #[serde(default)]
    line_number: u64,
}

impl Failure {
    fn text(self) -> String {
        let Location { file_name, line_number } = self.location;
        format!("{}\nat {file_name}:{line_number}", self.message.trim_end())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn entry(text: &str, state: &str, attempts: u64) -> Value {
        json!({
            "ContainerHierarchyTexts": ["[sig-node] Pods", "when created"],
            "LeafNodeType": "It",
            "LeafNodeText": text,
            "State": state,
            "RunTime": 2_500_000_000_u64,
            "NumAttempts": attempts,
            "CapturedGinkgoWriterOutput": "STEP: one\n",
        })
    }

    fn parse(entries: &[Value]) -> Report {
        let report =
            json!([{ "SuitePath": "e2e", "SpecReports": entries }, { "SpecReports": null }]);
        Report::parse(report.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn spec_is_named_by_its_containers_and_text() {
        let report = parse(&[entry("should run", "passed", 1)]);
        let (name, spec) = report.specs.first_key_value().unwrap();
        assert_eq!(name, "[sig-node] Pods when created should run");
        assert_eq!((spec.outcome, spec.seconds), (Outcome::Passed, 2));
        assert_eq!(spec.output, "STEP: one\n");
    }

    #[test]
    fn specs_that_were_not_reached_are_counted() {
        let report = json!([{
            "PreRunStats": { "TotalSpecs": 7, "SpecsThatWillRun": 3 },
            "SpecReports": [entry("a", "failed", 1), entry("b", "skipped", 0)],
        }]);
        assert_eq!(Report::parse(report.to_string().as_bytes()).unwrap().not_run(), 2);
    }

    #[test]
    fn states_become_outcomes_and_unselected_specs_are_left_out() {
        let cases = [
            (("passed", 1), Some(Outcome::Passed)),
            (("failed", 1), Some(Outcome::Failed)),
            (("timedout", 1), Some(Outcome::Failed)),
            (("panicked", 1), Some(Outcome::Failed)),
            (("interrupted", 1), Some(Outcome::Failed)),
            (("skipped", 1), Some(Outcome::Skipped)),
            (("skipped", 0), None),
            (("pending", 0), None),
        ];
        for ((state, attempts), expected) in cases {
            let report = parse(&[entry("x", state, attempts)]);
            let outcome = report.specs.values().next().map(|spec| spec.outcome);
            assert_eq!(outcome, expected, "{state} {attempts}");
        }
    }

    #[test]
    fn failure_of_the_suite_is_not_a_spec() {
        let mut set_up = entry("", "failed", 1);
        set_up["LeafNodeType"] = "SynchronizedBeforeSuite".into();
        set_up["Failure"] = json!({
            "Message": "no node is ready", "Location": { "FileName": "e2e.go", "LineNumber": 7 },
        });
        let report = parse(&[set_up]);
        assert!(report.specs.is_empty());
        assert_eq!(
            report.suite_failures,
            ["SynchronizedBeforeSuite: no node is ready\nat e2e.go:7"]
        );
    }
}
