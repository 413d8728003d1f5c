use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::*;

const SOON: Duration = Duration::from_secs(5);

/// A directory and its listener.
struct Bench {
    place: tempfile::TempDir,
    watches: Watches,
    watch: Watch,
}

impl Bench {
    async fn new() -> Self {
        let place = tempfile::tempdir().unwrap();
        let watches = Watches::default();
        let watch = watches.watch(place.path()).await.unwrap();
        Self { place, watches, watch }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// The changes until a last one, by name.
    async fn changes_until(&mut self, last: &str) -> DirectoryChange {
        fs::write(self.path(last), "").unwrap();
        let mut all = DirectoryChange::Names(BTreeSet::new());
        loop {
            let changes = timeout(SOON, self.watch.next_change()).await.unwrap().unwrap();
            all = all.and(changes);
            match &all {
                DirectoryChange::Names(names) if !names.contains(std::ffi::OsStr::new(last)) => {}
                _ => return all,
            }
        }
    }
}

fn names(names: &[&str]) -> DirectoryChange {
    DirectoryChange::Names(names.iter().map(Into::into).collect())
}

#[tokio::test]
async fn written_file_is_reported_when_its_writer_closes_it() {
    let mut bench = Bench::new().await;
    fs::write(bench.path("a"), "text").unwrap();
    assert_eq!(bench.changes_until("first").await, names(&["a", "first"]));
    let mut writer = OpenOptions::new().append(true).open(bench.path("a")).unwrap();
    writer.write_all(b"more").unwrap();
    // The end of the file that was written last may be reported after its beginning.
    let changes = bench.changes_until("second").await;
    assert_eq!(changes.and(names(&["first"])), names(&["first", "second"]));
    drop(writer);
    let changes = bench.changes_until("third").await;
    assert_eq!(changes.and(names(&["second"])), names(&["a", "second", "third"]));
}

#[tokio::test]
async fn editor_changes_are_reported_by_name() {
    let mut bench = Bench::new().await;
    fs::write(bench.path("a.yaml"), "old").unwrap();
    bench.changes_until("ready").await;
    fs::write(bench.path(".a.yaml.swp"), "new").unwrap();
    fs::rename(bench.path("a.yaml"), bench.path("a.yaml~")).unwrap();
    fs::write(bench.path("a.yaml"), "new").unwrap();
    let mode = fs::metadata(bench.path("a.yaml")).unwrap().permissions();
    fs::set_permissions(bench.path("a.yaml"), mode).unwrap();
    fs::remove_file(bench.path("a.yaml~")).unwrap();
    let changes = bench.changes_until("last").await;
    let expected = names(&[".a.yaml.swp", "a.yaml", "a.yaml~", "last", "ready"]);
    assert_eq!(changes.and(names(&["ready"])), expected);
}

#[tokio::test]
async fn pending_changes_are_merged() {
    let queue = Queue::default();
    for name in ["a", "b", "a"] {
        queue.push(names(&[name]));
    }
    assert_eq!(queue.take().await, Some(names(&["a", "b"])));
    queue.push(names(&["c"]));
    queue.push(DirectoryChange::Anything);
    queue.end();
    assert_eq!(queue.take().await, Some(DirectoryChange::Anything));
    assert_eq!(queue.take().await, None);
}

#[tokio::test]
async fn too_many_changes_are_reported_as_anything() {
    let mut bench = Bench::new().await;
    for number in 0..2000 {
        fs::write(bench.path(&number.to_string()), "").unwrap();
    }
    assert_eq!(bench.changes_until("last").await, DirectoryChange::Anything);
}

#[tokio::test]
async fn watches_share_one_inotify_instance_and_are_cleaned_up() {
    let bench = Bench::new().await;
    fs::create_dir(bench.path("below")).unwrap();
    let below = bench.watches.watch(&bench.path("below")).await.unwrap();
    let again = bench.watches.watch(bench.place.path()).await.unwrap();
    assert!(Arc::ptr_eq(&bench.watch.shared, &below.shared));
    assert!(Arc::ptr_eq(&bench.watch.shared, &again.shared));
    assert_eq!(bench.watch.descriptor, again.descriptor);
    let shared = Arc::clone(&below.shared);
    drop((bench.watch, below, again));
    let emptied = async {
        while !lock(&shared.table).listeners.is_empty() {
            sleep(Duration::from_millis(1)).await;
        }
    };
    timeout(SOON, emptied).await.unwrap();
    assert!(lock(&shared.table).ended.is_empty());
}

#[tokio::test]
async fn broken_inotify_instance_ends_its_watches_and_is_replaced() {
    let mut bench = Bench::new().await;
    lock(&bench.watches.instance).as_mut().unwrap().reader.abort_all();
    assert_eq!(timeout(SOON, bench.watch.next_change()).await.unwrap(), None);
    bench.watch = bench.watches.watch(bench.place.path()).await.unwrap();
    assert_eq!(bench.changes_until("new").await, names(&["new"]));
}

#[test]
fn watch_that_ended_early_ends_for_its_first_listener() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let bench = Bench::new().await;
        let descriptor = bench.watch.descriptor.clone();
        let mut table = Table::default();
        let ignored =
            EventOwned { wd: descriptor.clone(), mask: EventMask::IGNORED, cookie: 0, name: None };
        assert_eq!(table.forward(ignored), None);
        let queue = Arc::new(Queue::default());
        table.listen(descriptor, &queue);
        assert_eq!(timeout(SOON, queue.take()).await.unwrap(), None);
        assert!(table.ended.is_empty() && table.listeners.is_empty());
    });
}
