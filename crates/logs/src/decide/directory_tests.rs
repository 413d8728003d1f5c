use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

const LOG: &str = "0.log";

fn has_extension(name: &str, extension: &str) -> bool {
    std::path::Path::new(name).extension().is_some_and(|found| found == extension)
}

fn at(second: i64) -> DateTime {
    jiff::civil::date(2026, 11, 18).at(12, 0, 0, 0).saturating_add(second.seconds())
}

fn plain(second: i64) -> String {
    RotatedName::plain(at(second)).file_name(LOG)
}

fn gzip(second: i64) -> String {
    RotatedName { time: at(second), compressed: true }.file_name(LOG)
}

fn read(names: &[String], compressing: Option<i64>) -> LogDirectory {
    let files = names.iter().map(|name| LogFile { name: name.clone(), size: 1 });
    let compressing = compressing.map(|second| RotatedName::plain(at(second)));
    LogDirectory::read(LOG, files.collect(), compressing)
}

fn deleted(names: &[String], compressing: Option<i64>, max_files: usize) -> Vec<String> {
    let surplus = read(names, compressing).surplus(LOG, max_files);
    surplus.into_iter().map(|one| one.file).collect()
}

/// Name, files, the second of the file that is being compressed, limit, and the files that are deleted.
type Row<'a> = (&'a str, &'a [String], Option<i64>, usize, &'a [String]);

// behaviour: ROT-7, ROT-8
#[test]
fn surplus_is_leftovers_and_the_oldest_files() {
    let all = [LOG.to_owned(), gzip(1), gzip(2), gzip(3), plain(4)];
    let tmp = |name: String| name + ".tmp";
    let rows: [Row<'_>; 8] = [
        ("as many as allowed", &all, None, 5, &[]),
        ("one too many", &all, None, 4, &[gzip(1)]),
        ("only the newest stays", &all, None, 2, &[gzip(1), gzip(2), gzip(3)]),
        ("never the newest", &all, None, 0, &[gzip(1), gzip(2), gzip(3)]),
        ("draft", &[tmp(plain(1)), plain(1), plain(2)], None, 5, &[tmp(plain(1))]),
        ("draft in work", &[tmp(plain(1)), plain(1), plain(2)], Some(1), 5, &[]),
        ("compressed and plain", &[plain(1), gzip(1), plain(2)], None, 5, &[plain(1)]),
        ("compressed this moment", &[plain(1), gzip(1), plain(2)], Some(1), 5, &[]),
    ];
    for (name, files, compressing, max_files, expected) in rows {
        assert_eq!(deleted(files, compressing, max_files), expected, "{name}");
    }
}

#[test]
fn files_of_other_logs_stay_and_count() {
    let names = ["1.log".to_owned(), "0.log.notes".to_owned(), plain(1), LOG.to_owned()];
    let directory = read(&names, None);
    assert_eq!(directory.surplus(LOG, 2), []);
    let bytes = (directory.live, directory.rotated_bytes(), directory.other_bytes());
    assert_eq!(bytes, (Some(1), 1, 2));
}

// behaviour: ROT-6
#[test]
fn all_but_the_newest_rotated_file_are_compressed_the_newest_of_them_first() {
    let rows: [(&[String], Option<i64>); 5] = [
        (&[], None),
        (&[plain(1)], None),
        (&[plain(1), plain(2)], Some(1)),
        (&[plain(1), plain(2), plain(3)], Some(2)),
        (&[plain(1), gzip(2), plain(3)], Some(1)),
    ];
    for (files, expected) in rows {
        let expected = expected.map(|second| RotatedName::plain(at(second)));
        assert_eq!(read(files, None).compressible(), expected, "{files:?}");
    }
}

// behaviour: ROT-9
#[test]
fn names_ascend_for_any_clock() {
    let rows: [(&[String], i64, i64); 4] =
        [(&[], 5, 5), (&[plain(1)], 5, 5), (&[gzip(5)], 5, 6), (&[plain(9)], 5, 10)];
    for (files, now, expected) in rows {
        let name = read(files, None).next_name(at(now).saturating_add(7.nanoseconds()));
        assert_eq!(name, RotatedName::plain(at(expected)), "{files:?}");
    }
}

/// Files by name, each with its line numbers.
type Disk = BTreeMap<String, Vec<u32>>;

/// The agent's work on a log, as steps on a disk. It can be killed before each of them.
struct Agent<'a> {
    disk: &'a mut Disk,
    max_files: usize,
    steps: usize,
}

impl Agent<'_> {
    fn directory(&self) -> LogDirectory {
        let files = self.disk.iter();
        let files =
            files.map(|(name, lines)| LogFile { name: name.clone(), size: lines.len() as u64 });
        LogDirectory::read(LOG, files.collect(), None)
    }

    /// A step, unless the agent is killed before it.
    fn step(&mut self, step: impl FnOnce(&mut Disk)) -> Option<()> {
        self.steps = self.steps.checked_sub(1)?;
        step(self.disk);
        Some(())
    }

    fn tidy(&mut self) -> Option<()> {
        for deletion in self.directory().surplus(LOG, self.max_files) {
            self.step(|disk| drop(disk.remove(&deletion.file)))?;
        }
        Some(())
    }

    fn compress(&mut self) -> Option<()> {
        while let Some(name) = self.directory().compressible() {
            let from = name.file_name(LOG);
            let (draft, to) = (format!("{from}.tmp"), format!("{from}.gz"));
            let lines = self.disk[&from].clone();
            self.step(|disk| drop(disk.insert(draft.clone(), Vec::new())))?;
            self.step(|disk| drop(disk.insert(draft.clone(), lines)))?;
            self.step(|disk| {
                let whole = disk.remove(&draft).unwrap();
                assert!(disk.insert(to, whole).is_none(), "a rename replaced a file");
            })?;
            self.step(|disk| drop(disk.remove(&from)))?;
        }
        Some(())
    }

    fn rotate(&mut self, now: DateTime) -> Option<()> {
        self.tidy()?;
        if self.disk.contains_key(LOG) {
            let name = self.directory().next_name(now).file_name(LOG);
            self.step(|disk| {
                let live = disk.remove(LOG).unwrap();
                assert!(disk.insert(name, live).is_none(), "a rename replaced a file");
            })?;
        }
        // The runtime opens a new file.
        self.step(|disk| drop(disk.insert(LOG.to_owned(), Vec::new())))?;
        self.tidy()?;
        self.compress()
    }
}

/// The remaining lines, in reading order.
fn kept(disk: &Disk) -> Vec<u32> {
    let files = disk.keys().map(|name| LogFile { name: name.clone(), size: 0 }).collect();
    let directory = LogDirectory::read(LOG, files, None);
    let rotated = directory.rotated.iter().map(|file| file.name.file_name(LOG));
    rotated.chain([LOG.to_owned()]).filter_map(|name| disk.get(&name)).flatten().copied().collect()
}

/// The file that the runtime has open.
fn written_to(disk: &Disk) -> String {
    let names = disk.keys().map(|name| LogFile { name: name.clone(), size: 0 }).collect();
    match LogDirectory::read(LOG, names, None).rotated.last() {
        Some(newest) if !disk.contains_key(LOG) => newest.name.file_name(LOG),
        _ => LOG.to_owned(),
    }
}

proptest! {
    // behaviour: ROT-8
    #[test]
    fn lines_stay_contiguous_when_the_agent_is_killed_at_any_step(
        max_files in 2_usize..6,
        rounds in prop::collection::vec((0_usize..20, 0_i64..4), 1..30),
    ) {
        let (mut disk, mut written, mut second) = (Disk::new(), 0, 0);
        for (steps, passed) in rounds {
            // A runtime that did not reopen its log writes to the same file.
            let open = written_to(&disk);
            disk.entry(open).or_default().extend([written, written + 1]);
            written += 2;
            second += passed;
            let mut agent = Agent { disk: &mut disk, max_files, steps };
            let was_killed = agent.rotate(at(second)).is_none();
            let lines = kept(&disk);
            // The last lines remain, without gaps or duplicates.
            let first = lines.first().copied().unwrap_or(written);
            prop_assert_eq!(lines, (first..written).collect::<Vec<_>>());
            let rotated = disk.len() - usize::from(disk.contains_key(LOG));
            if !was_killed {
                prop_assert!(rotated < max_files, "{:?}", disk.keys());
                prop_assert!(disk.keys().all(|name| !has_extension(name, "tmp")));
                // A repetition changes nothing.
                let mut again = Agent { disk: &mut disk, max_files, steps: 0 };
                prop_assert!(again.tidy().is_some() && again.compress().is_some());
            }
        }
    }

    #[test]
    fn newest_file_and_unrelated_files_are_never_deleted(
        seconds in prop::collection::btree_set(0_i64..50, 1..20),
        max_files in 0_usize..8,
    ) {
        let mut names: Vec<String> =
            seconds.iter().map(|&s| if s % 2 == 0 { plain(s) } else { gzip(s) }).collect();
        let newest = names.last().cloned().unwrap();
        names.extend([LOG.to_owned(), "1.log".to_owned()]);
        let deleted = deleted(&names, None, max_files);
        for kept in [&newest, "1.log", LOG] {
            prop_assert!(!deleted.iter().any(|name| name == kept));
        }
        // The oldest are deleted.
        prop_assert_eq!(&deleted[..], &names[..deleted.len()]);
    }
}
