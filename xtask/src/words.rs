//! The use of words that make the text hard to read may only fall.
//!
//! The check counts the words of [`WORDS`] in sources, documents, scripts and settings. A text is divided into parts: runs
//! of ASCII letters, divided again where an identifier in camel case begins its next word. A part that contains
//! a word counts once for it, in upper or lower case: `node_told`, `ToldPods`, `strangers` and `untold` count, but
//! `NotOlderThan` does not.
//!
//! `xtask/words.limit` stores a limit for each word. A count above its limit fails the check, and so does one below
//! it, until `cargo xtask words --lower` has stored the lower count.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::tree;

const WORDS: [&str; 6] = ["told", "heard", "whoever", "whom", "nobody", "stranger"];

const LIMIT_FILE: &str = "xtask/words.limit";
const HEADER: &str = "# Written by `cargo xtask words --lower`. A number may only fall.\n";

/// This file names the words without using them.
const SELF: &str = "xtask/src/words.rs";

const EXTENSIONS: [&str; 5] = ["rs", "md", "sh", "toml", "yaml"];
const MAKEFILE: &str = "Makefile";

/// How many files are listed when a count is above its limit.
const LISTED: usize = 5;

/// A number for each of [`WORDS`], in their order.
type Counts = [usize; WORDS.len()];

/// The counts of each file that has any, by its path in the workspace.
type FileCounts = BTreeMap<String, Counts>;

/// Compares the counts with the stored limits.
pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let limits = read_limits(root)?;
    let files = count_files(root)?;
    let counts = total(&files);
    if above(&counts, &limits).contains(&true) {
        return Ok(vec![describe_above(&files, &counts, &limits)]);
    }
    if counts != limits {
        let table = table(&counts, &limits);
        return Ok(vec![format!(
            "{LIMIT_FILE}: counts are below their limits; run `cargo xtask words --lower`\n{table}"
        )]);
    }
    Ok(Vec::new())
}

/// Stores the counts as the new limits, unless one of them is above its limit.
pub(crate) fn lower(root: &Path) -> Result<Vec<String>> {
    let limits = read_limits(root)?;
    let files = count_files(root)?;
    let counts = total(&files);
    if above(&counts, &limits).contains(&true) {
        let problem = describe_above(&files, &counts, &limits);
        return Ok(vec![format!("{problem}\nlimits are not raised")]);
    }
    if counts != limits {
        let text = format_limits(&counts);
        std::fs::write(root.join(LIMIT_FILE), text)
            .with_context(|| format!("write {LIMIT_FILE}"))?;
        println!("{LIMIT_FILE}: lowered\n{}", table(&counts, &limits));
    }
    Ok(Vec::new())
}

fn above(counts: &Counts, limits: &Counts) -> [bool; WORDS.len()] {
    std::array::from_fn(|word| counts[word] > limits[word])
}

/// The counts with their limits, and the files with the most hits of the words that are above their limits.
fn describe_above(files: &FileCounts, counts: &Counts, limits: &Counts) -> String {
    let is_above = above(counts, limits);
    let hits = |counts: &Counts| -> usize {
        counts.iter().zip(is_above).filter(|(_, is_above)| *is_above).map(|(count, _)| count).sum()
    };
    let mut ranking: Vec<(usize, &str)> =
        files.iter().map(|(name, counts)| (hits(counts), name.as_str())).collect();
    ranking.retain(|(hits, _)| *hits > 0);
    ranking.sort_by_key(|(hits, name)| (std::cmp::Reverse(*hits), *name));
    let table = table(counts, limits);
    let mut text = format!("{LIMIT_FILE}: counts are above their limits\n{table}");
    text.push_str("\n  files with the most hits:");
    for (hits, name) in ranking.iter().take(LISTED) {
        write!(text, "\n  {hits:>6} {name}").expect("a string takes all text");
    }
    text
}

/// A line for each word whose count differs from its limit.
fn table(counts: &Counts, limits: &Counts) -> String {
    let rows = WORDS.iter().zip(counts.iter().zip(limits));
    let rows = rows.filter(|(_, (count, limit))| count != limit);
    let rows = rows.map(|(word, (count, limit))| format!("  {count:>6} {word} (limit {limit})"));
    rows.collect::<Vec<_>>().join("\n")
}

fn format_limits(limits: &Counts) -> String {
    let lines = WORDS.iter().zip(limits).map(|(word, limit)| format!("{word} {limit}\n"));
    format!("{HEADER}{}", lines.collect::<String>())
}

fn read_limits(root: &Path) -> Result<Counts> {
    let text = std::fs::read_to_string(root.join(LIMIT_FILE))
        .with_context(|| format!("read {LIMIT_FILE}"))?;
    parse_limits(&text).with_context(|| format!("read {LIMIT_FILE}"))
}

/// Lines `word limit`, one for each word; `#` begins a comment.
fn parse_limits(text: &str) -> Result<Counts> {
    let mut limits = BTreeMap::new();
    for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let (word, limit) = line.split_once(' ').with_context(|| format!("no limit: {line}"))?;
        let limit: usize = limit.parse().with_context(|| format!("not a number: {line}"))?;
        if !WORDS.contains(&word) || limits.insert(word, limit).is_some() {
            bail!("unknown or repeated word: {line}");
        }
    }
    let mut counts = Counts::default();
    for (word, count) in WORDS.iter().zip(&mut counts) {
        *count = *limits.get(word).with_context(|| format!("no line for {word}"))?;
    }
    Ok(counts)
}

fn total(files: &FileCounts) -> Counts {
    let mut total = Counts::default();
    for counts in files.values() {
        add(&mut total, counts);
    }
    total
}

fn add(total: &mut Counts, counts: &Counts) {
    for (sum, count) in total.iter_mut().zip(counts) {
        *sum += count;
    }
}

fn count_files(root: &Path) -> Result<FileCounts> {
    let mut files = FileCounts::new();
    for path in listed_files(root)? {
        let name = tree::relative(root, &path).to_string();
        let text = std::fs::read_to_string(&path).with_context(|| format!("read {name}"))?;
        let is_generated = text.lines().next().is_some_and(|line| line.contains("@generated"));
        let counts = count(&text);
        if name != SELF && !is_generated && counts != Counts::default() {
            files.insert(name, counts);
        }
    }
    Ok(files)
}

/// The files to count: those of git, or of the tree where git cannot list them.
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

/// Tracked files, and new ones that git does not ignore: adding a file to the index does not change a count.
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
    let paths = names.split('\0').filter(|name| is_counted(Path::new(name)));
    // A tracked file may be deleted in the work tree.
    Some(paths.map(|name| root.join(name)).filter(|path| path.is_file()).collect())
}

fn is_counted(path: &Path) -> bool {
    let has_extension =
        |extension: &&str| path.extension().is_some_and(|found| found == *extension);
    EXTENSIONS.iter().any(has_extension) || path.file_name().is_some_and(|name| name == MAKEFILE)
}

fn count(text: &str) -> Counts {
    let mut counts = Counts::default();
    for part in parts(text) {
        let part = part.to_ascii_lowercase();
        add(&mut counts, &WORDS.map(|word| usize::from(part.contains(word))));
    }
    counts
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

    /// A workspace with these limits, in the order of the words.
    fn workspace(limits: Counts) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        write(root.path(), LIMIT_FILE, &format_limits(&limits));
        root
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
    fn words_count_in_any_case_and_within_parts_of_identifiers() {
        for text in
            ["told", "Told.", "TOLD", "node_told", "ToldPods", "is2told", "untold", "\\ntold"]
        {
            assert_eq!(count(text), [1, 0, 0, 0, 0, 0], "{text}");
        }
        for text in ["NotOlderThan", "to ld", "to_ld", "toLd", "tolled", ""] {
            assert_eq!(count(text), [0; 6], "{text}");
        }
        let each = "told heard whoever whom nobody stranger";
        assert_eq!(count(each), [1; 6]);
        assert_eq!(count("strangers nobody's Unheard whom, whom"), [0, 1, 0, 2, 1, 1]);
    }

    #[test]
    fn sources_documents_scripts_and_settings_count() {
        let root = workspace([5, 0, 0, 0, 0, 0]);
        let counted = ["crates/a/src/lib.rs", "README.md", "scripts/a.sh", "Makefile", "a.toml"];
        for path in counted {
            write(root.path(), path, "told\n");
        }
        for path in ["Cargo.lock", "a.txt", "target/a.rs", SELF] {
            write(root.path(), path, "told\n");
        }
        write(root.path(), "crates/a/src/made.rs", "// @generated by a tool\n// told\n");
        assert_eq!(check(root.path()).unwrap(), [""; 0]);
        write(root.path(), "deploy/a.yaml", "told: told\n");
        assert_eq!(check(root.path()).unwrap().len(), 1);
    }

    #[test]
    fn files_that_git_ignores_or_that_are_deleted_do_not_count() {
        let root = workspace([2, 0, 0, 0, 0, 0]);
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
        assert_eq!(check(root.path()).unwrap(), [""; 0]);
    }

    #[test]
    fn count_above_its_limit_is_a_problem_that_names_files() {
        let root = workspace([7, 9, 0, 0, 0, 0]);
        for number in 1..=6_usize {
            let text = format!("{}heard\n", "told ".repeat(number));
            write(root.path(), &format!("docs/{number}.md"), &text);
        }
        write(root.path(), "docs/other.md", &"heard ".repeat(20));
        let limits = std::fs::read(root.path().join(LIMIT_FILE)).unwrap();
        let expected = "xtask/words.limit: counts are above their limits\n      \
            21 told (limit 7)\n      26 heard (limit 9)\n  files with the most hits:\n      \
            20 docs/other.md\n       7 docs/6.md\n       6 docs/5.md\n       5 docs/4.md\n       \
            4 docs/3.md";
        assert_eq!(check(root.path()).unwrap(), [expected]);
        let refused = lower(root.path()).unwrap();
        assert_eq!(refused, [format!("{expected}\nlimits are not raised")]);
        assert_eq!(std::fs::read(root.path().join(LIMIT_FILE)).unwrap(), limits);
    }

    #[test]
    fn files_are_listed_for_words_above_their_limit_alone() {
        let root = workspace([0, 1, 0, 0, 0, 0]);
        write(root.path(), "a.md", "told");
        write(root.path(), "b.md", "heard");
        let problems = check(root.path()).unwrap();
        assert!(problems[0].contains("1 told (limit 0)"), "{problems:?}");
        assert!(problems[0].contains("1 a.md") && !problems[0].contains("b.md"), "{problems:?}");
    }

    #[test]
    fn count_below_its_limit_is_a_problem_until_it_is_lowered() {
        let root = workspace([3, 1, 0, 0, 0, 0]);
        write(root.path(), "a.md", "told heard");
        let expected = "xtask/words.limit: counts are below their limits; \
            run `cargo xtask words --lower`\n       1 told (limit 3)";
        assert_eq!(check(root.path()).unwrap(), [expected]);
        assert_eq!(lower(root.path()).unwrap(), [""; 0]);
        assert_eq!(read_limits(root.path()).unwrap(), [1, 1, 0, 0, 0, 0]);
        assert_eq!(check(root.path()).unwrap(), [""; 0]);
        assert_eq!(lower(root.path()).unwrap(), [""; 0], "nothing to lower");
    }

    #[test]
    fn limits_have_one_line_for_each_word() {
        let counts = [6, 5, 4, 3, 2, 1];
        let text = format_limits(&counts);
        assert_eq!(parse_limits(&text).unwrap(), counts);
        for wrong in [
            text.replace("told 6\n", ""),
            text.replace("told 6", "told"),
            text.replace("told 6", "told many"),
            text.replace("told 6", "told -1"),
            format!("{text}told 7\n"),
            format!("{text}other 7\n"),
        ] {
            assert!(parse_limits(&wrong).is_err(), "{wrong}");
        }
        assert!(check(tempfile::tempdir().unwrap().path()).is_err(), "no limits");
    }
}
