//! Deliberate faults in the source. A simulator that does not find them would not find the next accidental one.
#![allow(clippy::disallowed_methods, reason = "a tool that copies and changes a source tree")]

pub mod gc;
pub mod pod_gc;

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, ensure};

/// A change of one place in the source.
#[derive(Debug, Clone, Copy)]
pub struct Mutation {
    /// A short description.
    pub name: &'static str,
    /// The file.
    pub file: &'static str,
    /// The text to replace, which occurs once.
    pub find: &'static str,
    /// The replacement.
    pub replace: &'static str,
}

/// Mutations of the agent's pod handling.
pub const MUTATIONS: &[Mutation] = &[
    Mutation {
        name: "the record advances although the status could not be read",
        file: "crates/pleg/src/task.rs",
        find: "Err(error) => self.unreadable(&uid, error, at),",
        replace: "Err(error) => {
                self.unreadable(&uid, error, at);
                let record = self.records.of(&uid);
                (record.seen, record.at, record.reinspect) = (seen, at, false);
            }",
    },
    Mutation {
        name: "a relist has the time of its end",
        file: "crates/pleg/src/task.rs",
        find: "self.work.push(Box::pin(async move {
            let pods = inspect::list(&runtime, known.as_ref()).await;
",
        replace: "let seq = self.seq.clone();
        self.work.push(Box::pin(async move {
            let pods = inspect::list(&runtime, known.as_ref()).await;
            let at = at.max(seq.next());
",
    },
    Mutation {
        name: "the relist waits for five minutes on a node with hints",
        file: "crates/pleg/src/decide/period.rs",
        find: "if hints { with_hints } else { plain }",
        replace: "if hints { with_hints * 5 } else { plain }",
    },
    Mutation {
        name: "the grace grows with every attempt",
        file: "crates/pods/src/decide/worker.rs",
        find: "*stored = shorter;",
        replace: "*stored = shorter + Duration::from_secs(5);",
    },
    Mutation {
        name: "a pod that has terminated is synced again",
        file: "crates/pods/src/decide/worker.rs",
        find: "            Stage::Waiting | Stage::Finished => {}\n",
        replace: "            Stage::Waiting => {}
            Stage::Finished => {
                worker.stage = Stage::Syncing;
                self.wake(uid, false, commands);
            }
",
    },
    Mutation {
        name: "an orphaned pod is synced again after its termination",
        file: "crates/pods/src/decide/worker.rs",
        find: "                worker.stage = Stage::Terminated;\n",
        replace: "                worker.stage = Stage::Terminated;
                if worker.orphan {
                    worker.stage = Stage::Syncing;
                }
",
    },
    Mutation {
        name: "an observation from before the last action is accepted",
        file: "crates/pleg/src/cache.rs",
        find: "entry.is_some_and(|entry| entry.observed > after);",
        replace: "entry.is_some();",
    },
    Mutation {
        name: "a new agent does not stop orphaned pods",
        file: "crates/pods/src/decide/intake.rs",
        find: "!self.all_ready || is_kept || !is_orphaned",
        replace: "!self.all_ready || is_kept || is_orphaned",
    },
    Mutation {
        name: "the restart number does not advance",
        file: "crates/runtime/src/container_files.rs",
        find: "count.saturating_add(1)",
        replace: "count",
    },
    Mutation {
        name: "a new agent writes the cgroups of pods again",
        file: "crates/runtime/src/cgroups.rs",
        find: "            if !has {\n",
        replace: "            self.port.update(&name, &values).await.ok();\n            if !has {\n",
    },
    Mutation {
        name: "back-off is never applied",
        file: "crates/runtime/src/decide/backoff.rs",
        find: "&& since(failed, now) < entry.delay",
        replace: "&& since(failed, now) < Duration::ZERO",
    },
    Mutation {
        name: "the back-off does not grow",
        file: "crates/runtime/src/decide/backoff.rs",
        find: "entry.delay.saturating_mul(2)",
        replace: "entry.delay.saturating_mul(1)",
    },
    Mutation {
        name: "a failed sync is retried after ten minutes",
        file: "crates/pods/src/decide/requeue.rs",
        find: "const FAILURE: Duration = Duration::from_secs(10);",
        replace: "const FAILURE: Duration = Duration::from_mins(10);",
    },
    Mutation {
        name: "the first back-off is as long as the longest",
        file: "crates/runtime/src/decide/backoff.rs",
        find: "base: Duration::from_secs(10).min(max), max",
        replace: "base: max, max",
    },
    Mutation {
        name: "a replaced instance keeps running",
        file: "crates/runtime/src/decide/regular_containers.rs",
        find: "actions.kill.push(ContainerKill {",
        replace: "drop(ContainerKill {",
    },
    Mutation {
        name: "a sidecar does not wait for the end of the one after it",
        file: "crates/runtime/src/decide/termination_order.rs",
        find: "sidecars.get(number + 1)",
        replace: "sidecars.get(number + 2)",
    },
    Mutation {
        name: "a sidecar gets its full grace regardless of its waiting time",
        file: "crates/runtime/src/killer.rs",
        find: "            budget.spend(begun.elapsed());\n        }\n",
        replace: "            budget.spend(begun.elapsed() * 0);\n        }\n",
    },
    Mutation {
        name: "a hook is not counted against the grace",
        file: "crates/runtime/src/killer.rs",
        find: "        budget.spend(begun.elapsed());\n        if ",
        replace: "        budget.spend(begun.elapsed() * 0);\n        if ",
    },
    Mutation {
        name: "stopping the sandbox replaces stopping its containers",
        file: "crates/runtime/src/killer.rs",
        find: "        let mut failures = self.kill_containers(pod, status, grace, rule).await;\n",
        replace: "        let mut failures = Vec::new();
        if !status.has_ready_sandbox() {
            failures = self.kill_containers(pod, status, grace, rule).await;
        }
",
    },
    Mutation {
        name: "every container gets the minimum grace",
        file: "crates/runtime/src/decide/grace.rs",
        find: "self.left.max(LEAST_GRACE)",
        replace: "self.left.max(LEAST_GRACE).min(LEAST_GRACE)",
    },
    Mutation {
        name: "a preStop command is not run",
        file: "crates/runtime/src/hooks.rs",
        find: "            Hook::Exec(command) => self.exec(hooked, &command).await,\n",
        replace: "            Hook::Exec(command) if hooked.sandbox.is_some() => self.exec(hooked, &command).await,
            Hook::Exec(_) => Ok(()),
",
    },
    Mutation {
        name: "a preStop request is not sent",
        file: "crates/runtime/src/hooks.rs",
        find: "            Hook::Http(http) => self.request(hooked, &http).await,\n",
        replace: "            Hook::Http(http) if hooked.sandbox.is_some() => self.request(hooked, &http).await,
            Hook::Http(_) => Ok(()),
",
    },
    Mutation {
        name: "a postStart command is not run",
        file: "crates/runtime/src/starter.rs",
        find: "        if !made.runs {\n            self.post_start(",
        replace: "        if !made.runs && made.adopted {\n            self.post_start(",
    },
    Mutation {
        name: "a container whose postStart hook failed keeps running",
        file: "crates/runtime/src/starter.rs",
        find: "        self.killer.after_post_start(&hooked).await;\n",
        replace: "        if cancel.is_cancelled() {
            self.killer.after_post_start(&hooked).await;
        }
",
    },
    Mutation {
        name: "the next container starts while an init container runs",
        file: "crates/runtime/src/decide/init_containers.rs",
        find: "ContainerState::Running => Finding::WAIT,",
        replace: "ContainerState::Running => Finding { done: true, ..Finding::WAIT },",
    },
    Mutation {
        name: "an ended sidecar is not restarted while the others run",
        file: "crates/runtime/src/decide/init_containers.rs",
        find: "        if passed && !is_sidecar {\n",
        replace: "        if started || (passed && !is_sidecar) {\n",
    },
    Mutation {
        name: "init containers do not restart with the whole pod",
        file: "crates/runtime/src/decide/restart_all.rs",
        find: "[targets, init_targets, sources, init_sources].concat()",
        replace: "[targets, sources].concat()",
    },
    Mutation {
        name: "a container whose exit restarts the whole pod restarts alone",
        file: "crates/ferrolet/src/sync_pod.rs",
        find: "let restart_all = published.is_restarting_all();",
        replace: "let restart_all = published.is_restarting_all() && !status.has_ready_sandbox();",
    },
    Mutation {
        name: "a container of an earlier attempt is left and another one is created",
        file: "crates/runtime/src/create.rs",
        find: "        if let Some(waiting) = startable(latest, starting.container, sandbox) {\n",
        replace: "        let waits = latest.is_some_and(|latest| latest.state == ContainerState::Created);
        let (number, latest) = (number + u32::from(waits), latest.filter(|_| !waits));
        if let Some(waiting) = startable(latest, starting.container, sandbox) {
",
    },
    Mutation {
        name: "a container that started late is removed while it runs",
        file: "crates/runtime/src/remover.rs",
        find: "Ok(_) => Err(RemoveUnused::Started),",
        replace: "Ok(_) => Ok(true),",
    },
    Mutation {
        name: "an error response of the manifest server counts as no manifests",
        file: "crates/pods/src/source/http.rs",
        find: "if answer.status == 200 { Ok(answer.body) } else {",
        replace: "if answer.status == 200 {
            Ok(answer.body)
        } else if answer.status < 600 {
            Ok(Vec::new())
        } else {",
    },
    Mutation {
        name: "the last valid version of a manifest is not restored",
        file: "crates/pods/src/source/stored_manifest.rs",
        find: "OnDisk::Unknown => self.look(disk).await,",
        replace: "OnDisk::Unknown => self.look(disk).await.filter(|copy| copy.content.is_empty()),",
    },
    Mutation {
        name: "a removal is not recorded in the journal",
        file: "crates/journal/src/recording.rs",
        find: "self.over = true;\n        self.ledger.record(self.verdict, outcome);",
        replace: "self.over = matches!(outcome, _);",
    },
];

/// The sets of mutations. Tests of the Pod GC controller find those of `pod-gc`, the simulator finds the
/// others.
pub const SETS: [(&str, &[Mutation]); 3] =
    [("pod-gc", pod_gc::POD_GC), ("pods", MUTATIONS), ("gc", gc::GC)];

/// A share of a list: every `of`th entry, beginning with entry `number`, which counts from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    number: usize,
    of: usize,
}

impl Share {
    /// The whole list.
    pub const ALL: Self = Self { number: 1, of: 1 };
}

impl FromStr for Share {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self> {
        let numbers = text.split_once('/').and_then(|(number, of)| {
            let share = Self { number: number.parse().ok()?, of: of.parse().ok()? };
            (1..=share.of).contains(&share.number).then_some(share)
        });
        numbers.with_context(|| format!("{text:?} is not a share such as 1/3"))
    }
}

/// The mutations of a set, or of all sets if its name is empty, whose name or path contains a text; of these, a
/// share. Each is returned with the name of its set.
pub fn select(set: &str, only: &str, share: Share) -> Vec<(&'static str, &'static Mutation)> {
    let sets = SETS.into_iter().filter(|(name, _)| set.is_empty() || *name == set);
    sets.flat_map(|(name, list)| list.iter().map(move |mutation| (name, mutation)))
        .filter(|(_, mutation)| mutation.is_about(only))
        .skip(share.number - 1)
        .step_by(share.of)
        .collect()
}

impl Mutation {
    /// Whether a text is part of its name or of its file's path.
    pub fn is_about(&self, text: &str) -> bool {
        self.name.contains(text) || self.file.contains(text)
    }

    /// The mutated content of the file.
    fn mutated(&self, tree: &Path) -> Result<(PathBuf, String)> {
        let path = tree.join(self.file);
        let text = fs::read_to_string(&path).with_context(|| format!("read {}", self.file))?;
        let places = text.matches(self.find).count();
        ensure!(
            places == 1,
            "{}: its text occurs {places} times in {}, not once; the source has changed",
            self.name,
            self.file
        );
        Ok((path, text.replace(self.find, self.replace)))
    }

    /// Applies the change in a tree; returns how to undo it.
    pub fn apply(&self, tree: &Path) -> Result<Undo> {
        let (path, text) = self.mutated(tree)?;
        let before = fs::read_to_string(&path).with_context(|| format!("read {}", self.file))?;
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))?;
        Ok(Undo { path, before })
    }
}

/// Undoes a change.
#[derive(Debug)]
pub struct Undo {
    path: PathBuf,
    before: String,
}

impl Undo {
    /// Restores the file.
    pub fn undo(self) -> Result<()> {
        fs::write(&self.path, self.before).with_context(|| format!("write {}", self.path.display()))
    }
}

/// The root of the source tree that this program was built from.
pub fn source_tree() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The directory of the crates in a copy. Cargo distinguishes crates with equal names by their path in the
/// workspace: with the same path, a build of the copy would be mistaken for one of the source.
const INNER: &str = "mutant";

/// Copies the files for a build from a source tree, replacing the destination. Returns where mutations are
/// applied.
pub fn copy_tree(from: &Path, to: &Path) -> Result<PathBuf> {
    if to.exists() {
        fs::remove_dir_all(to).with_context(|| format!("remove {}", to.display()))?;
    }
    let inner = to.join(INNER);
    copy(from, &inner)?;
    for name in ["Cargo.toml", "Cargo.lock", "rust-toolchain.toml"] {
        let (from, to) = (inner.join(name), to.join(name));
        fs::rename(&from, &to).with_context(|| format!("move {}", from.display()))?;
    }
    let manifest = to.join("Cargo.toml");
    let text = fs::read_to_string(&manifest).context("read the copy's Cargo.toml")?;
    fs::write(&manifest, with_inner_paths(&text)).context("write the copy's Cargo.toml")?;
    Ok(inner)
}

/// A workspace's manifest, with its crates one directory deeper.
fn with_inner_paths(manifest: &str) -> String {
    let folders = ["crates/", "e2e", "xtask"];
    folders.iter().fold(manifest.to_owned(), |text, folder| {
        text.replace(&format!("\"{folder}"), &format!("\"{INNER}/{folder}"))
    })
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("make {}", to.display()))?;
    let entries = fs::read_dir(from).with_context(|| format!("list {}", from.display()))?;
    for entry in entries {
        let entry = entry.with_context(|| format!("list {}", from.display()))?;
        let (name, path) = (entry.file_name(), entry.path());
        let is_hidden = name.as_encoded_bytes().starts_with(b".");
        if is_hidden || name == "target" {
            continue;
        }
        let kind = entry.file_type().with_context(|| format!("look at {}", path.display()))?;
        if kind.is_dir() {
            copy(&path, &to.join(name))?;
        } else if kind.is_file() {
            let target = to.join(name);
            fs::copy(&path, &target).with_context(|| format!("copy to {}", target.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mutation_matches_its_file_once() {
        for mutation in MUTATIONS.iter().chain(gc::GC).chain(pod_gc::POD_GC) {
            let (_, text) = mutation.mutated(&source_tree()).unwrap();
            assert!(text.contains(mutation.replace), "{}", mutation.name);
        }
    }

    #[test]
    fn mutations_are_selected_by_file_and_name() {
        let count = |text: &str| gc::GC.iter().filter(|one| one.is_about(text)).count();
        assert_eq!((count("crates/gc/src/decide.rs"), count("crates/podgc/")), (1, 0));
        assert_eq!(count(gc::GC[0].name), 1);
        assert!(MUTATIONS.iter().all(|one| one.is_about("")));
    }

    #[test]
    fn shares_contain_every_mutation_once() {
        let share = |text: &str| select("pods", "", text.parse().unwrap());
        let shares = [share("1/3"), share("2/3"), share("3/3")];
        let mut names: Vec<_> = shares.iter().flatten().map(|(_, one)| one.name).collect();
        let mut all: Vec<_> = MUTATIONS.iter().map(|one| one.name).collect();
        names.sort_unstable();
        all.sort_unstable();
        assert_eq!(names, all);
        assert!(shares.iter().all(|share| share.len().abs_diff(MUTATIONS.len() / 3) <= 1));
        let everything = SETS.iter().map(|(_, list)| list.len()).sum::<usize>();
        assert_eq!(select("", "", Share::ALL).len(), everything);
        assert!(select("nodes", "", Share::ALL).is_empty());
        for text in ["", "1", "0/3", "4/3", "1/0", "a/b"] {
            assert!(text.parse::<Share>().is_err(), "{text}");
        }
    }

    #[test]
    fn mutation_is_applied_to_a_copy_and_reverted() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        let write = |path: &str, text: &str| {
            let path = from.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let files = ["crates/b.rs", "target/x", ".git/y", "Cargo.lock", "rust-toolchain.toml"];
        for path in files {
            write(path, "let x = 1;");
        }
        write("Cargo.toml", "members = [\"crates/b\", \"e2e\"]");
        let inner = copy_tree(&from, &to).unwrap();
        let manifest = fs::read_to_string(to.join("Cargo.toml")).unwrap();
        assert_eq!(manifest, "members = [\"mutant/crates/b\", \"mutant/e2e\"]");
        assert!(!inner.join("target").exists() && !inner.join(".git").exists());
        let mutation = Mutation { name: "x", file: "crates/b.rs", find: "1", replace: "2" };
        let undo = mutation.apply(&inner).unwrap();
        let read = |root: &Path| fs::read_to_string(root.join("crates/b.rs")).unwrap();
        assert_eq!(read(&inner), "let x = 2;");
        assert!(mutation.apply(&inner).unwrap_err().to_string().contains("occurs 0 times"));
        undo.undo().unwrap();
        assert_eq!((read(&inner), read(&from)), ("let x = 1;".into(), "let x = 1;".into()));
    }
}
