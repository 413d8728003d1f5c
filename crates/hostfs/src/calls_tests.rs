use std::path::PathBuf;
use std::sync::mpsc;

use model::chain::Chain;
use model::ports::disk::Disks as _;
use model::ports::files::HostFiles as _;
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio::time::{Instant, advance};

use super::*;

/// A file system on which operations do not return until this is dropped.
struct HungDisk {
    gates: Vec<mpsc::Sender<()>>,
    calls: JoinSet<Result<(), FileError>>,
}

impl HungDisk {
    /// With `count` operations in progress, each on a file of another pod.
    async fn of_pods(host: &Host, count: usize) -> Self {
        let mut hung = Self { gates: Vec::new(), calls: JoinSet::new() };
        for number in 0..count {
            let (gate, wait) = mpsc::channel();
            hung.gates.push(gate);
            let host = host.clone();
            let path = PathBuf::from(format!("/hung/pods/{number}/etc-hosts"));
            hung.calls.spawn(async move {
                host.call("read", &path, move |_| {
                    _ = wait.recv();
                    Ok(())
                })
                .await
            });
        }
        tokio::task::yield_now().await;
        hung
    }
}

fn with_file() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "text").unwrap();
    (directory, file)
}

// behaviour: WRK-50
#[tokio::test(start_paused = true)]
async fn hanging_file_operations_leave_other_files_readable() {
    let (host, (directory, file)) = (Host::default(), with_file());
    let hung = HungDisk::of_pods(&host, 20).await;
    // All threads are occupied; after a while replacements start.
    let mut waiting = JoinSet::new();
    let (other, path) = (host.clone(), file.clone());
    waiting.spawn(async move { other.read(&path, 9).await });
    tokio::task::yield_now().await;
    advance(Duration::from_secs(5)).await;
    assert_eq!(waiting.join_next().await.unwrap().unwrap().unwrap(), b"text");
    host.write_durably(&directory.path().join("other"), b"more").await.unwrap();
    host.space(directory.path()).await.unwrap();
    host.watch(directory.path()).await.unwrap();
    drop(hung);
}

// behaviour: WRK-50
#[tokio::test(start_paused = true)]
async fn hanging_file_operation_fails_with_its_name_and_path() {
    let host = Host::default();
    let mut hung = HungDisk::of_pods(&host, 1).await;
    advance(LIMIT).await;
    let error = hung.calls.join_next().await.unwrap().unwrap().unwrap_err();
    assert_eq!(Chain(&error).to_string(), "read /hung/pods/0/etc-hosts: has not returned for 30 s");
    let next = host.overwrite(Path::new("/hung/pods/0/other"), b"x", 0o644).await.unwrap_err();
    assert_eq!(
        Chain(&next).to_string(),
        "write /hung/pods/0/other: not tried: read /hung/pods/0/etc-hosts has not returned for 30 s"
    );
    let stuck = host.pool().stuck(Instant::now());
    assert_eq!((stuck.len(), host.pool().overdue_total()), (1, 1));
    assert_eq!(stuck[0].subject, Path::new("/hung/pods/0/etc-hosts"));
}
