//! The picture of the README: a session of `make run`, recorded and drawn.
//!
//! The picture shows a real session. Only waits are shortened, lines are coloured, and the paths of this machine are
//! replaced by those that a user would see.

mod session;
mod svg;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use self::session::Session;

/// The size of the recorded terminal.
const COLUMNS: u16 = 108;
const ROWS: u16 = 13;

/// The file of the picture.
const PICTURE: &str = "docs/make-run.svg";

/// How long each step is shown.
const LOOK: Duration = Duration::from_millis(2500);

/// The second pod. Its arguments are unique, so that its process can be found.
const SECOND: &str = "apiVersion: v1
kind: Pod
metadata:
  name: second
spec:
  terminationGracePeriodSeconds: 5
  containers:
  - name: main
    image: ferrolet.test/workload:1
    args: [\"logs\", \"--rate\", \"3\", \"--size\", \"7\"]
";
const SECOND_ARGS: &str = "logs --rate 3 --size 7";

/// Records the session and writes the picture.
pub(crate) fn record(root: &Path) -> Result<()> {
    let manifest = root.join("examples/standalone/manifests/second.yaml");
    if manifest.exists() {
        bail!("{} exists: remove it", manifest.display());
    }
    let recorded = perform(root, &manifest);
    // Also after a failure: the next run must not find it.
    if manifest.exists() {
        fs::remove_file(&manifest).context("remove the second manifest")?;
    }
    let session = recorded?;
    let frames = session.frames(&replacements(root));
    fs::write(root.join(PICTURE), svg::draw(&frames, usize::from(COLUMNS), usize::from(ROWS)))
        .with_context(|| format!("write {PICTURE}"))?;
    println!("{PICTURE}: {} frames", frames.len());
    Ok(())
}

fn perform(root: &Path, manifest: &Path) -> Result<Session> {
    let mut session = Session::start(root, COLUMNS, ROWS)?;
    session.wait_for("the first pod", |text| row(text, "hello").contains("Running"))?;
    session.look(LOOK);
    session.typed("cp second.yaml examples/standalone/manifests/");
    fs::write(manifest, SECOND).context("write the second manifest")?;
    session.wait_for("the second pod", |text| row(text, "second").contains("Running"))?;
    session.look(LOOK);
    let process = process_with(SECOND_ARGS)?;
    session.typed(&format!("sudo kill -9 {process}    # the process of its container"));
    let killed = std::process::Command::new("kill").args(["-9", &process]).status();
    killed.context("kill the container's process")?;
    session.wait_for("a restart", |text| row(text, "second").contains("1 ("))?;
    session.look(LOOK);
    session.typed("sed -i s/image:/imagine:/ examples/standalone/manifests/second.yaml");
    fs::write(manifest, SECOND.replace("image:", "imagine:"))
        .context("make the manifest invalid")?;
    session.wait_for("a refusal", |text| text.contains("was refused"))?;
    session.look(LOOK * 2);
    session.typed("rm examples/standalone/manifests/second.yaml");
    fs::remove_file(manifest).context("remove the second manifest")?;
    session.wait_for("the end of the second pod", |text| row(text, "second").is_empty())?;
    session.look(LOOK);
    session.interrupt()?;
    session.end()?;
    Ok(session)
}

/// The row of a pod in the table.
fn row<'a>(text: &'a str, pod: &str) -> &'a str {
    let of_pod = |line: &&str| {
        let mut words = line.split_whitespace();
        words.next() == Some("default")
            && words.next().is_some_and(|name| name.starts_with(&format!("{pod}-")))
    };
    text.lines().find(of_pod).unwrap_or_default()
}

/// The process that has these arguments at the end of its command line.
fn process_with(args: &str) -> Result<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").context("list the processes")? {
        let path = entry.context("list the processes")?.path();
        let Ok(line) = fs::read(path.join("cmdline")) else { continue };
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        if line.trim_end().ends_with(args) {
            found.extend(path.file_name().map(|name| name.to_string_lossy().into_owned()));
        }
    }
    match &found[..] {
        [only] => Ok(only.clone()),
        several => bail!("{} processes have the arguments {args:?}", several.len()),
    }
}

/// Replacements for paths of this machine.
fn replacements(root: &Path) -> Vec<(String, String)> {
    let home = std::env::var("HOME").unwrap_or_default();
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_default();
    let cache = std::env::var("XDG_CACHE_HOME")
        .map_or_else(|_| Path::new(&home).join(".cache"), PathBuf::from);
    let pairs = [
        (target, "~/.cache/ferrolet/target"),
        (root.display().to_string(), "~/ferrolet"),
        (cache.display().to_string(), "~/.cache"),
    ];
    let known = pairs.into_iter().filter(|(from, _)| !from.is_empty());
    known.map(|(from, to)| (from, to.to_owned())).collect()
}
