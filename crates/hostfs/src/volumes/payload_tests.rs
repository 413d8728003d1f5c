use std::fs;
use std::os::unix::fs::symlink;

use tempfile::TempDir;

use super::*;
use crate::test_mount::Mount;

fn payload(files: &[(&str, &str)]) -> Payload {
    let file = |content: &str| PayloadFile {
        content: content.as_bytes().into(),
        mode: 0o644,
        owner: None,
    };
    let files = files.iter().map(|(path, content)| ((*path).to_owned(), file(content)));
    Payload { files: files.collect() }
}

fn volume(root: &TempDir) -> Place {
    let place = Place { root: root.path().to_owned(), below: "data".into() };
    fs::create_dir(place.path()).unwrap();
    place
}

/// Asserts that a volume has these files and no leftovers.
fn assert_is(place: &Place, files: &[(&str, &str)], case: &str) {
    for (path, content) in files {
        let found = fs::read_to_string(place.path().join(path)).unwrap();
        assert_eq!(found, *content, "{case}: {path}");
    }
    let names: BTreeSet<_> =
        fs::read_dir(place.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    let current = fs::read_link(place.path().join(DATA)).unwrap().into_os_string();
    let tops = files.iter().map(|(path, _)| Path::new(path).iter().next().unwrap().to_owned());
    let expected: BTreeSet<_> = tops.chain([DATA.into(), current]).collect();
    assert_eq!(names, expected, "{case}");
}

const OLD: [(&str, &str); 3] = [("a", "old"), ("b", "old"), ("dir/c", "old")];
const NEW: [(&str, &str); 5] =
    [("a", "new"), ("dir/d", "new"), ("e", "new"), ("f", "new"), ("g", "new")];

// behaviour: VOL-53
#[test]
fn full_volume_keeps_its_old_content_whichever_step_fails() {
    let root = tempfile::tempdir().unwrap();
    let place = volume(&root);
    let (mut failed, mut written) = (0, 0);
    // The old content takes 11 inodes with the root, the new one 19, in addition to some of the
    // old.
    for inodes in 11..26 {
        let Some(_mount) = Mount::tmpfs(&place.path(), &format!("1m,nr_inodes={inodes}")) else {
            return;
        };
        write(&place, &payload(&OLD), None).unwrap();
        let case = format!("{inodes} inodes");
        match write(&place, &payload(&NEW), None) {
            Ok(Written::New) => {
                written += 1;
                assert_is(&place, &NEW, &case);
            }
            Ok(Written::Same) => panic!("{case}: the old content was taken for the new"),
            Err(error) => {
                failed += 1;
                assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{case}");
                assert_is(&place, &OLD, &case);
                assert_eq!(write(&place, &payload(&OLD), None).unwrap(), Written::Same, "{case}");
            }
        }
    }
    assert!(failed > 8 && written > 2, "{failed} failed, {written} were written");
    let Some(_mount) = Mount::tmpfs(&place.path(), "64k") else { return };
    write(&place, &payload(&OLD), None).unwrap();
    let large = "x".repeat(1 << 20);
    let error = write(&place, &payload(&[("a", "small"), ("large", &large)]), None).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert!(error.to_string().starts_with("large: "), "{error}");
    assert_is(&place, &OLD, "no room");
}

/// Stops the write of new content after this step.
fn stopped_after(place: &Place, step: usize) {
    let at = |name: &str| place.path().join(name);
    let old = fs::read_link(at(DATA)).unwrap();
    let new = "..2026_01_02_03_04_05.6";
    let steps: [&dyn Fn(); 12] = [
        &|| fs::create_dir(at(new)).unwrap(),
        &|| fs::write(at(new).join("a"), "n").unwrap(),
        &|| fs::write(at(new).join("a"), "new").unwrap(),
        &|| fs::create_dir(at(new).join("dir")).unwrap(),
        &|| {
            for (path, content) in NEW {
                fs::write(at(new).join(path), content).unwrap();
            }
        },
        &|| symlink(new, at(NEW_DATA)).unwrap(),
        &|| symlink(&old, at(OLD_DATA)).unwrap(),
        &|| fs::rename(at(NEW_DATA), at(DATA)).unwrap(),
        &|| symlink("..data/e", at("e")).unwrap(),
        &|| {
            symlink("..data/f", at("f")).unwrap();
            symlink("..data/g", at("g")).unwrap();
        },
        &|| fs::remove_file(at("b")).unwrap(),
        &|| fs::remove_file(at(&old.to_string_lossy()).join("a")).unwrap(),
    ];
    steps[..step].iter().for_each(|step| step());
}

// behaviour: VOL-54
#[test]
fn write_after_a_crash_at_any_step_leaves_exactly_its_content() {
    for step in 0..=12 {
        for wanted in [&OLD[..], &NEW[..], &[("a", "third")]] {
            let root = tempfile::tempdir().unwrap();
            let place = volume(&root);
            write(&place, &payload(&OLD), None).unwrap();
            stopped_after(&place, step);
            let case = format!("step {step}, then {wanted:?}");
            let written = write(&place, &payload(wanted), None).unwrap();
            assert_is(&place, wanted, &case);
            // The swap is step 8: before it the old content is current, after it the new one.
            let current = if step < 8 { &OLD[..] } else { &NEW[..] };
            assert_eq!(written == Written::Same, wanted == current, "{case}");
        }
    }
}

// behaviour: VOL-55
#[test]
fn readers_always_see_a_complete_payload() {
    use std::sync::atomic::{AtomicBool, Ordering};
    let root = tempfile::tempdir().unwrap();
    let place = volume(&root);
    let both = |content: &str| payload(&[("a", content), ("b", content)]);
    write(&place, &both("0"), None).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                // As a reader that needs both files of one version.
                let current = place.path().join(fs::read_link(place.path().join(DATA)).unwrap());
                let read = |name: &str| fs::read_to_string(current.join(name));
                if let (Ok(a), Ok(b)) = (read("a"), read("b")) {
                    assert_eq!(a, b);
                }
            }
        });
        for number in 1..200 {
            assert_eq!(write(&place, &both(&number.to_string()), None).unwrap(), Written::New);
        }
        stop.store(true, Ordering::Relaxed);
    });
}

#[test]
fn names_of_content_directories_have_a_time_and_a_number() {
    let rows = [
        ("..2026_01_31_23_59_59.123", true),
        ("..data", false),
        ("..2026_01_31_23_59_59", false),
        ("..2026_01_31_23_59.123", false),
        ("2026_01_31_23_59_59.123", false),
        ("..2026_01_31_23_59_59.12x", false),
        ("..2026_01_31_23_59_59.", false),
    ];
    for (name, expected) in rows {
        assert_eq!(is_timestamp(OsStr::new(name)), expected, "{name}");
    }
}
