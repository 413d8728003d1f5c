//! Documents may only name files that exist.

use std::path::Path;

use anyhow::{Context, Result};

use crate::tree;

pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for file in tree::files(root, "md")? {
        let document = tree::relative(root, &file);
        let text = std::fs::read_to_string(&file).with_context(|| format!("read {document}"))?;
        let beside = file.parent().unwrap_or(root);
        for path in named_paths(&text) {
            if !root.join(path).exists() && !beside.join(path).exists() {
                problems.push(format!("{document}: names `{path}`, which does not exist"));
            }
        }
    }
    Ok(problems)
}

/// Paths of the source tree in a document: link targets, and code spans that begin with one of its folders.
fn named_paths(text: &str) -> Vec<&str> {
    const FOLDERS: &[&str] =
        &["crates/", "deploy/", "docs/", "e2e/", "xtask/", ".ci/", "examples/"];
    let spans = text.split('`').skip(1).step_by(2);
    let spans = spans.filter(|span| {
        FOLDERS.iter().any(|folder| span.starts_with(folder))
            && !span.contains([' ', '*', '<', '{', '…', '\n'])
    });
    let links = text
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split([')', '#']).next())
        .filter(|target| !target.is_empty() && !target.contains("://"));
    spans.chain(links).collect()
}

#[cfg(test)]
mod tests {
    use super::named_paths;

    #[test]
    fn code_spans_of_the_tree_and_links_are_found() {
        let text = "See `crates/model`, `make test` and [docs](docs/a.md#x) or [web](https://a.b).";
        assert_eq!(named_paths(text), ["crates/model", "docs/a.md"]);
    }
}
