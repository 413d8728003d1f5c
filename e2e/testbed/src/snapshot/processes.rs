//! The processes of the host: which belong to an instance, and which namespaces they are in.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::Owner;
use crate::{MARKER, cgroup, slot};

const NAMESPACES: [&str; 7] = ["cgroup", "ipc", "mnt", "net", "pid", "user", "uts"];

/// All processes at one moment.
#[derive(Debug)]
pub(super) struct Processes {
    seen: BTreeMap<i32, Process>,
}

#[derive(Debug)]
struct Process {
    name: String,
    owner: Owner,
    namespaces: Vec<String>,
}

impl Processes {
    pub(super) fn look(instances: &Path) -> Self {
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let seen = pids.filter_map(|pid| Some((pid, Process::look(pid, instances)?)));
        Self { seen: seen.collect() }
    }

    /// The processes of instances.
    pub(super) fn ours(&self) -> impl Iterator<Item = (String, u8)> {
        self.seen.values().filter_map(|process| Some((process.name.clone(), process.owner?)))
    }

    /// Every namespace with a process. It belongs to a slot if a process of that slot is in it and no foreign one.
    pub(super) fn namespaces(&self) -> BTreeMap<String, Owner> {
        let mut namespaces: BTreeMap<String, Owner> = BTreeMap::new();
        for process in self.seen.values() {
            for name in &process.namespaces {
                let owner = namespaces.entry(name.clone()).or_insert(process.owner);
                if *owner != process.owner {
                    *owner = None;
                }
            }
        }
        namespaces
    }

    /// Whether the process is a live one that belongs to no instance.
    pub(super) fn is_foreign(&self, pid: i32) -> bool {
        self.seen.get(&pid).is_some_and(|process| process.owner.is_none())
    }
}

impl Process {
    /// `None` when the process ended meanwhile.
    fn look(pid: i32, instances: &Path) -> Option<Self> {
        let proc = Path::new("/proc").join(pid.to_string());
        let stat = fs::read_to_string(proc.join("stat")).ok()?;
        // The command in parentheses may itself contain parentheses and blanks.
        let (head, fields) = stat.rsplit_once(')')?;
        let started = fields.split_whitespace().nth(19)?;
        let command = head.split_once('(')?.1;
        let links =
            NAMESPACES.iter().filter_map(|name| fs::read_link(proc.join("ns").join(name)).ok());
        let namespaces = links.map(|link| link.to_string_lossy().into_owned()).collect();
        let owner =
            marker(&proc).or_else(|| cgroup_owner(&proc)).or_else(|| place(&proc, instances));
        Some(Self { name: format!("{pid} {command} started at {started}"), owner, namespaces })
    }
}

/// The slot that the environment names.
fn marker(proc: &Path) -> Owner {
    let environment = fs::read(proc.join("environ")).ok()?;
    environment.split(|byte| *byte == 0).find_map(|variable| {
        let variable = str::from_utf8(variable).ok()?;
        variable.strip_prefix(MARKER)?.strip_prefix('=')?.parse().ok()
    })
}

fn cgroup_owner(proc: &Path) -> Owner {
    let memberships = fs::read_to_string(proc.join("cgroup")).ok()?;
    memberships.lines().find_map(|line| cgroup::slot_of(Path::new(line.splitn(3, ':').nth(2)?)))
}

/// The slot whose directory is the process's executable, working directory or root, or whose lock it holds.
fn place(proc: &Path, instances: &Path) -> Owner {
    let places = ["exe", "cwd", "root"].map(|name| proc.join(name));
    let open = fs::read_dir(proc.join("fd")).into_iter().flatten().flatten();
    places.into_iter().chain(open.map(|entry| entry.path())).find_map(|link| {
        let target = fs::read_link(link).ok()?;
        slot::slot_of(target.strip_prefix(instances).ok()?.iter().next()?.to_str()?)
    })
}
