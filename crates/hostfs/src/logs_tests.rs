//! Logs on real files.

use std::ffi::OsStr;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use futures_util::StreamExt as _;
use model::ports::files::{DirectoryChange, HostFiles as _};
use model::ports::log_files::{Cancel, LogFiles as _};
use model::ports::logs::{ContainerLogs, LogRequest, LogText};
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::HostLogs;
use crate::Host;
use crate::test_mount::Mount;

const PATIENCE: Duration = Duration::from_secs(20);

/// A log in its own directory.
struct Log {
    root: tempfile::TempDir,
    path: PathBuf,
}

impl Log {
    fn new() -> Self {
        let root = tempfile::tempdir().unwrap();
        let directory = root.path().join("default_web_uid/main");
        fs::create_dir_all(&directory).unwrap();
        let log = Self { path: directory.join("0.log"), root };
        log.append("");
        log
    }

    fn append(&self, text: &str) {
        let mut file = OpenOptions::new().create(true).append(true).open(&self.path).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    fn write(&self, content: &str) {
        self.append(&format!("2026-01-01T00:00:00Z stdout F {content}\n"));
    }

    async fn read(&self, request: &LogRequest) -> String {
        let text = HostLogs::default().open(&self.path, request, None).await.unwrap();
        let pieces: Vec<_> = text.map(Result::unwrap).collect().await;
        String::from_utf8(pieces.concat()).unwrap()
    }

    /// Follows the log until the sender announces the end.
    async fn follow(
        &self,
        logs: &HostLogs,
        request: &LogRequest,
    ) -> (Follower, oneshot::Sender<()>) {
        let (end, ended) = oneshot::channel();
        let ended = Box::pin(async move { ended.await.unwrap() });
        let text = logs.open(&self.path, request, Some(ended)).await.unwrap();
        (Follower { text, received: String::new() }, end)
    }
}

struct Follower {
    text: LogText,
    received: String,
}

impl Follower {
    /// Reads until the text so far is just this.
    async fn expect_text(&mut self, expected: &str) {
        let reading = async {
            while self.received != expected {
                let piece = self.text.next().await.expect("the log is open").unwrap();
                self.received.push_str(&String::from_utf8(piece).unwrap());
            }
        };
        let read = timeout(PATIENCE, reading).await;
        assert!(read.is_ok(), "read {:?} instead of {expected:?}", self.received);
    }

    async fn ends(&mut self) {
        let next = timeout(PATIENCE, self.text.next()).await.expect("the end in time");
        assert!(next.is_none(), "{next:?}");
    }
}

fn tail(lines: u64) -> LogRequest {
    LogRequest { tail_lines: Some(lines), ..LogRequest::default() }
}

#[tokio::test]
async fn log_is_read_whole_or_from_near_its_end() {
    let log = Log::new();
    for number in 0..5000 {
        log.write(&format!("line {number}"));
    }
    let whole = log.read(&LogRequest::default()).await;
    assert_eq!(whole.lines().count(), 5000);
    assert_eq!(log.read(&tail(2)).await, "line 4998\nline 4999\n");
    assert_eq!(log.read(&tail(0)).await, "");
    assert_eq!(log.read(&tail(u64::MAX)).await, whole);
}

#[tokio::test]
async fn follower_receives_new_lines_and_the_end() {
    let log = Log::new();
    log.write("before");
    let (mut follower, end) = log.follow(&HostLogs::default(), &LogRequest::default()).await;
    follower.expect_text("before\n").await;
    log.write("one");
    follower.expect_text("before\none\n").await;
    log.append("2026-01-01T00:00:00Z std");
    log.append("out P two ");
    log.append("halves\n2026-01-01T00:00:00Z stdout F , joined\n");
    follower.expect_text("before\none\ntwo halves, joined\n").await;
    log.write("last words");
    end.send(()).unwrap();
    follower.expect_text("before\none\ntwo halves, joined\nlast words\n").await;
    follower.ends().await;
}

#[tokio::test]
async fn follower_can_begin_with_the_last_lines() {
    let log = Log::new();
    log.write("one");
    log.write("two");
    let (mut follower, _end) = log.follow(&HostLogs::default(), &tail(1)).await;
    log.write("three");
    follower.expect_text("two\nthree\n").await;
}

#[tokio::test]
async fn rotated_log_is_followed_without_a_gap() {
    let log = Log::new();
    log.write("one");
    let (mut follower, end) = log.follow(&HostLogs::default(), &LogRequest::default()).await;
    follower.expect_text("one\n").await;
    // Like a runtime: writes to the old file until it opens the new one.
    let mut old = OpenOptions::new().append(true).open(&log.path).unwrap();
    fs::rename(&log.path, log.path.with_extension("log.20260101-000000")).unwrap();
    old.write_all(b"2026-01-01T00:00:00Z stdout F two\n").unwrap();
    log.write("three");
    follower.expect_text("one\ntwo\nthree\n").await;
    fs::rename(&log.path, log.path.with_extension("log.20260101-000001")).unwrap();
    log.write("four");
    end.send(()).unwrap();
    follower.expect_text("one\ntwo\nthree\nfour\n").await;
    follower.ends().await;
}

#[tokio::test]
async fn truncated_log_is_read_from_its_start() {
    let log = Log::new();
    log.write("a long first line");
    let (mut follower, _end) = log.follow(&HostLogs::default(), &LogRequest::default()).await;
    follower.expect_text("a long first line\n").await;
    fs::write(&log.path, "").unwrap();
    log.write("b");
    follower.expect_text("a long first line\nb\n").await;
}

/// The open files of this process, of all tests.
fn inotify_instances() -> usize {
    let open = fs::read_dir("/proc/self/fd").unwrap();
    let targets = open.filter_map(|entry| fs::read_link(entry.ok()?.path()).ok());
    targets.filter(|target| target.to_string_lossy().contains("inotify")).count()
}

// behaviour: LOG-10
#[tokio::test]
async fn followers_share_the_inotify_instance_of_all_watches() {
    let (log, host) = (Log::new(), Host::default());
    let logs = host.logs();
    let mut watch = host.watch(log.path.parent().unwrap()).await.unwrap();
    let mut followers = Vec::new();
    for _ in 0..150 {
        followers.push(log.follow(&logs, &LogRequest::default()).await);
    }
    // A machine has 128 for all processes; the other tests here have one each.
    assert!(inotify_instances() < 100, "{}", inotify_instances());
    log.write("hello");
    for (follower, _) in &mut followers {
        follower.expect_text("hello\n").await;
    }
    drop(followers);
    // Another listener of the directory is not affected.
    fs::write(log.path.with_file_name("1.log"), "").unwrap();
    let hears_of = async {
        loop {
            match watch.next_change().await.unwrap() {
                DirectoryChange::Names(names) if !names.contains(OsStr::new("1.log")) => {}
                _ => return,
            }
        }
    };
    timeout(PATIENCE, hears_of).await.unwrap();
}

// behaviour: LOG-7
#[tokio::test]
async fn log_that_is_not_a_regular_file_is_not_read() {
    let log = Log::new();
    let directory = log.path.parent().unwrap();
    let secret = log.root.path().join("secret");
    fs::write(&secret, "2026-01-01T00:00:00Z stdout F secret\n").unwrap();
    symlink(&secret, directory.join("1.log")).unwrap();
    symlink(directory, directory.with_file_name("link")).unwrap();
    let rows = [
        directory.join("1.log"),
        directory.with_file_name("link").join("0.log"),
        directory.join("2.log"),
        directory.join("../main/0.log"),
        directory.to_owned(),
        PathBuf::from("/0.log"),
        PathBuf::from("main/0.log"),
    ];
    for path in rows {
        let read = HostLogs::default().open(&path, &LogRequest::default(), None).await;
        let error = read.err().unwrap_or_else(|| panic!("{} was read", path.display()));
        assert_eq!(error.path, path);
    }
    // Links above the pod log directory belong to the operator and are followed.
    let moved = log.root.path().join("elsewhere");
    symlink(log.root.path(), &moved).unwrap();
    let path = moved.join(Path::new("default_web_uid/main/0.log"));
    let read = HostLogs::default().open(&path, &LogRequest::default(), None).await;
    assert!(read.is_ok());
}

impl Log {
    fn rotated(&self, time: &str) -> PathBuf {
        self.path.with_extension(format!("log.{time}"))
    }

    /// Rotates the log, and starts a new file.
    fn rotate(&self, time: &str) {
        fs::rename(&self.path, self.rotated(time)).unwrap();
        self.append("");
    }

    /// Rotates the log and compresses the rotated file.
    fn rotate_compressed(&self, time: &str) {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(&fs::read(&self.path).unwrap()).unwrap();
        fs::write(self.rotated(&format!("{time}.gz")), encoder.finish().unwrap()).unwrap();
        fs::remove_file(&self.path).unwrap();
        self.append("");
    }
}

/// A log of four lines for each of its files: two compressed ones, one rotated, and the current one.
fn log_of_four_files() -> Log {
    let log = Log::new();
    let mut number = 0;
    let mut write = || {
        for _ in 0..4 {
            log.write(&format!("line {number}"));
            number += 1;
        }
    };
    write();
    log.rotate_compressed("20260101-000000");
    write();
    log.rotate_compressed("20260102-000000");
    write();
    log.rotate("20260103-000000");
    write();
    log
}

fn lines(from: u32) -> String {
    let lines: Vec<String> = (from..16).map(|number| format!("line {number}\n")).collect();
    lines.concat()
}

// behaviour: LOG-5
#[tokio::test]
async fn rotated_files_are_read_before_the_current_one() {
    let log = log_of_four_files();
    assert_eq!(log.read(&LogRequest::default()).await, lines(0));
    for (count, from) in
        [(0, 16), (1, 15), (4, 12), (5, 11), (8, 8), (10, 6), (12, 4), (15, 1), (99, 0)]
    {
        assert_eq!(log.read(&tail(count)).await, lines(from), "the last {count}");
    }
}

#[tokio::test]
async fn follower_begins_in_rotated_files() {
    let log = log_of_four_files();
    let (mut follower, end) = log.follow(&HostLogs::default(), &tail(6)).await;
    follower.expect_text(&lines(10)).await;
    log.write("more");
    end.send(()).unwrap();
    follower.expect_text(&format!("{}more\n", lines(10))).await;
    follower.ends().await;
}

#[tokio::test]
async fn file_that_is_being_compressed_is_read_once() {
    let log = log_of_four_files();
    let compressed = fs::read(log.rotated("20260102-000000.gz")).unwrap();
    fs::write(log.rotated("20260103-000000.gz"), &compressed[..10]).unwrap();
    fs::write(log.rotated("20260103-000000.gz.tmp"), "half").unwrap();
    assert_eq!(log.read(&LogRequest::default()).await, lines(0));
}

#[tokio::test]
async fn rotated_files_older_than_the_requested_time_are_not_read() {
    let log = log_of_four_files();
    // The file is not even opened.
    let damaged = log.rotated("20260101-000000.gz");
    fs::write(&damaged, "damaged").unwrap();
    let old = fs::FileTimes::new().set_modified(std::time::UNIX_EPOCH);
    fs::File::options().write(true).open(&damaged).unwrap().set_times(old).unwrap();
    let since = Some("2025-12-31T00:00:00Z".parse().unwrap());
    let request = LogRequest { since, ..LogRequest::default() };
    assert_eq!(log.read(&request).await, lines(4));
}

#[tokio::test]
async fn rotated_file_that_is_a_link_is_not_read() {
    let log = Log::new();
    log.write("line");
    let secret = log.root.path().join("secret");
    fs::write(&secret, "2026-01-01T00:00:00Z stdout F secret\n").unwrap();
    symlink(&secret, log.rotated("20260101-000000")).unwrap();
    assert_eq!(log.read(&LogRequest::default()).await, "line\n");
    assert_eq!(log.read(&tail(5)).await, "line\n");
}

// behaviour: LOG-6
#[tokio::test]
async fn damaged_compressed_file_is_skipped() {
    let log = Log::new();
    log.write("line");
    fs::write(log.rotated("20260101-000000.gz"), "damaged").unwrap();
    assert_eq!(log.read(&LogRequest::default()).await, "line\n");
    assert_eq!(log.read(&tail(5)).await, "line\n");
}

// behaviour: LOG-8
#[tokio::test]
async fn follower_that_is_two_rotations_behind_misses_nothing() {
    let log = Log::new();
    log.write("one");
    let (mut follower, end) = log.follow(&HostLogs::default(), &LogRequest::default()).await;
    // The follower has not read anything yet.
    log.rotate("20260101-000000");
    log.write("two");
    log.rotate("20260102-000000");
    log.write("three");
    end.send(()).unwrap();
    follower.expect_text("one\ntwo\nthree\n").await;
    follower.ends().await;
}

// behaviour: ROT-17
#[tokio::test]
async fn follower_reads_on_in_files_that_were_compressed_meanwhile() {
    let log = Log::new();
    log.write("one");
    let logs = HostLogs::default();
    let (mut follower, end) = log.follow(&logs, &LogRequest::default()).await;
    // The follower has not read anything yet.
    for (time, next) in
        [("20260101-000000", "two"), ("20260102-000000", "three"), ("20260103-000000", "four")]
    {
        // Modification times have the resolution of the kernel's clock.
        tokio::time::sleep(Duration::from_millis(20)).await;
        log.rotate(time);
        log.write(next);
    }
    for time in ["20260101-000000", "20260102-000000"] {
        logs.compress(&log.rotated(time), &Cancel::default()).await.unwrap();
    }
    end.send(()).unwrap();
    follower.expect_text("one\ntwo\nthree\nfour\n").await;
    follower.ends().await;
    assert_eq!(log.read(&LogRequest::default()).await, "one\ntwo\nthree\nfour\n");
}

// behaviour: ROT-14
#[tokio::test]
async fn full_disk_leaves_the_plain_file_and_no_draft() {
    let log = Log::new();
    let directory = log.path.parent().unwrap();
    let Some(_mount) = Mount::tmpfs(directory, "256k") else { return };
    // Incompressible text, larger than half of the disk.
    let mut state = 1_u64;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state.to_le_bytes()[7]
    })
    .take(160 << 10)
    .collect();
    let rotated = log.rotated("20260101-000000");
    fs::write(&rotated, &noise).unwrap();
    log.append("");
    let logs = HostLogs::default();
    let error = logs.compress(&rotated, &Cancel::default()).await.unwrap_err();
    assert_eq!(error.source.kind(), std::io::ErrorKind::StorageFull);
    let names: Vec<_> =
        logs.list(&log.path).await.unwrap().into_iter().map(|file| file.name).collect();
    assert_eq!(names, ["0.log", "0.log.20260101-000000"]);
    assert_eq!(fs::read(&rotated).unwrap(), noise);
}

// behaviour: LOG-9
#[tokio::test]
async fn follower_ends_when_the_log_is_removed() {
    let log = Log::new();
    log.write("one");
    let (mut follower, _end) = log.follow(&HostLogs::default(), &LogRequest::default()).await;
    follower.expect_text("one\n").await;
    fs::remove_file(&log.path).unwrap();
    follower.ends().await;
}
