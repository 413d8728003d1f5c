//! Checkpoints on files in memory.
#![allow(clippy::unwrap_used, reason = "tests may panic")]

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use model::checkpoint::{Checkpoint, Format, UnusableFile};
use proptest::prelude::*;
use testkit::files::MemoryFiles;

type Kept = (String, Vec<i64>);

const FORMAT: Format = Format { version: 3, limit: 1 << 20 };
const FILE: &str = "/state/kept.json";

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
}

fn kept(files: &Arc<MemoryFiles>, format: Format) -> Checkpoint<Kept> {
    Checkpoint::new(Arc::clone(files) as _, FILE.into(), format)
}

fn written(value: &Kept) -> Arc<MemoryFiles> {
    let files = Arc::new(MemoryFiles::new());
    block_on(kept(&files, FORMAT).write(value)).unwrap();
    files
}

proptest! {
    /// A value is read back, but not if any one byte is damaged.
    #[test]
    fn value_is_read_back_unless_damaged(
        value in (".{0,40}", prop::collection::vec(any::<i64>(), 0..4)),
        at in any::<proptest::sample::Index>(),
        byte in any::<u8>(),
    ) {
        let files = written(&value);
        let checkpoint = kept(&files, FORMAT);
        prop_assert_eq!(block_on(checkpoint.read()).unwrap(), Some(value.clone()));
        let good = files.content(FILE).unwrap();
        let at = at.index(good.len());
        let mut damaged = good.clone();
        damaged[at] = byte;
        files.write(FILE, damaged);
        let read = block_on(checkpoint.read());
        prop_assert!(read.is_err() || matches!(&read, Ok(Some(read)) if *read == value));
        files.write(FILE, good[..at].to_vec());
        prop_assert!(block_on(checkpoint.read()).is_err(), "cut off");
    }
}

#[test]
fn missing_or_removed_file_reads_as_none() {
    let files = Arc::new(MemoryFiles::new());
    let checkpoint = kept(&files, FORMAT);
    assert_eq!(block_on(checkpoint.read()).unwrap(), None);
    block_on(checkpoint.write(&("a".into(), vec![1]))).unwrap();
    assert_eq!(checkpoint.path(), Path::new(FILE));
    block_on(checkpoint.remove()).unwrap();
    block_on(checkpoint.remove()).unwrap();
    assert_eq!(block_on(checkpoint.read()).unwrap(), None);
}

#[test]
fn other_version_is_an_error() {
    let files = written(&("a".into(), vec![1]));
    let error = block_on(kept(&files, Format { version: 4, ..FORMAT }).read()).unwrap_err();
    assert_eq!(error.to_string(), "has version 3, not 4");
    let text = String::from_utf8(files.content(FILE).unwrap()).unwrap();
    files.write(FILE, text.replace("\"version\":3", "\"version\":4"));
    let error = block_on(kept(&files, Format { version: 4, ..FORMAT }).read()).unwrap_err();
    assert!(matches!(error, UnusableFile::Checksum), "{error}");
}

#[test]
fn file_that_is_too_large_or_unreadable_is_an_error() {
    let files = written(&("a".repeat(100), vec![]));
    let error = block_on(kept(&files, Format { limit: 50, ..FORMAT }).read()).unwrap_err();
    assert!(matches!(error, UnusableFile::Unreadable(_)), "{error}");
    files.fail(FILE, std::io::ErrorKind::PermissionDenied);
    let error = block_on(kept(&files, FORMAT).read()).unwrap_err();
    assert!(matches!(error, UnusableFile::Unreadable(_)), "{error}");
    let value = ("b".to_owned(), vec![]);
    block_on(kept(&files, FORMAT).write(&value)).unwrap_err();
}

// behaviour: RSZ-29
#[tokio::test(start_paused = true)]
async fn possibly_intact_file_is_never_overwritten() {
    let files = Arc::new(MemoryFiles::new());
    let checkpoint = kept(&files, FORMAT);
    let taken = checkpoint.take_over().await.unwrap();
    assert!(taken.value.is_none() && taken.aside.is_none());
    let value: Kept = ("a".into(), vec![1]);
    checkpoint.write(&value).await.unwrap();
    let good = files.content(FILE).unwrap();
    assert_eq!(checkpoint.take_over().await.unwrap().value, Some(value.clone()));
    // The read of an unreadable file is retried, and then fails; the file stays.
    files.fail(FILE, std::io::ErrorKind::Other);
    let error = checkpoint.take_over().await.unwrap_err();
    assert_eq!((error.operation, error.path.as_path()), ("read", Path::new(FILE)));
    let (taken, ()) = tokio::join!(checkpoint.take_over(), async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        files.repair(FILE);
    });
    assert_eq!(taken.unwrap().value, Some(value));
    // A damaged file, or one of another version, is moved aside.
    let newer = kept(&files, Format { version: 4, ..FORMAT });
    let rows = [(&newer, good.clone(), "version-3"), (&checkpoint, b"{}".to_vec(), "damaged")];
    for (checkpoint, content, word) in rows {
        files.write(FILE, content.clone());
        let taken = checkpoint.take_over().await.unwrap();
        let aside = taken.aside.unwrap();
        assert_eq!(aside.path, Path::new(&format!("{FILE}.{word}")));
        assert_eq!((taken.value, files.content(&aside.path)), (None, Some(content)));
        assert!(files.content(FILE).is_some(), "until it is written again");
    }
    // A file that cannot be moved aside stays.
    files.fail(format!("{FILE}.damaged"), std::io::ErrorKind::StorageFull);
    checkpoint.take_over().await.unwrap_err();
}
