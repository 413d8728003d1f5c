//! The last good version survives a restart.

use model::ports::files::draft_of;

use super::*;
use testkit::logged::Logged;

const A: &str = "/manifests/a.yaml";

impl Bench {
    /// Stops the source and starts another one on the same files.
    async fn restart(mut self) -> Self {
        self.stop.cancel();
        while self.tasks.join_next().await.is_some() {}
        Self::starting(self.files, "/manifests")
    }

    /// The files of the last good versions.
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
async fn manifest_broken_at_start_keeps_its_last_good_version() {
    let mut bench = Bench::reading(two());
    assert_eq!(bench.next_set().await, BOTH);
    bench.files.write(A, manifest("a", "x:2"));
    assert_eq!(bench.next_set().await, ["default/a-node x:2", BOTH[1]]);
    let uid = |bench: &Bench| podspec::view::uid(&bench.pods.borrow().as_ref().unwrap()[0]);
    let before = uid(&bench);
    bench.files.write(A, "kind: Pod\nspec: [");
    let mut bench = bench.restart().await;
    assert_eq!(bench.next_set().await, ["default/a-node x:2", BOTH[1]]);
    assert_eq!(uid(&bench), before, "another pod would be started");
    // Over any number of restarts.
    let mut bench = bench.restart().await;
    assert_eq!(bench.next_set().await, ["default/a-node x:2", BOTH[1]]);
    bench.files.write(A, manifest("a", "x:2"));
    bench.expect_no_set().await;
    bench.files.write(A, manifest("a", "x:3"));
    assert_eq!(bench.next_set().await, ["default/a-node x:3", BOTH[1]]);
}

#[tokio::test(start_paused = true)]
async fn manifest_unreadable_at_start_keeps_its_last_good_version() {
    let mut bench = Bench::reading(two());
    assert_eq!(bench.next_set().await, BOTH);
    bench.files.fail(A, ErrorKind::PermissionDenied);
    let mut bench = bench.restart().await;
    assert_eq!(bench.next_set().await, BOTH);
    bench.files.repair(A);
    bench.expect_no_set().await;
}

// behaviour: SRC-31
#[tokio::test(start_paused = true)]
async fn good_version_is_stored_once_and_before_it_is_published() {
    let files = one();
    files.hold_writes();
    let mut bench = Bench::reading(files);
    bench.expect_no_set().await;
    bench.files.release_writes();
    assert_eq!(bench.next_set().await, BOTH[..1]);
    let path = bench.kept_one().await;
    assert_eq!(bench.files.mode(&path), Some(0o600));
    assert_eq!(bench.files.mode("/state"), Some(0o700));
    let text = String::from_utf8(bench.files.content(&path).unwrap()).unwrap();
    assert!(text.contains(r#""origin":"/manifests/a.yaml""#), "{text}");
    let version = bench.files.look(path.as_ref()).await.unwrap();
    let mut bench = bench.restart().await;
    bench.next_set().await;
    bench.files.write(A, "bad");
    bench.expect_no_set().await;
    bench.files.write(A, manifest("a", "x:1"));
    bench.expect_no_set().await;
    assert_eq!(bench.files.look(path.as_ref()).await.unwrap(), version, "it was written again");
    bench.files.write(A, manifest("a", "x:2"));
    bench.next_set().await;
    assert_ne!(bench.files.look(path.as_ref()).await.unwrap(), version);
}

// behaviour: SRC-31
#[tokio::test(start_paused = true)]
async fn removed_manifest_stays_removed_across_a_restart() {
    let mut bench = Bench::reading(two());
    assert_eq!(bench.next_set().await, BOTH);
    assert_eq!(bench.kept().await.len(), 2);
    bench.files.write(A, "bad");
    bench.files.remove(A);
    assert_eq!(bench.next_set().await, BOTH[1..]);
    assert_eq!(bench.kept().await.len(), 1);
    bench.files.remove("/manifests/b.yaml");
    let mut bench = bench.restart().await;
    assert!(bench.next_set().await.is_empty());
    assert!(bench.kept().await.is_empty());
    // A bad file of the same name does not restore the old pod.
    bench.files.write("/manifests/b.yaml", "bad");
    bench.expect_no_set().await;
}

#[tokio::test(start_paused = true)]
async fn stored_versions_are_kept_while_the_directory_is_unreadable() {
    let mut bench = Bench::reading(one());
    bench.next_set().await;
    bench.files.write(A, "bad");
    bench.files.fail("/manifests", ErrorKind::PermissionDenied);
    let mut bench = bench.restart().await;
    bench.expect_no_set().await;
    bench.files.repair("/manifests");
    assert_eq!(bench.next_set().await, BOTH[..1]);
}

// behaviour: SRC-32
#[tokio::test(start_paused = true)]
async fn damaged_or_foreign_stored_version_is_ignored_with_a_warning() {
    let mut bench = Bench::reading(one());
    bench.next_set().await;
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
        assert!(bench.next_set().await.is_empty(), "{problem}");
        let warnings = logged.warnings();
        let about = |line: &&String| line.contains(&path) && line.contains(problem);
        assert_eq!(warnings.iter().filter(about).count(), 1, "{problem}: {warnings:#?}");
    }
    // A good manifest replaces the damaged file.
    bench.files.write(A, manifest("a", "x:1"));
    assert_eq!(bench.next_set().await, BOTH[..1]);
    let now = String::from_utf8(bench.files.content(&path).unwrap()).unwrap();
    assert!(now.contains(r#""origin":"/manifests/a.yaml""#) && now.contains("x:1"), "{now}");
}

#[tokio::test(start_paused = true)]
async fn stored_version_of_another_origin_is_ignored() {
    let mut bench = Bench::reading(one());
    bench.next_set().await;
    let of_a = bench.files.content(bench.kept_one().await).unwrap();
    bench.files.rename(A, "/manifests/b.yaml");
    bench.next_set().await;
    let of_b = bench.kept_one().await;
    bench.files.write("/manifests/b.yaml", "bad");
    bench.files.write(&of_b, of_a);
    let logged = Logged::new();
    let mut bench = bench.restart().await;
    assert!(bench.next_set().await.is_empty());
    assert!(logged.text().contains("it belongs to another origin"));
}

// behaviour: SRC-32
#[tokio::test(start_paused = true)]
async fn drafts_of_a_crash_are_removed_and_unknown_files_are_kept() {
    let mut bench = Bench::reading(one());
    bench.next_set().await;
    let path = bench.kept_one().await;
    let name = path.rsplit('/').next().unwrap();
    let stray = format!("/state/{}.json", "0".repeat(64));
    bench.files.write(format!("/state/{}", draft_of(name)), "half of somethi");
    bench.files.write("/state/notes.txt", "mine");
    bench.files.write(&stray, "old");
    let logged = Logged::new();
    let mut bench = bench.restart().await;
    assert_eq!(bench.next_set().await, BOTH[..1]);
    assert_eq!(bench.kept().await, [name, "notes.txt"]);
    assert!(logged.warnings().iter().any(|line| line.contains("/state/notes.txt")));
}

// behaviour: SRC-32
#[tokio::test(start_paused = true)]
async fn version_that_cannot_be_stored_is_published_and_stored_later() {
    let mut bench = Bench::reading(one());
    bench.next_set().await;
    let path = bench.kept_one().await;
    let logged = Logged::new();
    bench.files.fail(path.as_str(), ErrorKind::StorageFull);
    bench.files.write(A, manifest("a", "x:2"));
    assert_eq!(bench.next_set().await, ["default/a-node x:2"]);
    bench.expect_no_set().await;
    let warnings = logged.warnings();
    assert_eq!(warnings.len(), 1, "{warnings:?}");
    assert!(warnings[0].contains(&path), "{warnings:?}");
    bench.files.repair(path.as_str());
    bench.expect_no_set().await;
    bench.files.write(A, "bad");
    bench.expect_no_set().await;
    let mut bench = bench.restart().await;
    assert_eq!(bench.next_set().await, ["default/a-node x:2"]);
    assert_eq!(bench.kept_one().await, path);
}
