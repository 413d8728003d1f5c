use proptest::prelude::*;
use testkit::files::MemoryFiles;

use super::*;

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
}

proptest! {
    /// What is kept comes back; what was damaged in any one byte does not, and nothing else does.
    #[test]
    fn what_is_kept_comes_back_unless_it_is_damaged(
        content in ".{0,60}",
        place in "[a-z/é]{1,12}",
        at in any::<proptest::sample::Index>(),
        byte in any::<u8>(),
    ) {
        block_on(async {
            let files = Arc::new(MemoryFiles::new());
            let disk = LastGood::new(Arc::clone(&files) as _, "/state".into());
            for origin in [Origin::File(place.clone().into()), Origin::Url(place.clone())] {
                disk.keep(&origin, &content).await.unwrap();
                prop_assert_eq!(disk.load(&origin).await, Some(content.clone()));
                let path = disk.path(&origin);
                let mut bytes = files.content(&path).unwrap();
                let at = at.index(bytes.len());
                bytes[at] = byte;
                files.write(&path, bytes);
                let loaded = disk.load(&origin).await;
                prop_assert!(loaded.is_none() || loaded.as_ref() == Some(&content), "{loaded:?}");
                disk.forget(&origin).await;
                prop_assert_eq!(disk.load(&origin).await, None);
            }
            Ok(())
        })?;
    }
}

#[test]
fn manifests_of_different_places_do_not_meet() {
    let names: BTreeSet<String> = [
        Origin::File("/a".into()),
        Origin::File("/b".into()),
        Origin::Url("/a".into()),
        Origin::File("url:/a".into()),
    ]
    .iter()
    .map(file_name)
    .collect();
    assert_eq!(names.len(), 4);
    assert!(names.iter().all(|name| is_file_name(name)));
    for name in ["notes.json", "0.json", &format!("{}.json", "G".repeat(64)), &"0".repeat(69)] {
        assert!(!is_file_name(name), "{name}");
    }
}
