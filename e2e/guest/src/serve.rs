//! Answers the test's requests, one after the other, until the test ends.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use guest::{Answer, PORT, Request};

use crate::programs::{self, Programs};

const PORTS: &str = "/sys/class/virtio-ports";

pub(crate) fn run() -> Result<()> {
    let port = port()?;
    let mut out = OpenOptions::new()
        .read(true)
        .write(true)
        .open(&port)
        .with_context(|| format!("open {}", port.display()))?;
    let lines = BufReader::new(out.try_clone().context("open the port twice")?);
    say(&mut out, &Answer::Ready { milliseconds: uptime()? })?;
    let mut programs = Programs::default();
    for line in lines.lines() {
        let request = serde_json::from_str(&line.context("read the test's request")?)
            .context("parse the test's request")?;
        let answer = answer(request, &mut programs)
            .unwrap_or_else(|error| Answer::Failed(format!("{error:#}")));
        say(&mut out, &answer)?;
    }
    Ok(())
}

fn say(out: &mut File, answer: &Answer) -> Result<()> {
    let mut line = serde_json::to_vec(answer).context("write an answer")?;
    line.push(b'\n');
    out.write_all(&line).context("answer the test")
}

/// The port with our name.
fn port() -> Result<PathBuf> {
    for entry in fs::read_dir(PORTS).with_context(|| format!("list {PORTS}"))? {
        let entry = entry.with_context(|| format!("list {PORTS}"))?;
        let name = fs::read_to_string(entry.path().join("name")).unwrap_or_default();
        if name.trim() == PORT {
            return Ok(Path::new("/dev").join(entry.file_name()));
        }
    }
    anyhow::bail!("no port is called {PORT}")
}

/// The uptime of the kernel.
fn uptime() -> Result<u64> {
    let text = fs::read_to_string("/proc/uptime").context("read /proc/uptime")?;
    let first = text.split_whitespace().next().unwrap_or_default();
    let (seconds, hundredths) = first.split_once('.').context("read /proc/uptime")?;
    Ok(seconds.parse::<u64>()? * 1000 + hundredths.parse::<u64>()? * 10)
}

fn answer(request: Request, programs: &mut Programs) -> Result<Answer> {
    match request {
        Request::Write { path, text } => {
            write(Path::new(&path), &text).with_context(|| format!("write {path}"))?;
            Ok(Answer::Done)
        }
        Request::Read { path } => {
            let file = File::open(&path).with_context(|| format!("open {path}"))?;
            programs::tail(file).with_context(|| format!("read {path}")).map(Answer::Text)
        }
        Request::Remove { path } => {
            fs::remove_file(&path).with_context(|| format!("remove {path}"))?;
            Ok(Answer::Done)
        }
        Request::Directories { path } => {
            let mut found = Vec::new();
            let list = fs::read_dir(&path).with_context(|| format!("list {path}"))?;
            directories(list, &mut found)?;
            found.sort();
            Ok(Answer::Paths(found))
        }
        Request::Run { argv, milliseconds } => {
            programs::run(&argv, Duration::from_millis(milliseconds))
        }
        Request::Spawn { argv, log } => programs.spawn(&argv, &log),
        Request::Signal { pid, signal } => {
            programs::signal(pid, signal)?;
            Ok(Answer::Done)
        }
        Request::Wait { pid, milliseconds } => {
            programs.wait(pid, Duration::from_millis(milliseconds))
        }
    }
}

/// Writes a file atomically, unless it is one of the kernel's, which cannot be replaced. A missing cgroup is created.
fn write(path: &Path, text: &str) -> Result<()> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    if ["/dev", "/proc", "/sys"].iter().any(|kernel| path.starts_with(kernel)) {
        if path.starts_with("/sys/fs/cgroup") {
            fs::create_dir_all(directory)?;
        }
        return Ok(fs::write(path, text)?);
    }
    fs::create_dir_all(directory)?;
    // Hidden: the directory may be one of manifests.
    let name = path.file_name().context("a file has a name")?.to_string_lossy();
    let temporary = path.with_file_name(format!(".{name}.tmp"));
    fs::write(&temporary, text)?;
    Ok(fs::rename(temporary, path)?)
}

/// Collects the directories of a list and all below them. A cgroup may be removed meanwhile.
fn directories(list: fs::ReadDir, found: &mut Vec<String>) -> Result<()> {
    for entry in list {
        let entry = entry?;
        if !entry.file_type()?.is_dir() {
            continue;
        }
        let path = entry.path();
        found.push(path.display().to_string());
        match fs::read_dir(&path) {
            Ok(below) => directories(below, found)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error).with_context(|| format!("list {}", path.display())),
        }
    }
    Ok(())
}
