use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::*;

const SOON: Duration = Duration::from_secs(5);

/// A directory and somebody who listens to it.
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

    /// What is heard until a last change, by name.
    async fn heard_until(&mut self, last: &str) -> Heard {
        fs::write(self.path(last), "").unwrap();
        let mut all = Heard::Names(BTreeSet::new());
        loop {
            let heard = timeout(SOON, self.watch.heard()).await.unwrap().unwrap();
            all = all.and(heard);
            match &all {
                Heard::Names(names) if !names.contains(std::ffi::OsStr::new(last)) => {}
                _ => return all,
            }
        }
    }
}

fn names(names: &[&str]) -> Heard {
    Heard::Names(names.iter().map(Into::into).collect())
}

#[tokio::test]
async fn a_file_is_heard_of_when_its_writer_is_done_and_not_before() {
    let mut bench = Bench::new().await;
    fs::write(bench.path("a"), "text").unwrap();
    assert_eq!(bench.heard_until("first").await, names(&["a", "first"]));
    let mut writer = OpenOptions::new().append(true).open(bench.path("a")).unwrap();
    writer.write_all(b"more").unwrap();
    // The end of the file that was written last may be told after its beginning.
    let heard = bench.heard_until("second").await;
    assert_eq!(heard.and(names(&["first"])), names(&["first", "second"]));
    drop(writer);
    let heard = bench.heard_until("third").await;
    assert_eq!(heard.and(names(&["second"])), names(&["a", "second", "third"]));
}

#[tokio::test]
async fn what_an_editor_does_is_heard_by_name() {
    let mut bench = Bench::new().await;
    fs::write(bench.path("a.yaml"), "old").unwrap();
    bench.heard_until("ready").await;
    fs::write(bench.path(".a.yaml.swp"), "new").unwrap();
    fs::rename(bench.path("a.yaml"), bench.path("a.yaml~")).unwrap();
    fs::write(bench.path("a.yaml"), "new").unwrap();
    let mode = fs::metadata(bench.path("a.yaml")).unwrap().permissions();
    fs::set_permissions(bench.path("a.yaml"), mode).unwrap();
    fs::remove_file(bench.path("a.yaml~")).unwrap();
    let heard = bench.heard_until("last").await;
    let expected = names(&[".a.yaml.swp", "a.yaml", "a.yaml~", "last", "ready"]);
    assert_eq!(heard.and(names(&["ready"])), expected);
}

#[tokio::test]
async fn what_nobody_took_is_merged() {
    let queue = Queue::default();
    for name in ["a", "b", "a"] {
        queue.push(names(&[name]));
    }
    assert_eq!(queue.take().await, Some(names(&["a", "b"])));
    queue.push(names(&["c"]));
    queue.push(Heard::Anything);
    queue.end();
    assert_eq!(queue.take().await, Some(Heard::Anything));
    assert_eq!(queue.take().await, None);
}

#[tokio::test]
async fn too_many_names_are_anything() {
    let mut bench = Bench::new().await;
    for number in 0..2000 {
        fs::write(bench.path(&number.to_string()), "").unwrap();
    }
    assert_eq!(bench.heard_until("last").await, Heard::Anything);
}

#[tokio::test]
async fn all_watches_share_one_instance_and_leave_nothing_behind() {
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
async fn a_broken_instance_ends_its_watches_and_is_replaced() {
    let mut bench = Bench::new().await;
    lock(&bench.watches.instance).as_mut().unwrap().reader.abort_all();
    assert_eq!(timeout(SOON, bench.watch.heard()).await.unwrap(), None);
    bench.watch = bench.watches.watch(bench.place.path()).await.unwrap();
    assert_eq!(bench.heard_until("new").await, names(&["new"]));
}

#[test]
fn what_ended_before_it_had_a_listener_ends_for_its_first() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let bench = Bench::new().await;
        let descriptor = bench.watch.descriptor.clone();
        let mut table = Table::default();
        let ignored =
            EventOwned { wd: descriptor.clone(), mask: EventMask::IGNORED, cookie: 0, name: None };
        assert_eq!(table.tell(ignored), None);
        let queue = Arc::new(Queue::default());
        table.listen(descriptor, &queue);
        assert_eq!(timeout(SOON, queue.take()).await.unwrap(), None);
        assert!(table.ended.is_empty() && table.listeners.is_empty());
    });
}
