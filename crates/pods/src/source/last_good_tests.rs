use proptest::prelude::*;
use testkit::files::MemoryFiles;

use super::*;

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
}

proptest! {
    #[test]
    fn what_is_kept_comes_back_until_it_is_forgotten(content in ".{0,60}", place in "[a-z/é]{1,12}") {
        block_on(async {
            let disk = LastGood::new(Arc::new(MemoryFiles::new()), "/state".into());
            for origin in [Origin::File(place.clone().into()), Origin::Url(place.clone())] {
                disk.keep(&origin, &content).await.unwrap();
                prop_assert_eq!(disk.load(&origin).await, Some(content.clone()));
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
