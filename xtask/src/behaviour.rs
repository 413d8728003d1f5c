//! Every row of the behaviour tables has a test.
//!
//! A row is a table line in `docs/behaviour/` whose first cell is an id such as `PLEG-1`; a test
//! claims it with a comment `// behaviour: PLEG-1, PLEG-2` in a Rust file. The comment stands directly above
//! a test that `make test` runs: only comments and attributes are between it and the function, and one of the
//! attributes makes the function a test.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};

use crate::tree;

const FOLDER: &str = "docs/behaviour";
const CLAIM: &str = "// behaviour: ";

/// Whether only `make soak` runs the tests of a file, because it is in or below a module named
/// `soak`.
fn is_soak(path: &Path) -> bool {
    path.with_extension("").components().any(|part| part.as_os_str() == "soak")
}

pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    let rows = rows(root, &mut problems)?;
    let mut claimed = BTreeSet::new();
    for path in tree::rust_files(root)? {
        if path.starts_with(root.join("xtask")) {
            continue;
        }
        let name = tree::relative(root, &path);
        let text = std::fs::read_to_string(&path).with_context(|| format!("read {name}"))?;
        for claim in claims(&text) {
            let unknown = claim.ids().filter(|id| !rows.contains_key(*id));
            problems.extend(unknown.map(|id| format!("{name}: claims {id}, which no table has")));
            let line = claim.line;
            if !claim.is_above_test {
                problems.push(format!("{name}:{line}: claim is not directly above a test"));
            } else if is_soak(path.strip_prefix(root).unwrap_or(&path)) {
                problems.push(format!("{name}:{line}: `make test` does not run the claimed test"));
            } else {
                claimed.extend(claim.ids().map(str::to_owned));
            }
        }
    }
    let missing = rows.iter().filter(|(id, _)| !claimed.contains(*id));
    problems.extend(missing.map(|(id, name)| format!("{name}: no test claims {id}")));
    Ok(problems)
}

/// The ids of all rows, with the file of each.
fn rows(root: &Path, problems: &mut Vec<String>) -> Result<BTreeMap<String, String>> {
    let mut rows = BTreeMap::new();
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
    Ok(rows)
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

/// A comment that claims rows.
struct Claim<'a> {
    /// The number of its line, from 1.
    line: usize,
    list: &'a str,
    is_above_test: bool,
}

impl<'a> Claim<'a> {
    fn ids(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.list.split(", ").map(str::trim)
    }
}

fn claims(text: &str) -> Vec<Claim<'_>> {
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let lists = lines.iter().enumerate().filter_map(|(at, line)| {
        let list = line.strip_prefix(CLAIM)?;
        Some(Claim { line: at + 1, list, is_above_test: is_above_test(&lines[at + 1..]) })
    });
    lists.collect()
}

/// Whether these lines begin with a test function, after nothing but comments and its attributes. Lines are
/// trimmed.
fn is_above_test(lines: &[&str]) -> bool {
    let mut lines = lines.iter();
    let (mut is_test, mut is_ignored) = (false, false);
    while let Some(line) = lines.next() {
        if let Some(attribute) = line.strip_prefix("#[") {
            let path = attribute.split(['(', ']', ' ']).next().unwrap_or_default();
            is_test |= path == "test" || path.ends_with("::test");
            is_ignored |= path == "ignore";
            // An attribute may take several lines.
            if !line.ends_with(']') && !lines.any(|line| line.ends_with(']')) {
                return false;
            }
        } else if !line.starts_with("//") {
            return is_test && !is_ignored && is_function(line);
        }
    }
    false
}

fn is_function(line: &str) -> bool {
    let line = line.strip_prefix("pub ").unwrap_or(line);
    line.strip_prefix("async ").unwrap_or(line).starts_with("fn ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_and_claims_are_found() {
        let table =
            "| id | given |\n|---|---|\n| PLEG-1 | x |\n| not an id | y |\n| SRC-20 | z |\n";
        assert_eq!(row_ids(table).collect::<Vec<_>>(), ["PLEG-1", "SRC-20"]);
        let code = "\n    // behaviour: PLEG-1, SRC-20\n    // behaviour of others\n";
        let found = claims(code);
        assert_eq!((found.len(), found[0].line), (1, 2));
        assert_eq!(found[0].ids().collect::<Vec<_>>(), ["PLEG-1", "SRC-20"]);
    }

    #[test]
    fn claim_is_above_a_test_with_comments_and_attributes_between_them() {
        for code in [
            "#[test]\nfn a() {",
            "#[tokio::test]\nasync fn a() {",
            "#[tokio::test(start_paused = true)]\nasync fn a() {",
            "#[tokio::test(\n    flavor = \"multi_thread\",\n)]\nasync fn a() {",
            "// why\n/// What\n#[cfg(feature = \"x\")]\n#[test]\n// why\nfn a() {",
            "// behaviour: A-2\n#[test]\n#[should_panic]\npub fn a() {",
            "    #[test]\n    fn law(a in 0..9_u8) {",
        ] {
            let text = format!("// behaviour: A-1\n{code}\n}}\n");
            assert!(claims(&text)[0].is_above_test, "{text}");
        }
    }

    #[test]
    fn claim_in_another_place_is_not_above_a_test() {
        for code in [
            "",
            "fn helper() {",
            "/// What\npub(super) fn scenario() {",
            "\n#[test]\nfn a() {",
            "const A: u8 = 1;\n#[test]\nfn a() {",
            "#[test]\n\nfn a() {",
            "#[test]\n#[ignore = \"slow\"]\nfn a() {",
            "// #[test]\nfn a() {",
            "#[cfg(test)]\nmod tests {\n#[test]\nfn a() {",
            "#[cfg(test)]\nfn a() {",
            "#[test_case(1)]\nfn a() {",
            "#[allow(\n",
            "#[test]",
        ] {
            let text = format!("// behaviour: A-1\n{code}\n");
            assert!(!claims(&text)[0].is_above_test, "{text}");
        }
    }

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn rows_without_a_test_and_claims_without_a_row_are_reported() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "docs/behaviour/a.md", "| A-1 | x |\n| A-2 | y |\n");
        let code = "// behaviour: A-1, A-3\n#[test]\nfn a() {}\n";
        write(root.path(), "crates/a/src/lib.rs", code);
        let expected = [
            "crates/a/src/lib.rs: claims A-3, which no table has",
            "docs/behaviour/a.md: no test claims A-2",
        ];
        assert_eq!(check(root.path()).unwrap(), expected);
    }

    #[test]
    fn claims_above_helpers_and_soak_tests_do_not_count() {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), "docs/behaviour/a.md", "| A-1 | x |\n| A-2 | y |\n");
        write(root.path(), "e2e/src/scenarios/a.rs", "\n// behaviour: A-1\nfn scenario() {}\n");
        let code = "// behaviour: A-2\n#[test]\nfn a() {}\n";
        write(root.path(), "e2e/tests/soak/a.rs", code);
        write(root.path(), "e2e/tests/node/gc/soak.rs", code);
        let expected = [
            "e2e/src/scenarios/a.rs:2: claim is not directly above a test",
            "e2e/tests/node/gc/soak.rs:1: `make test` does not run the claimed test",
            "e2e/tests/soak/a.rs:1: `make test` does not run the claimed test",
            "docs/behaviour/a.md: no test claims A-1",
            "docs/behaviour/a.md: no test claims A-2",
        ];
        assert_eq!(check(root.path()).unwrap(), expected);
    }
}
