//! What the kernel logs about a kill: some hundred lines, of which up to five matter.
//!
//! ```text
//! python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0
//! memory: usage 20480kB, limit 20480kB, failcnt 72
//! oom-kill:constraint=CONSTRAINT_MEMCG,...,oom_memcg=/a,task_memcg=/a/b,task=python3,pid=2756,uid=0
//! Memory cgroup out of memory: Killed process 2756 (python3) total-vm:77996kB, anon-rss:20224kB, ...
//! Tasks in /a/b are going to be killed due to memory.oom.group set
//! ```
//!
//! The last line announces further lines `Killed process`. The kernel leaves out all but those of a burst of kills:
//! they alone are a kill. Before version 5.0 it logged `Task in /a/b killed as a result of limit of /a`.

use model::oom::MemoryUsage;

/// A process that the kernel killed, as logged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoggedKill {
    /// Its ID.
    pub pid: u32,
    /// Its name.
    pub process: String,
    /// The cgroup whose limit was reached; none if the machine was out of memory.
    pub limited: Option<String>,
    /// The cgroup of the process, if it was logged.
    pub cgroup: Option<String>,
    /// Memory of the limited cgroup.
    pub memory: Option<MemoryUsage>,
    /// Whether it was killed with the other processes of its cgroup, after the first one.
    pub by_group: bool,
}

/// Collects the lines of a kill.
#[derive(Debug, Default)]
pub struct MessageParser {
    memory: Option<MemoryUsage>,
    victim: Option<Victim>,
    /// The cgroup of the last kill: all of its processes may be killed.
    group: Option<Group>,
}

/// What the kernel logs of a process that it is about to kill.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Victim {
    /// The limited cgroup; none if the machine is out of memory.
    limited: Option<String>,
    cgroup: String,
    process: Option<(String, u32)>,
}

#[derive(Debug)]
struct Group {
    limited: Option<String>,
    cgroup: String,
    /// Whether the kernel logged that all of its processes are killed.
    announced: bool,
}

/// A line `Killed process`.
#[derive(Debug)]
struct Killed<'a> {
    pid: u32,
    process: &'a str,
    /// Whether a cgroup reached its limit; some kernels do not log it here.
    by_cgroup: Option<bool>,
}

impl MessageParser {
    /// Reads a line. Returns a kill with its last line.
    pub fn line(&mut self, text: &str) -> Option<LoggedKill> {
        if text.contains(" invoked oom-killer:") {
            *self = Self::default();
        } else if let Some(memory) = memory(text) {
            self.memory = Some(memory);
        } else if let Some(victim) = victim(text).or_else(|| victim_of_old_kernel(text)) {
            self.victim = Some(victim);
            self.group = None;
        } else if let Some(cgroup) = group(text) {
            // If the first kill was overwritten, a cgroup most likely reached its limit.
            let group = self.group.take();
            let limited = group.map_or_else(|| Some(String::new()), |group| group.limited);
            self.group = Some(Group { limited, cgroup: cgroup.to_owned(), announced: true });
        } else if let Some(killed) = killed(text) {
            return Some(self.kill(&killed));
        }
        None
    }

    /// Drops what was read: lines are missing.
    pub fn reset(&mut self) {
        *self = Self::default();
    }

    fn kill(&mut self, killed: &Killed<'_>) -> LoggedKill {
        let Killed { pid, process, by_cgroup } = *killed;
        let is_same = |victim: &Victim| victim.process.as_ref().is_none_or(|(_, of)| *of == pid);
        if let Some(victim) = self.victim.take().filter(is_same) {
            let Victim { limited, cgroup, process: named } = victim;
            // Its group may be announced next.
            self.group =
                Some(Group { limited: limited.clone(), cgroup: cgroup.clone(), announced: false });
            let memory = self.memory.take().filter(|_| limited.is_some());
            let process = named.map_or_else(|| process.to_owned(), |(name, _)| name);
            return LoggedKill {
                pid,
                process,
                limited,
                cgroup: Some(cgroup),
                memory,
                by_group: false,
            };
        }
        let process = process.to_owned();
        match &self.group {
            Some(Group { announced: true, limited, cgroup })
                if by_cgroup.is_none_or(|one| one == limited.is_some()) =>
            {
                LoggedKill {
                    pid,
                    process,
                    limited: limited.clone(),
                    cgroup: Some(cgroup.clone()),
                    memory: None,
                    by_group: true,
                }
            }
            _ => {
                let limited = (by_cgroup == Some(true)).then(String::new);
                let (of, cgroup) = (limited.clone(), String::new());
                self.group = Some(Group { limited: of, cgroup, announced: false });
                LoggedKill { pid, process, limited, cgroup: None, memory: None, by_group: false }
            }
        }
    }
}

/// `memory: usage 20480kB, limit 20480kB, failcnt 72`.
fn memory(text: &str) -> Option<MemoryUsage> {
    let rest = text.strip_prefix("memory: usage ")?;
    let (usage, rest) = rest.split_once("kB, limit ")?;
    let (limit, _) = rest.split_once("kB")?;
    let bytes = |kibibytes: &str| kibibytes.parse::<u64>().ok()?.checked_mul(1024);
    Some(MemoryUsage { usage: bytes(usage)?, limit: bytes(limit)? })
}

/// `oom-kill:constraint=...,oom_memcg=/a,task_memcg=/a/b,task=python3,pid=2756,uid=0`; or `global_oom` in place of
/// `oom_memcg`.
fn victim(text: &str) -> Option<Victim> {
    let rest = text.strip_prefix("oom-kill:constraint=")?;
    // A process chooses its name, so what follows it is found from the end.
    let (head, process) = rest.split_once(",task=")?;
    let (process, _) = process.rsplit_once(",uid=")?;
    let (name, pid) = process.rsplit_once(",pid=")?;
    let (head, cgroup) = head.split_once(",task_memcg=")?;
    let limited = head.split_once(",oom_memcg=").map(|(_, limited)| limited.to_owned());
    let process = Some((name.to_owned(), pid.parse().ok()?));
    Some(Victim {
        limited: limited.filter(|limited| limited != "/"),
        cgroup: cgroup.to_owned(),
        process,
    })
}

/// `Task in /a/b killed as a result of limit of /a`, of kernels before 5.0.
fn victim_of_old_kernel(text: &str) -> Option<Victim> {
    let rest = text.strip_prefix("Task in ")?;
    let (cgroup, limited) = rest.split_once(" killed as a result of limit of ")?;
    let limited = Some(limited.to_owned()).filter(|limited| limited != "/");
    Some(Victim { limited, cgroup: cgroup.to_owned(), process: None })
}

/// `Tasks in /a/b are going to be killed due to memory.oom.group set`.
fn group(text: &str) -> Option<&str> {
    text.strip_prefix("Tasks in ")?
        .strip_suffix(" are going to be killed due to memory.oom.group set")
}

/// `Memory cgroup out of memory: Killed process 2756 (python3) total-vm:77996kB, ...`.
fn killed(text: &str) -> Option<Killed<'_>> {
    let (head, rest) = text.split_once("Killed process ")?;
    let by_cgroup = match head {
        "" => None,
        _ if head.starts_with("Memory cgroup out of memory") => Some(true),
        _ if head.starts_with("Out of memory") => Some(false),
        _ => return None,
    };
    let (pid, rest) = rest.split_once(" (")?;
    let (process, _) = rest.split_once(')')?;
    Some(Killed { pid: pid.parse().ok()?, process, by_cgroup })
}

#[cfg(test)]
#[path = "message_tests.rs"]
mod tests;
