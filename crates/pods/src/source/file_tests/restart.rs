//! The last good version is there after a restart.

use model::ports::files::draft_of;

use super::*;
use testkit::logged::Logged;

const A: &str = "/manifests/a.yaml";

impl Bench {
    /// Ends the source and starts another one on the same files.
    async fn restart(mut self) -> Self {
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
        Self::starting(self.files, "/manifests")
    }

    /// The files with the last good versions.
    async fn kept(&self) -> Vec<String> {
        self.files.list("/state".as_ref()).await.unwrap_or_default()
    }

    /// The file with the last good version of the only manifest.
    async fn kept_one(&self) -> String {
        let kept = self.kept().await;
        assert_eq!(kept.len(), 1, "{kept:?}");
        format!("/state/{}", kept[0])
    }
}

fn one() -> MemoryFiles {
    let files = MemoryFiles::new();
    files.write(A, manifest("a", "x:1"));
    files
}

// behaviour: SRC-30
#[tokio::test(start_paused = true)]
async fn a_manifest_that_is_broken_at_the_start_keeps_its_last_good_version() {
    let mut bench = Bench::reading(two());
    assert_eq!(bench.told().await, BOTH);
    bench.files.write(A, manifest("a", "x:2"));
    assert_eq!(bench.told().await, ["default/a-node x:2", BOTH[1]]);
    let uid = |bench: &Bench| podspec::view::uid(&bench.pods.borrow().as_ref().unwrap()[0]);
    let before = uid(&bench);
    bench.files.write(A, "kind: Pod\nspec: [");
    let mut bench = bench.restart().await;
    assert_eq!(bench.told().await, ["default/a-node x:2", BOTH[1]]);
    assert_eq!(uid(&bench), before, "another pod would be started");
    // As often as it takes.
    let mut bench = bench.restart().await;
    assert_eq!(bench.told().await, ["default/a-node x:2", BOTH[1]]);
    bench.files.write(A, manifest("a", "x:2"));
    bench.told_nothing().await;
    bench.files.write(A, manifest("a", "x:3"));
    assert_eq!(bench.told().await, ["default/a-node x:3", BOTH[1]]);
}

#[tokio::test(start_paused = true)]
async fn a_manifest_that_cannot_be_read_at_the_start_keeps_its_last_good_version() {
    let mut bench = Bench::reading(two());
    assert_eq!(bench.told().await, BOTH);
    bench.files.fail(A, ErrorKind::PermissionDenied);
    let mut bench = bench.restart().await;
    assert_eq!(bench.told().await, BOTH);
    bench.files.repair(A);
    bench.told_nothing().await;
}

// behaviour: SRC-31
#[tokio::test(start_paused = true)]
async fn a_good_version_is_on_disk_before_it_is_told_and_is_written_once() {
    let files = one();
    files.hold_writes();
    let mut bench = Bench::reading(files);
    bench.told_nothing().await;
    bench.files.release_writes();
    assert_eq!(bench.told().await, BOTH[..1]);
    let path = bench.kept_one().await;
    assert_eq!(bench.files.mode(&path), Some(0o600));
    assert_eq!(bench.files.mode("/state"), Some(0o700));
    let text = String::from_utf8(bench.files.content(&path).unwrap()).unwrap();
    assert!(text.contains(r#""origin":"/manifests/a.yaml""#), "{text}");
    let version = bench.files.look(path.as_ref()).await.unwrap();
    let mut bench = bench.restart().await;
    bench.told().await;
    bench.files.write(A, "bad");
    bench.told_nothing().await;
    bench.files.write(A, manifest("a", "x:1"));
    bench.told_nothing().await;
    assert_eq!(bench.files.look(path.as_ref()).await.unwrap(), version, "it was written again");
    bench.files.write(A, manifest("a", "x:2"));
    bench.told().await;
    assert_ne!(bench.files.look(path.as_ref()).await.unwrap(), version);
}

// behaviour: SRC-31
#[tokio::test(start_paused = true)]
async fn what_is_gone_is_gone_whether_the_agent_ran_or_not() {
    let mut bench = Bench::reading(two());
    assert_eq!(bench.told().await, BOTH);
    assert_eq!(bench.kept().await.len(), 2);
    bench.files.write(A, "bad");
    bench.files.remove(A);
    assert_eq!(bench.told().await, BOTH[1..]);
    assert_eq!(bench.kept().await.len(), 1);
    bench.files.remove("/manifests/b.yaml");
    let mut bench = bench.restart().await;
    assert!(bench.told().await.is_empty());
    assert!(bench.kept().await.is_empty());
    // A bad file of the same name does not bring the old pod back.
    bench.files.write("/manifests/b.yaml", "bad");
    bench.told_nothing().await;
}

#[tokio::test(start_paused = true)]
async fn nothing_is_forgotten_while_nobody_knows_what_is_there() {
    let mut bench = Bench::reading(one());
    bench.told().await;
    bench.files.write(A, "bad");
    bench.files.fail("/manifests", ErrorKind::PermissionDenied);
    let mut bench = bench.restart().await;
    bench.told_nothing().await;
    bench.files.repair("/manifests");
    assert_eq!(bench.told().await, BOTH[..1]);
}

// behaviour: SRC-32
#[tokio::test(start_paused = true)]
async fn a_kept_version_that_is_damaged_or_foreign_is_ignored_with_a_warning() {
    let mut bench = Bench::reading(one());
    bench.told().await;
    let path = bench.kept_one().await;
    let good = String::from_utf8(bench.files.content(&path).unwrap()).unwrap();
    let rows = [
        (String::new(), "is damaged"),
        (good[..good.len() / 2].to_owned(), "is damaged"),
        (good.replace("x:1", "x:9"), "checksum"),
        (good.replace("a.yaml", "c.yaml"), "checksum"),
        (good.replace(r#""version":2"#, r#""version":3"#), "has version 3"),
        ("[1, 2]".to_owned(), "is damaged"),
        ("\0\0\0\0".to_owned(), "is damaged"),
    ];
    bench.files.write(A, "bad");
    for (content, problem) in rows {
        bench.files.write(&path, content.as_str());
        let logged = Logged::new();
        bench = bench.restart().await;
        assert!(bench.told().await.is_empty(), "{problem}");
        let warnings = logged.warnings();
        let about = |line: &&String| line.contains(&path) && line.contains(problem);
        assert_eq!(warnings.iter().filter(about).count(), 1, "{problem}: {warnings:#?}");
    }
    // A good manifest puts it right.
    bench.files.write(A, manifest("a", "x:1"));
    assert_eq!(bench.told().await, BOTH[..1]);
    let now = String::from_utf8(bench.files.content(&path).unwrap()).unwrap();
    assert!(now.contains(r#""origin":"/manifests/a.yaml""#) && now.contains("x:1"), "{now}");
}

#[tokio::test(start_paused = true)]
async fn a_kept_version_under_the_name_of_another_is_ignored() {
    let mut bench = Bench::reading(one());
    bench.told().await;
    let of_a = bench.files.content(bench.kept_one().await).unwrap();
    bench.files.rename(A, "/manifests/b.yaml");
    bench.told().await;
    let of_b = bench.kept_one().await;
    bench.files.write("/manifests/b.yaml", "bad");
    bench.files.write(&of_b, of_a);
    let logged = Logged::new();
    let mut bench = bench.restart().await;
    assert!(bench.told().await.is_empty());
    assert!(logged.text().contains("is about another manifest"));
}

// behaviour: SRC-32
#[tokio::test(start_paused = true)]
async fn what_a_crash_left_is_cleared_and_what_is_not_ours_is_left() {
    let mut bench = Bench::reading(one());
    bench.told().await;
    let path = bench.kept_one().await;
    let name = path.rsplit('/').next().unwrap();
    let stray = format!("/state/{}.json", "0".repeat(64));
    bench.files.write(format!("/state/{}", draft_of(name)), "half of somethi");
    bench.files.write("/state/notes.txt", "mine");
    bench.files.write(&stray, "old");
    let logged = Logged::new();
    let mut bench = bench.restart().await;
    assert_eq!(bench.told().await, BOTH[..1]);
    assert_eq!(bench.kept().await, [name, "notes.txt"]);
    assert!(logged.warnings().iter().any(|line| line.contains("/state/notes.txt")));
}

// behaviour: SRC-32
#[tokio::test(start_paused = true)]
async fn a_version_that_cannot_be_kept_is_told_all_the_same_and_kept_later() {
    let mut bench = Bench::reading(one());
    bench.told().await;
    let path = bench.kept_one().await;
    let logged = Logged::new();
    bench.files.fail(path.as_str(), ErrorKind::StorageFull);
    bench.files.write(A, manifest("a", "x:2"));
    assert_eq!(bench.told().await, ["default/a-node x:2"]);
    bench.told_nothing().await;
    let warnings = logged.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains(&path), "{warnings:?}");
    bench.files.repair(path.as_str());
    bench.told_nothing().await;
    bench.files.write(A, "bad");
    bench.told_nothing().await;
    let mut bench = bench.restart().await;
    assert_eq!(bench.told().await, ["default/a-node x:2"]);
    assert_eq!(bench.kept_one().await, path);
}
