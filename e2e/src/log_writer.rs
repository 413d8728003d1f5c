//! A container that writes its log at 20 MB/s, and checks of the rotated files.

use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use testbed::wait;

use crate::cluster_node::log_directory;
use crate::node::{NODE_NAME, Node, PATIENCE};

const UID: &str = "0c6e5f5e-0000-4000-8000-000000000020";
/// Lines a second.
const RATE: u64 = 20_000;
/// Bytes of a line. The runtime adds a prefix of some 45.
const LINE: u64 = 1000;
/// `containerLogMaxSize`.
const LIMIT: u64 = 10 << 20;
/// `containerLogMaxFiles`.
const FILES: usize = 5;
/// Bytes that are written in 1.2 s. A blocked writer catches up, so this is a quarter above the average.
const SLACK: u64 = RATE * (LINE + 45) * 12 / 10 * 5 / 4;
/// The pause between two checks of sizes.
const CHECK: Duration = Duration::from_millis(200);

/// A file of the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Its name.
    pub name: String,
    /// How many bytes it has.
    pub size: u64,
}

/// The manifest of a writer that ends after this time.
pub fn manifest(time: Duration) -> String {
    let args = args(time).map(|word| format!("'{word}'")).join(", ");
    format!(
        "apiVersion: v1\nkind: Pod\nmetadata: {{name: writer, uid: {UID}}}\nspec:\n  \
         restartPolicy: Never\n  terminationGracePeriodSeconds: 1\n  containers:\n  \
         - name: main\n    image: ferrolet.test/workload:1\n    \
         args: [{args}]\n"
    )
}

/// The command line of a writer that ends after this time.
pub fn args(time: Duration) -> [String; 7] {
    let lines = (RATE * time.as_secs()).to_string();
    let (rate, line) = (RATE.to_string(), LINE.to_string());
    ["logs", "--rate", &rate, "--size", &line, "--count", &lines].map(str::to_owned)
}

/// The writer's pod on a node.
#[derive(Debug)]
pub struct LogWriter<'a> {
    node: &'a Node,
    lines: u64,
    /// The directory of its log.
    directory: String,
}

impl<'a> LogWriter<'a> {
    /// Starts a writer that ends after this time.
    pub fn start(node: &'a Node, time: Duration) -> Result<Self> {
        node.write_manifest("writer.yaml", &manifest(time))?;
        Ok(Self::of(node, time))
    }

    /// The handle of a writer that was started before.
    pub fn of(node: &'a Node, time: Duration) -> Self {
        let directory = format!("/var/log/pods/default_writer-{NODE_NAME}_{UID}/main");
        Self { node, lines: RATE * time.as_secs(), directory }
    }

    /// The handle of a writer that is a pod of the API, called `writer`, with the command line of [`args`].
    pub fn of_pod(node: &'a Node, pod: &Value, time: Duration) -> Self {
        let directory = format!("{}/main", log_directory(pod));
        Self { node, lines: RATE * time.as_secs(), directory }
    }

    /// The files of its log.
    pub fn files(&self) -> Result<Vec<File>> {
        let directory = &self.directory;
        // A file may be removed between the list and the read.
        let script = format!("cd {directory} 2>/dev/null && stat -c '%s %n' * 2>/dev/null; true");
        let listed = self.node.run("/bin/sh", &["-c", &script])?;
        let files = listed.lines().map(|line| {
            let (size, name) = line.split_once(' ').context("a size and a name")?;
            Ok(File { name: name.to_owned(), size: size.parse().context("a size")? })
        });
        files.collect()
    }

    /// Waits until it has ended. Until then, checks that file sizes stay within the documented limits.
    pub fn check_until_it_ends(&self) -> Result<()> {
        while !self.has_ended() {
            let files = self.files()?;
            let live = files.iter().find(|file| file.name == "0.log").map_or(0, |file| file.size);
            ensure!(live <= LIMIT + SLACK, "the live file has {live} bytes: {files:?}");
            let all: u64 = files.iter().map(|file| file.size).sum();
            ensure!(all <= FILES as u64 * (LIMIT + SLACK), "{all} bytes: {files:?}");
            // One more between a rotation and the removal of the oldest file, and one during compression.
            ensure!(files.len() <= FILES + 2, "{files:?}");
            thread::sleep(CHECK);
        }
        Ok(())
    }

    /// Waits until it has ended.
    pub fn wait_until_it_ends(&self) -> Result<()> {
        let patience = Duration::from_secs(self.lines / RATE) + PATIENCE;
        wait::until("the writer ends", patience, || {
            Ok(if self.has_ended() { Ok(()) } else { Err("it runs".to_owned()) })
        })
    }

    fn has_ended(&self) -> bool {
        let log = self.node.agent_log();
        log.lines()
            .any(|line| line.contains("Pod terminated and cleaned up") && line.contains("writer"))
    }

    /// Checks that the log, as the agent reads it, consists of the last lines without a gap, and has most of what may
    /// be kept.
    pub fn check_lines(&self) -> Result<()> {
        self.check_text(&self.node.ferrolet(&["logs", "writer"])?)
    }

    /// Like `check_lines`, of a log that was read in another way.
    pub fn check_text(&self, text: &str) -> Result<()> {
        let lines = whole_lines(text);
        let numbers = lines.iter().map(|line| {
            let number = line.split(' ').next().unwrap_or_default();
            number.parse::<u64>().with_context(|| format!("{line:.40}"))
        });
        let numbers: Vec<u64> = numbers.collect::<Result<_>>()?;
        let first = *numbers.first().context("there are lines")?;
        for (number, expected) in numbers.iter().zip(first..) {
            ensure!(*number == expected, "line {number} follows {}", expected.saturating_sub(1));
        }
        let last = numbers.last().copied();
        ensure!(last == Some(self.lines - 1), "the last line is {last:?} of {}", self.lines);
        let kept = numbers.len() as u64 * LINE;
        let minimum = (FILES as u64 - 1) * LIMIT * 9 / 10;
        ensure!(kept >= minimum, "{kept} bytes are kept: {:?}", self.files()?);
        Ok(())
    }
}

/// The lines of a log. containerd splits a line in two if it reopens the log in the middle of it: that is, between two
/// files. The first file may begin with the rest of such a line.
fn whole_lines(text: &str) -> Vec<String> {
    let is_part = |line: &str| (line.len() as u64) < LINE - 1;
    let mut lines: Vec<String> = Vec::new();
    for line in text.lines().skip_while(|line| is_part(line)) {
        match lines.last_mut() {
            Some(last) if is_part(last) => last.push_str(line),
            _ => lines.push(line.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_lines_are_joined() {
        let line = |number: u64| format!("{:.<999}", format!("{number} "));
        let (one, two, three) = (line(1), line(2), line(3));
        let (begin, rest) = two.split_at(300);
        let text = format!("....\n{one}\n{begin}\n{rest}\n{three}\n");
        assert_eq!(whole_lines(&text), [one, two.clone(), three]);
    }
}
