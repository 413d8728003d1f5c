//! Every row of the behaviour tables has a test.
//!
//! A row is a table line in `docs/behaviour/` whose first cell is an id such as `PLEG-1`; a test
//! claims it with a comment `// behaviour: PLEG-1, PLEG-2` in a Rust file.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};

use crate::tree;

const FOLDER: &str = "docs/behaviour";
const CLAIM: &str = "// behaviour: ";

pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let mut rows = BTreeMap::new();
    let mut problems = Vec::new();
    let folder = root.join(FOLDER);
    for entry in std::fs::read_dir(&folder).with_context(|| format!("read {FOLDER}"))? {
        let path = entry.with_context(|| format!("read {FOLDER}"))?.path();
        let name = tree::relative(root, &path).to_string();
        let text = std::fs::read_to_string(&path).with_context(|| format!("read {name}"))?;
        for id in row_ids(&text) {
            if let Some(other) = rows.insert(id.to_owned(), name.clone()) {
                problems.push(format!("{name}: {id} is also a row of {other}"));
            }
        }
    }
    let mut claimed = BTreeSet::new();
    for path in tree::rust_files(root)? {
        if path.starts_with(root.join("xtask")) {
            continue;
        }
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        for id in claims(&text) {
            if !rows.contains_key(id) {
                let name = tree::relative(root, &path);
                problems.push(format!("{name}: claims {id}, which no table has"));
            }
            claimed.insert(id.to_owned());
        }
    }
    let missing = rows.iter().filter(|(id, _)| !claimed.contains(*id));
    problems.extend(missing.map(|(id, name)| format!("{name}: no test claims {id}")));
    Ok(problems)
}

fn row_ids(text: &str) -> impl Iterator<Item = &str> {
    let cells = text.lines().filter_map(|line| line.strip_prefix("| ")?.split(" |").next());
    cells.filter(|cell| {
        cell.split_once('-').is_some_and(|(area, number)| {
            !area.is_empty()
                && area.chars().all(|c| c.is_ascii_uppercase())
                && !number.is_empty()
                && number.chars().all(|c| c.is_ascii_digit())
        })
    })
}

fn claims(text: &str) -> impl Iterator<Item = &str> {
    let lists = text.lines().filter_map(|line| line.trim().strip_prefix(CLAIM));
    lists.flat_map(|list| list.split(", ")).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_claims_are_found() {
        let table =
            "| id | given |\n|---|---|\n| PLEG-1 | x |\n| not an id | y |\n| SRC-20 | z |\n";
        assert_eq!(row_ids(table).collect::<Vec<_>>(), ["PLEG-1", "SRC-20"]);
        let code = "    // behaviour: PLEG-1, SRC-20\n    // behaviour of others\n";
        assert_eq!(claims(code).collect::<Vec<_>>(), ["PLEG-1", "SRC-20"]);
    }

    #[test]
    fn rows_without_a_test_and_claims_without_a_row_are_reported() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("docs/behaviour/a.md", "| A-1 | x |\n| A-2 | y |\n");
        write("crates/a/src/lib.rs", "// behaviour: A-1, A-3\n");
        let problems = check(root.path()).unwrap();
        let expected = [
            "crates/a/src/lib.rs: claims A-3, which no table has",
            "docs/behaviour/a.md: no test claims A-2",
        ];
        assert_eq!(problems, expected);
    }
}
