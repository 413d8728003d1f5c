use proptest::prelude::*;

use super::*;

/// The lines of a kill by the limit of a cgroup, as Linux 6.18 logs them, without most of the others.
const BY_CGROUP: &str = "\
python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0
CPU: 1 UID: 0 PID: 2756 Comm: python3 Not tainted 6.18.44 #1 PREEMPT(full)
memory: usage 20480kB, limit 20480kB, failcnt 72
memory+swap: usage 20480kB, limit 9007199254740988kB, failcnt 0
kmem: usage 152kB, limit 9007199254740988kB, failcnt 0
Memory cgroup stats for /kubepods/podX:
Tasks state (memory values in pages):
[  pid  ]   uid  tgid total_vm      rss rss_anon rss_file rss_shmem pgtables_bytes swapents oom_score_adj name
[   2756]     0  2756    19499     6705     5056     1649         0   102400        0             0 python3
oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/kubepods/podX,task_memcg=/kubepods/podX/abc,task=python3,pid=2756,uid=0
Memory cgroup out of memory: Killed process 2756 (python3) total-vm:77996kB, anon-rss:20224kB, file-rss:6596kB, shmem-rss:0kB, UID:0 pgtables:100kB oom_score_adj:0
";

const OF_MACHINE: &str = "\
kworker invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE|__GFP_COMP), order=0, oom_score_adj=0
oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,task_memcg=/system.slice/db.service,task=a,b (c),pid=10,uid=1000
Out of memory: Killed process 10 (a,b (c)) total-vm:1kB, anon-rss:1kB, file-rss:0kB, shmem-rss:0kB, UID:1000 pgtables:1kB oom_score_adj:0
";

fn kills(text: &str) -> Vec<LoggedKill> {
    let mut parser = MessageParser::default();
    text.lines().filter_map(|line| parser.line(line)).collect()
}

fn by_cgroup() -> LoggedKill {
    LoggedKill {
        pid: 2756,
        process: "python3".to_owned(),
        limited: Some("/kubepods/podX".to_owned()),
        cgroup: Some("/kubepods/podX/abc".to_owned()),
        memory: Some(MemoryUsage { usage: 20_971_520, limit: 20_971_520 }),
        by_group: false,
    }
}

fn of_machine() -> LoggedKill {
    LoggedKill {
        pid: 10,
        process: "a,b (c)".to_owned(),
        limited: None,
        cgroup: Some("/system.slice/db.service".to_owned()),
        memory: None,
        by_group: false,
    }
}

// behaviour: OOM-5
#[test]
fn kill_has_process_cgroups_and_memory() {
    assert_eq!(kills(BY_CGROUP), [by_cgroup()]);
    assert_eq!(kills(OF_MACHINE), [of_machine()]);
    assert_eq!(
        kills(&format!("{BY_CGROUP}{OF_MACHINE}{BY_CGROUP}")),
        [by_cgroup(), of_machine(), by_cgroup()]
    );
}

#[test]
fn further_processes_of_a_group_are_marked() {
    let text = format!(
        "{BY_CGROUP}\
         Tasks in /kubepods/podX/abc are going to be killed due to memory.oom.group set\n\
         Memory cgroup out of memory: Killed process 2757 (child) total-vm:1kB\n\
         Memory cgroup out of memory: Killed process 2758 (child) total-vm:1kB\n"
    );
    let child = |pid| LoggedKill {
        pid,
        process: "child".to_owned(),
        memory: None,
        by_group: true,
        ..by_cgroup()
    };
    let limited = Some("/kubepods/podX".to_owned());
    assert_eq!(child(1).limited, limited);
    assert_eq!(kills(&text), [by_cgroup(), child(2757), child(2758)]);
}

// behaviour: OOM-1
#[test]
fn group_of_a_machine_wide_kill_is_one_kill() {
    let rest = "\
        Tasks in /system.slice are going to be killed due to memory.oom.group set\n\
        Out of memory: Killed process 11 (child) total-vm:1kB\n\
        Out of memory: Killed process 12 (child) total-vm:1kB\n";
    let kills = kills(&format!("{BY_CGROUP}{OF_MACHINE}{rest}"));
    let marks: Vec<_> = kills.iter().map(|kill| (kill.pid, kill.by_group)).collect();
    assert_eq!(marks, [(2756, false), (10, false), (11, true), (12, true)]);
    assert_eq!(kills[3].cgroup.as_deref(), Some("/system.slice"));
    assert_eq!(kills[3].limited, None);
}

#[test]
fn kill_is_of_an_earlier_group_only_if_it_was_announced_and_has_the_same_cause() {
    let tasks = "Tasks in /a are going to be killed due to memory.oom.group set\n";
    let by_limit = "Memory cgroup out of memory: Killed process 5 (hog)\n";
    let by_machine = "Out of memory: Killed process 5 (hog)\n";
    let by_unknown = "Killed process 5 (hog)\n";
    let limited = (Some("/kubepods/podX"), Some("/a"), true);
    let rows = [
        // Without the announcement it is another kill.
        (format!("{BY_CGROUP}{by_limit}"), (Some(""), None, false)),
        (format!("{OF_MACHINE}{by_machine}"), (None, None, false)),
        (format!("{BY_CGROUP}{tasks}{by_limit}"), limited),
        (format!("{BY_CGROUP}{tasks}{by_unknown}"), limited),
        (format!("{BY_CGROUP}{tasks}{by_machine}"), (None, None, false)),
        (format!("{OF_MACHINE}{tasks}{by_limit}"), (Some(""), None, false)),
        // It ends the group.
        (format!("{BY_CGROUP}{tasks}{by_machine}{by_limit}"), (Some(""), None, false)),
        // The kernel logs only these lines in a burst of kills.
        (format!("{OF_MACHINE}{by_limit}{tasks}{by_limit}"), (Some(""), Some("/a"), true)),
        (format!("{BY_CGROUP}{by_machine}{tasks}{by_machine}"), (None, Some("/a"), true)),
        // The first kill was overwritten.
        (format!("{tasks}{by_limit}"), (Some(""), Some("/a"), true)),
    ];
    for (text, expected) in rows {
        let kill = kills(&text).pop().unwrap();
        let found = (kill.limited.as_deref(), kill.cgroup.as_deref(), kill.by_group);
        assert_eq!((kill.pid, found), (5, expected), "{text}");
    }
}

#[test]
fn line_of_a_kill_alone_is_a_kill() {
    let alone = |pid, limited: Option<&str>| LoggedKill {
        pid,
        process: "hog".to_owned(),
        limited: limited.map(str::to_owned),
        cgroup: None,
        memory: None,
        by_group: false,
    };
    let rows = [
        ("Out of memory: Killed process 5 (hog) total-vm:1kB", alone(5, None)),
        ("Out of memory (oom_kill_allocating_task): Killed process 5 (hog)", alone(5, None)),
        ("Memory cgroup out of memory: Killed process 5 (hog)", alone(5, Some(""))),
        ("Killed process 5 (hog) total-vm:1kB", alone(5, None)),
    ];
    for (line, expected) in rows {
        assert_eq!(kills(line), [expected], "{line}");
    }
}

#[test]
fn kernel_before_5_0_is_understood() {
    let text = "\
        thrash invoked oom-killer: gfp_mask=0xd0, order=0, oom_score_adj=0\n\
        Task in /kubepods/podX/abc killed as a result of limit of /kubepods/podX\n\
        memory: usage 4kB, limit 8kB, failcnt 1\n\
        Memory cgroup out of memory: Kill process 7 (thrash) score 999 or sacrifice child\n\
        Killed process 7 (thrash) total-vm:1kB\n";
    let memory = Some(MemoryUsage { usage: 4096, limit: 8192 });
    let expected = LoggedKill { pid: 7, process: "thrash".to_owned(), memory, ..by_cgroup() };
    assert_eq!(kills(text), [expected]);
    let of_root = text.replace("limit of /kubepods/podX", "limit of /");
    assert_eq!(kills(&of_root)[0].limited, None);
}

#[test]
fn other_lines_and_interrupted_kills_are_ignored() {
    let rows = [
        "usb 1-1: Killed process of a device",
        "audit: Killed process 7 (x)",
        "oom-kill:constraint=CONSTRAINT_NONE",
        "oom_reaper: reaped process 2756 (python3), now anon-rss:0kB",
        "Memory cgroup out of memory: Killed process seven (x)",
        "memory: usage many",
    ];
    for line in rows {
        assert_eq!(kills(line), [], "{line}");
    }
    let mut parser = MessageParser::default();
    let (last, head) = {
        let lines: Vec<&str> = BY_CGROUP.lines().collect();
        (lines[lines.len() - 1], lines[..lines.len() - 1].to_vec())
    };
    assert!(head.into_iter().all(|line| parser.line(line).is_none()));
    parser.reset();
    let kill = parser.line(last).unwrap();
    assert_eq!((kill.limited.as_deref(), kill.cgroup), (Some(""), None), "its cgroup is unknown");
}

proptest! {
    #[test]
    fn any_text_is_read_without_a_panic(lines in proptest::collection::vec(".{0,80}", 0..8)) {
        let mut parser = MessageParser::default();
        for line in lines {
            parser.line(&line);
            parser.line(&format!("oom-kill:constraint={line}"));
            parser.line(&format!("Killed process {line}"));
        }
    }
}
