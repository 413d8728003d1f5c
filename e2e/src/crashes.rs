//! A node on a runtime without containers, whose agent is killed before or after one of its effects. The next agent
//! reaches the same state, restarts no container that ran, and the journal has an entry for every removal.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use cri::CriRuntime;
use hostfs::HostSegments;
use journal::{Entry, EntryOutcome, Query, find};
use model::observed::{Container, ContainerState, SandboxState};
use model::ports::runtime::{ContainerFilter, ContainerService, SandboxFilter, SandboxService};
use tempfile::TempDir;
use testkit::crash_point::Moment;
use tokio::task::JoinSet;

use crate::hollow::{Hollow, LONG, Program};
use crate::node::program;

/// How many nodes run at a time.
const SIDE_BY_SIDE: usize = 8;

/// The containers, sandboxes and files of a node, without parts of names that differ each time.
#[derive(Debug, Clone, PartialEq, Eq)]
struct State {
    containers: Vec<(String, u32, ContainerState)>,
    sandboxes: Vec<(String, u32, SandboxState)>,
    /// Pods whose last valid manifest is stored.
    kept: Vec<String>,
    logs: Vec<String>,
    links: Vec<String>,
}

impl State {
    /// The state with three manifests, or with one of them removed and nothing left of its pod.
    fn expected(gone: bool) -> Self {
        use ContainerState::{Exited, Running};
        use SandboxState::{NotReady, Ready};
        let rows = [("gone", Running, Ready), ("job", Exited, NotReady), ("web", Running, Ready)];
        let rows = &rows[usize::from(gone)..];
        let name = |pod: &str| format!("{pod}-node");
        let names = || rows.iter().map(|(pod, ..)| name(pod));
        Self {
            containers: rows.iter().map(|(pod, state, _)| (name(pod), 0, *state)).collect(),
            sandboxes: rows.iter().map(|(pod, _, state)| (name(pod), 0, *state)).collect(),
            kept: rows.iter().map(|(pod, ..)| (*pod).to_owned()).collect(),
            logs: names().map(|pod| format!("default_{pod}/main/0.log")).collect(),
            links: names().map(|pod| format!("{pod}_default_main.log")).collect(),
        }
    }
}

/// A node without an agent.
struct Node {
    place: TempDir,
    hollow: Hollow,
    client: CriRuntime,
    /// All containers and sandboxes that existed at some time, by id.
    seen: Mutex<BTreeSet<String>>,
}

impl Node {
    fn new() -> Result<Self> {
        let place = tempfile::tempdir().context("make a directory")?;
        fs::create_dir(place.path().join("manifests")).context("make a directory for manifests")?;
        let options = ["--image", "ferrolet.test/workload:1", "--write-logs"];
        let hollow = Hollow::start(place.path(), &options)?;
        let client = hollow.client()?;
        let node = Self { place, hollow, client, seen: Mutex::default() };
        for (pod, policy, args) in [
            ("web", "Always", "[sleep, forever]"),
            ("job", "Never", "[exit, \"0\"]"),
            ("gone", "Always", "[sleep, forever]"),
        ] {
            let manifest = format!(
                "apiVersion: v1\nkind: Pod\nmetadata: {{name: {pod}}}\nspec:\n  \
                 restartPolicy: {policy}\n  containers:\n  \
                 - {{name: main, image: \"ferrolet.test/workload:1\", args: {args}}}\n"
            );
            fs::write(node.manifest(pod), manifest).context("write a manifest")?;
        }
        Ok(node)
    }

    fn manifest(&self, pod: &str) -> PathBuf {
        self.place.path().join("manifests").join(format!("{pod}.yaml"))
    }

    /// Removes a manifest, if it exists.
    fn remove_manifest(&self, pod: &str) -> Result<()> {
        match fs::remove_file(self.manifest(pod)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(error).context("remove a manifest")
            }
            _ => Ok(()),
        }
    }

    fn start(&self, ends: Option<Moment>) -> Result<Program> {
        let mut agent = Program::start(&program("crash-agent")?, |command| {
            command.arg("--socket").arg(self.hollow.socket());
            command.arg("--root").arg(self.place.path());
            if let Some(moment) = ends {
                command.arg("--die").arg(moment.to_string());
            }
            command.stdout(Stdio::piped()).stderr(Stdio::null())
        })?;
        // From now on it handles SIGTERM.
        agent.is_ready()?;
        Ok(agent)
    }

    async fn containers(&self) -> Result<Vec<Container>> {
        Ok(self.client.list_containers(&ContainerFilter::default()).await?)
    }

    async fn state(&self) -> Result<State> {
        let mut containers: Vec<_> = self.containers().await?.into_iter().collect();
        containers.sort_by_key(|container| (container.pod.name.to_string(), container.attempt));
        let mut sandboxes = self.client.list_pod_sandboxes(&SandboxFilter::default()).await?;
        sandboxes.sort_by_key(|sandbox| (sandbox.pod.name.to_string(), sandbox.attempt));
        {
            let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
            seen.extend(containers.iter().map(|container| container.id.to_string()));
            seen.extend(sandboxes.iter().map(|sandbox| sandbox.id.to_string()));
        }
        let root = self.place.path();
        let kept = files(&root.join("root/ferrolet/state/manifests"))?.into_iter().map(|file| {
            let text = fs::read_to_string(root.join("root/ferrolet/state/manifests").join(&file))?;
            let name =
                text.split("metadata: {name: ").nth(1).and_then(|rest| rest.split('}').next());
            Ok(name.unwrap_or(&file).to_owned())
        });
        let mut kept = kept.collect::<std::io::Result<Vec<String>>>().unwrap_or_default();
        kept.sort();
        Ok(State {
            containers: containers
                .into_iter()
                .map(|container| {
                    (container.pod.name.to_string(), container.attempt, container.state)
                })
                .collect(),
            sandboxes: sandboxes
                .into_iter()
                .map(|sandbox| (sandbox.pod.name.to_string(), sandbox.attempt, sandbox.state))
                .collect(),
            kept,
            // Without the uid and the id, which differ each time.
            logs: files(&root.join("pods"))?.iter().map(|file| without(file, '_', '/')).collect(),
            links: files(&root.join("links"))?.iter().map(|file| without(file, '-', '.')).collect(),
        })
    }

    /// Waits for a state; returns whether the agent was killed before it.
    async fn reaches(&self, expected: &State, agent: &mut Program) -> Result<bool> {
        let end = Instant::now() + LONG;
        loop {
            if agent.was_killed()? {
                return Ok(true);
            }
            let state = self.state().await?;
            if state == *expected {
                return Ok(false);
            }
            if Instant::now() > end {
                bail!("not within {LONG:?}: {expected:#?}; there is {state:#?}");
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// Checks that the journal has every container and sandbox that was removed.
    async fn all_is_on_record(&self) -> Result<()> {
        let containers = self.containers().await?.into_iter().map(|one| one.id.to_string());
        let sandboxes = self.client.list_pod_sandboxes(&SandboxFilter::default()).await?;
        let sandboxes = sandboxes.into_iter().map(|one| one.id.to_string());
        let there: BTreeSet<String> = containers.chain(sandboxes).collect();
        let seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let journal = HostSegments::new(self.place.path().join("journal"));
        for id in seen.difference(&there) {
            let found = find(&journal, &Query::new(id), 10).context("read the journal")?;
            let is_of_it =
                |entry: &&Entry| entry.id == *id && entry.outcome == EntryOutcome::Removed;
            ensure!(found.entries.iter().any(|entry| is_of_it(&entry)), "{id}: {found:?}");
        }
        Ok(())
    }

    /// Starts three pods and removes the manifest of one; returns whether the agent was killed meanwhile.
    async fn story(&self, agent: &mut Program) -> Result<bool> {
        if self.manifest("gone").exists() {
            if self.reaches(&State::expected(false), agent).await? {
                return Ok(true);
            }
            self.remove_manifest("gone")?;
        }
        self.reaches(&State::expected(true), agent).await
    }
}

/// All files below a directory, by their paths in it; none if it does not exist.
fn files(directory: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    let mut pending = vec![directory.to_owned()];
    while let Some(next) = pending.pop() {
        let Ok(entries) = fs::read_dir(&next) else { continue };
        for entry in entries {
            let path = entry.context("list a directory")?.path();
            if path.is_dir() {
                pending.push(path);
            } else {
                found.push(path.strip_prefix(directory)?.display().to_string());
            }
        }
    }
    found.sort();
    Ok(found)
}

/// A name without the part from the last `open` before the first `close` to that `close`.
fn without(name: &str, open: char, close: char) -> String {
    let (head, tail) = name.split_once(close).unwrap_or((name, ""));
    let head = head.rsplit_once(open).map_or(head, |(head, _)| head);
    format!("{head}{close}{tail}")
}

/// Runs a node whose first agent is killed at a moment; returns whether it was.
async fn survives(moment: Moment) -> Result<bool> {
    let node = Node::new()?;
    let mut agent = node.start(Some(moment))?;
    if !node.story(&mut agent).await? {
        // The last effect is recorded before the agent may be killed at it.
        let end = agent.stop()?;
        if end.success() {
            return Ok(false);
        }
        ensure!(end.signal() == Some(9), "{end}");
    }
    let ran = node.containers().await?;
    let mut agent = node.start(None)?;
    ensure!(!node.story(&mut agent).await?, "the second agent was killed");
    ensure!(agent.stop()?.success());
    node.all_is_on_record().await?;
    let after = node.containers().await?;
    let stays = |ran: &&Container| *ran.pod.name != *"gone-node";
    let started = |ran: &&Container| ran.state != ContainerState::Created;
    for container in ran.iter().filter(stays).filter(started) {
        let still = after.iter().find(|after| after.id == container.id);
        let still = still.with_context(|| format!("{container:?} is gone"))?;
        let ended = *container.pod.name == *"job-node";
        ensure!(ended || still.state == container.state, "{container:?}, then {still:?}");
    }
    Ok(true)
}

/// Runs a node for each of these moments, until two agents were not killed because they have fewer effects.
/// Returns how many agents were killed.
pub async fn kill_at(moments: impl IntoIterator<Item = Moment>) -> Result<usize> {
    let mut moments = moments.into_iter();
    let mut stories = JoinSet::new();
    let (mut deaths, mut lives) = (0, 0);
    loop {
        while lives < 2
            && stories.len() < SIDE_BY_SIDE
            && let Some(moment) = moments.next()
        {
            stories.spawn(async move {
                survives(moment).await.with_context(|| format!("killed at {moment}"))
            });
        }
        let Some(story) = stories.join_next().await else { return Ok(deaths) };
        if story.context("wait for a node")?? {
            deaths += 1;
        } else {
            lives += 1;
        }
    }
}
