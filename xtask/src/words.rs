//! Words and names of a former private dialect are banned.
//!
//! The check searches for [`WORDS`] in sources, documents, scripts and settings. A text is divided into parts: runs
//! of ASCII letters, divided again where an identifier in camel case begins its next word. A part that contains
//! a word is a hit, in upper or lower case: `node_told`, `ToldPods`, `strangers` and `untold` are, `NotOlderThan` is
//! not. Former names of types ([`NAMES`]) are hits as whole identifiers, in Rust code without its comments and in
//! code spans of documents.
//!
//! Texts that other programs define, or that are stored on nodes, are in [`EXEMPT`].

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::tree;

const WORDS: [&str; 6] = ["told", "heard", "whoever", "whom", "nobody", "stranger"];

const NAMES: [&str; 11] = [
    "Arrivals",
    "Goings",
    "KnownPods",
    "LastWords",
    "Mortal",
    "NodeView",
    "Outlook",
    "Remains",
    "Robbed",
    "SecondLooks",
    "Situation",
];

/// Texts that are allowed, with the files that may have them.
const EXEMPT: [(&str, &str); 2] = [
    // The word for a pod state in stored records of removals, and its documentation.
    ("crates/model/src/pod_state.rs", "\"not-heard\""),
    ("docs/gc.md", "`not-heard`"),
];

/// This file names the words without using them.
const SELF: &str = "xtask/src/words.rs";

const EXTENSIONS: [&str; 5] = ["rs", "md", "sh", "toml", "yaml"];
const MAKEFILE: &str = "Makefile";

/// Returns a problem for each line with a banned word or name.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for path in listed_files(root)? {
        let file = tree::relative(root, &path).to_string();
        let text = std::fs::read_to_string(&path).with_context(|| format!("read {file}"))?;
        let is_generated = text.lines().next().is_some_and(|line| line.contains("@generated"));
        if file == SELF || is_generated {
            continue;
        }
        for (number, line) in (1..).zip(text.lines()) {
            let hits = hits(&file, line);
            if !hits.is_empty() {
                problems.push(format!("{file}:{number}: banned: {}", hits.join(", ")));
            }
        }
    }
    Ok(problems)
}

/// The files to check: as listed by git, or all files of the tree if git cannot list them.
fn listed_files(root: &Path) -> Result<BTreeSet<PathBuf>> {
    if let Some(files) = git_files(root) {
        return Ok(files);
    }
    let mut files = BTreeSet::new();
    for extension in EXTENSIONS {
        files.extend(tree::files(root, extension)?);
    }
    files.extend(Some(root.join(MAKEFILE)).filter(|path| path.is_file()));
    Ok(files)
}

/// Tracked files, and new ones that git does not ignore: adding a file to the index does not change the result.
fn git_files(root: &Path) -> Option<BTreeSet<PathBuf>> {
    if !root.join(".git").exists() {
        return None;
    }
    // `make test` runs as root in a tree that may belong to another user.
    let mut git = Command::new("git");
    git.args(["-c", "safe.directory=*", "ls-files", "-z"]);
    git.args(["--cached", "--others", "--exclude-standard"]).current_dir(root);
    let output = git.output().ok().filter(|output| output.status.success())?;
    let names = String::from_utf8(output.stdout).ok()?;
    let paths = names.split('\0').filter(|name| is_checked(Path::new(name)));
    // A tracked file may be deleted in the work tree.
    Some(paths.map(|name| root.join(name)).filter(|path| path.is_file()).collect())
}

fn is_checked(path: &Path) -> bool {
    let has_extension =
        |extension: &&str| path.extension().is_some_and(|found| found == *extension);
    EXTENSIONS.iter().any(has_extension) || path.file_name().is_some_and(|name| name == MAKEFILE)
}

/// The banned words and names in a line of a file, each once.
fn hits(file: &str, line: &str) -> Vec<&'static str> {
    let exempt = EXEMPT.iter().filter(|(allowed, _)| *allowed == file);
    let line = exempt.fold(line.to_owned(), |line, (_, text)| line.replace(text, ""));
    let parts: Vec<String> = parts(&line).map(str::to_ascii_lowercase).collect();
    let words = WORDS.into_iter().filter(|word| parts.iter().any(|part| part.contains(word)));
    let code = code(file, &line);
    let names = NAMES.into_iter().filter(|name| identifiers(&code).any(|found| found == *name));
    words.chain(names).collect()
}

/// The part of a line that is code: without its comment in Rust, the code spans in a document.
fn code(file: &str, line: &str) -> String {
    match Path::new(file).extension().and_then(OsStr::to_str) {
        Some("rs") => line.split("//").next().unwrap_or_default().to_owned(),
        Some("md") => line.split('`').skip(1).step_by(2).collect::<Vec<_>>().join(" "),
        _ => String::new(),
    }
}

fn identifiers(code: &str) -> impl Iterator<Item = &str> {
    code.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
}

/// The runs of ASCII letters of a text, divided where a word begins in camel case.
fn parts(text: &str) -> impl Iterator<Item = &str> {
    let runs = text.split(|c: char| !c.is_ascii_alphabetic()).filter(|run| !run.is_empty());
    runs.flat_map(|run| {
        let begins = |at: &usize| begins_word(run.as_bytes(), *at);
        let starts: Vec<usize> = (0..run.len()).filter(begins).collect();
        let ends = starts.iter().copied().skip(1).chain([run.len()]).collect::<Vec<_>>();
        starts.into_iter().zip(ends).map(|(start, end)| &run[start..end])
    })
}

/// Whether a word begins at this letter of a run: at the first letter, and at an upper case letter with a lower
/// case letter directly before or after it.
fn begins_word(run: &[u8], at: usize) -> bool {
    let is_lower = |at: usize| run.get(at).is_some_and(u8::is_ascii_lowercase);
    at == 0 || (run[at].is_ascii_uppercase() && (is_lower(at - 1) || is_lower(at + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn identifiers_are_divided_into_parts() {
        for (text, expected) in [
            ("node_told is_stranger", &["node", "told", "is", "stranger"][..]),
            ("NotOlderThan", &["Not", "Older", "Than"]),
            ("HTTPTold TOLD_2x", &["HTTP", "Told", "TOLD", "x"]),
            ("toldé", &["told"]),
            ("", &[]),
        ] {
            assert_eq!(parts(text).collect::<Vec<_>>(), expected, "{text}");
        }
    }

    #[test]
    fn words_are_found_in_any_case_and_within_parts_of_identifiers() {
        for text in
            ["told", "Told.", "TOLD", "node_told", "ToldPods", "is2told", "untold", "\\ntold"]
        {
            assert_eq!(hits("a.md", text), ["told"], "{text}");
        }
        for text in ["NotOlderThan", "to ld", "to_ld", "toLd", "tolled", ""] {
            assert_eq!(hits("a.md", text), [""; 0], "{text}");
        }
        assert_eq!(hits("a.rs", &WORDS.join(" ")), WORDS);
        let found = hits("a.rs", "strangers nobody's Unheard whom, whom");
        assert_eq!(found, ["heard", "whom", "nobody", "stranger"]);
    }

    #[test]
    fn names_are_found_as_whole_identifiers_in_code() {
        for (file, text, expected) in [
            ("a.rs", "let view = NodeView::new();", &["NodeView"][..]),
            ("a.rs", "fn f(it: Option<Remains>) {} // Situation", &["Remains"]),
            ("a.rs", "NodeViews my_NodeView Node View", &[]),
            ("a.rs", "/// Remains of a pod.", &[]),
            ("a.md", "Remains of `Outlook` and `Goings<T>`", &["Goings", "Outlook"]),
            ("a.sh", "# Situation", &[]),
        ] {
            assert_eq!(hits(file, text), expected, "{file}: {text}");
        }
    }

    #[test]
    fn exempt_texts_are_allowed_in_their_files_only() {
        for (file, text) in EXEMPT {
            assert_eq!(hits(file, text), [""; 0], "{file}");
            assert_eq!(hits(file, &format!("{text} told")), ["told"], "{file}");
            assert_ne!(hits("a.md", text), [""; 0], "{text}");
        }
    }

    #[test]
    fn sources_documents_scripts_and_settings_are_checked() {
        let root = tempfile::tempdir().unwrap();
        let checked = ["Makefile", "README.md", "a.toml", "crates/a/src/lib.rs", "scripts/a.sh"];
        for path in checked {
            write(root.path(), path, "plain\nTold and heard\n");
        }
        for path in ["Cargo.lock", "a.txt", "target/a.rs", SELF] {
            write(root.path(), path, "told\n");
        }
        write(root.path(), "crates/a/src/made.rs", "// @generated by a tool\n// told\n");
        let expected = checked.map(|path| format!("{path}:2: banned: told, heard"));
        assert_eq!(check(root.path()).unwrap(), expected);
    }

    #[test]
    fn files_that_git_ignores_or_that_are_deleted_are_not_checked() {
        let root = tempfile::tempdir().unwrap();
        let git = |args: &[&str]| {
            let output = Command::new("git").args(args).current_dir(root.path()).output().unwrap();
            assert!(output.status.success(), "{output:?}");
        };
        git(&["init", "--quiet"]);
        for name in ["tracked.rs", "deleted.rs", "new.rs", "ignored.rs"] {
            write(root.path(), name, "// told\n");
        }
        write(root.path(), ".gitignore", "ignored.rs\n");
        git(&["add", "tracked.rs", "deleted.rs"]);
        std::fs::remove_file(root.path().join("deleted.rs")).unwrap();
        let expected = ["new.rs:1: banned: told", "tracked.rs:1: banned: told"];
        assert_eq!(check(root.path()).unwrap(), expected);
    }
}
