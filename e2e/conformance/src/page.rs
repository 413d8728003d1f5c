//! The table of results at the end of `docs/conformance/README.md`.

use crate::judge::Judgement;

/// The heads of the table's columns. A row is found by the first two.
const HEAD: &str =
    "| agent | specs | passed | failed | skipped | upstream passes | commit | date |";

/// The values of a row.
#[derive(Debug, Clone)]
pub struct Run<'a> {
    pub agent: &'a str,
    pub selection: &'a str,
    pub commit: &'a str,
    pub date: &'a str,
}

/// The page with the row of a run, which replaces an earlier row of the same agent and specs.
pub fn with_row(page: &str, run: &Run<'_>, judgement: &Judgement) -> String {
    let key = format!("| {} | {} |", run.agent, run.selection);
    let counts = [judgement.passed, judgement.failed, judgement.skipped, judgement.upstream_passed];
    let [passed, failed, skipped, upstream] = counts;
    let row = format!(
        "{key} {passed} | {failed} | {skipped} | {upstream} | {} | {} |",
        run.commit, run.date
    );
    let mut lines: Vec<&str> = page.trim_end().lines().collect();
    if !lines.contains(&HEAD) {
        lines.extend(["", HEAD, "|---|---|---|---|---|---|---|---|"]);
    }
    match lines.iter_mut().find(|line| line.starts_with(&key)) {
        Some(line) => *line = &row,
        None => lines.push(&row),
    }
    lines.iter().flat_map(|line| [line, "\n"]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn row_is_added_once_and_then_replaced() {
        let judgement =
            |passed| Judgement { passed, failed: 1, upstream_passed: 9, ..Judgement::default() };
        let run = |agent| Run { agent, selection: "default", commit: "abc", date: "today" };
        let page = with_row("# Page\n", &run("ferrolet"), &judgement(2));
        let page = with_row(&page, &run("upstream"), &judgement(9));
        let page = with_row(&page, &run("ferrolet"), &judgement(8));
        let expected = format!(
            "# Page\n\n{HEAD}\n|---|---|---|---|---|---|---|---|\n\
             | ferrolet | default | 8 | 1 | 0 | 9 | abc | today |\n\
             | upstream | default | 9 | 1 | 0 | 9 | abc | today |\n"
        );
        assert_eq!(page, expected);
    }
}
