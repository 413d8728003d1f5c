use proptest::prelude::*;
use testkit::clock::VirtualClock;
use testkit::files::MemoryFiles;

use super::*;

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(work)
}

proptest! {
    #[test]
    fn stored_content_is_loaded_until_it_is_removed(content in ".{0,60}", place in "[a-z/é]{1,12}") {
        block_on(async {
            let (files, clock) = (Arc::new(MemoryFiles::new()), Arc::new(VirtualClock::new()));
            let disk = LastGood::new(files, "/state".into(), Arc::clone(&clock) as _);
            for origin in [Origin::File(place.clone().into()), Origin::Url(place.clone())] {
                disk.keep(&origin, &content).await.unwrap();
                let kept = disk.load(&origin).await.unwrap();
                prop_assert_eq!(&kept.content, &content);
                prop_assert!(kept.written.is_some_and(|written| written <= clock.now()));
                disk.forget(&origin).await;
                prop_assert_eq!(disk.load(&origin).await, None);
            }
            Ok(())
        })?;
    }
}

#[test]
fn manifests_of_different_origins_have_different_files() {
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

#[tokio::test]
async fn copy_of_an_earlier_agent_has_no_time() {
    #[derive(Debug, Serialize, Deserialize)]
    struct Earlier {
        origin: String,
        content: String,
    }
    let (files, clock) = (Arc::new(MemoryFiles::new()), Arc::new(VirtualClock::new()));
    let disk = LastGood::new(Arc::clone(&files) as _, "/state".into(), clock);
    let origin = Origin::File("/a".into());
    let earlier = Earlier { origin: describe(&origin), content: "x".to_owned() };
    Checkpoint::new(files, disk.path(&origin), FORMAT).write(&earlier).await.unwrap();
    let expected = Copy { content: "x".to_owned(), written: None };
    assert_eq!(disk.load(&origin).await, Some(expected));
}
