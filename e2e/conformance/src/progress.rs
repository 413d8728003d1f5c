//! The progress of ginkgo, from its output so far.

/// A view of ginkgo's output.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Progress {
    /// How many specs it will run, once it has printed it.
    pub total: Option<usize>,
    pub done: usize,
    /// The specs that failed so far, in the order in which they ended.
    pub failed: Vec<String>,
}

impl Progress {
    /// Reads the output: a bullet for every spec that ended, and a block of lines for one that failed.
    pub fn of(output: &str) -> Self {
        let mut progress = Self::default();
        let mut lines = output.lines();
        while let Some(line) = lines.next() {
            progress.done += line.matches('•').count();
            if let Some(rest) = line.strip_prefix("Will run ") {
                progress.total = rest.split(' ').next().and_then(|number| number.parse().ok());
            }
            if is_failure(line) {
                let name = lines.next().unwrap_or_default();
                progress.failed.push(without_labels(name).replacen(" [It]", "", 1));
            }
        }
        progress
    }

    /// One line for the terminal.
    pub fn line(&self, seconds: u64) -> String {
        let total = self.total.map_or_else(|| "?".to_owned(), |total| total.to_string());
        let (minutes, seconds) = (seconds / 60, seconds % 60);
        format!(
            "{minutes:3}:{seconds:02}  {} of {total} specs done, {} failed",
            self.done,
            self.failed.len()
        )
    }
}

/// ginkgo appends the labels of a spec to its name, in brackets and with commas.
fn without_labels(name: &str) -> &str {
    match name.rsplit_once(" [") {
        Some((name, labels)) if labels.contains(", ") => name,
        _ => name,
    }
}

fn is_failure(line: &str) -> bool {
    let states = ["FAILED", "TIMEDOUT", "PANICKED", "INTERRUPTED", "ABORTED"];
    let state = line.strip_prefix("• [").and_then(|rest| rest.split([']', ' ']).next());
    state.is_some_and(|state| states.contains(&state))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ended_and_failed_specs_are_counted() {
        let output = "\
Will run 12 of 7440 specs
Running in parallel across 8 processes
SSS•S•
------------------------------
• [FAILED] [300.123 seconds]
[sig-node] Pods [It] should run [NodeConformance] [sig-node, NodeConformance]
k8s.io/kubernetes/test/e2e/common/node/pods.go:123
------------------------------
SS•
";
        let progress = Progress::of(output);
        assert_eq!((progress.total, progress.done), (Some(12), 4));
        assert_eq!(progress.failed, ["[sig-node] Pods should run [NodeConformance]"]);
        assert_eq!(progress.line(125), "  2:05  4 of 12 specs done, 1 failed");
        assert_eq!(Progress::of("").line(0), "  0:00  0 of ? specs done, 0 failed");
    }
}
