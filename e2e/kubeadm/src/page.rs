//! The table of results at the end of `docs/kubeadm/README.md`.

use crate::steps::{Done, Outcome};

const HEADING: &str = "## Last results";

/// The page with the results of a run in place of those of the previous run.
pub fn with_results(page: &str, all: &[Done], commit: &str, date: &str) -> String {
    let text = page.split(HEADING).next().unwrap_or_default().trim_end();
    let seconds: u64 = all.iter().map(|done| done.seconds).sum();
    let mut page = format!(
        "{text}\n\n{HEADING}\nCommit {commit}, {date}: {seconds} seconds without the builds.\n\n\
         | step | result | seconds |\n|---|---|---|\n"
    );
    for done in all {
        let row = format!("| {} | {} | {} |\n", done.name, word(&done.outcome), done.seconds);
        page.push_str(&row);
    }
    page
}

/// The outcome in a word.
pub fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Passed => "passed",
        Outcome::Failed(_) => "failed",
        Outcome::NotRun => "not run",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_replace_earlier_ones() {
        let done = |outcome| [Done { name: "a step", outcome, seconds: 3 }];
        let page = with_results("# Page\n", &done(Outcome::Failed("e".into())), "abc", "today");
        let page = with_results(&page, &done(Outcome::Passed), "def", "later");
        let expected = "# Page\n\n## Last results\nCommit def, later: 3 seconds without the builds.\n\n\
                        | step | result | seconds |\n|---|---|---|\n| a step | passed | 3 |\n";
        assert_eq!(page, expected);
    }
}
