use jiff::Timestamp;
use model::verdict::{Subject, Verdict};
use testkit::segments::MemorySegments;
use testkit::wanted::removal;

use super::*;
use crate::entry::EntryOutcome;

fn verdict(id: &str) -> Verdict {
    removal(Subject::Container(id.into()))
}

fn entry(id: &str) -> Entry {
    Entry::of_begun(&verdict(id), Timestamp::UNIX_EPOCH, "0.1.0")
}

fn left(in_progress: &InProgress) -> Vec<String> {
    in_progress.take_unfinished().unwrap().into_iter().map(|left| left.entry.id).collect()
}

fn bytes(segments: &MemorySegments) -> u64 {
    segments.others(PLACE).list().unwrap().iter().map(|file| file.size).sum()
}

impl InProgress {
    /// Begins a removal. Returns its number.
    fn begin(&self, entry: Entry) -> u64 {
        let number = self.next_number();
        self.begin_as(number, entry);
        number
    }
}

/// As `kill -9`: nothing is tidied up.
fn kill(in_progress: InProgress) {
    std::mem::forget(in_progress);
}

#[tokio::test(start_paused = true)]
async fn removal_in_progress_is_passed_to_each_process_until_it_ends() {
    let segments = MemorySegments::default();
    let first = InProgress::new(&segments);
    let numbers = ["a", "b", "c"].map(|id| first.begin(entry(id)));
    first.end(numbers[1]);
    first.end(numbers[1]);
    kill(first);
    let second = InProgress::new(&segments);
    let own = second.begin(entry("d"));
    assert_eq!(left(&second), ["a", "c"], "its own removals are not left ones");
    second.end(own);
    kill(second);
    let third = InProgress::new(&segments);
    let taken = third.take_unfinished().unwrap();
    assert_eq!(taken.len(), 2, "they are not settled");
    assert!(taken.iter().all(|left| left.entry.outcome == EntryOutcome::Unknown));
    for one in taken {
        third.end(one.number);
    }
    kill(third);
    assert_eq!(left(&InProgress::new(&segments)), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn file_is_removed_when_nothing_is_in_progress() {
    let segments = MemorySegments::default();
    let first = InProgress::new(&segments);
    let number = first.begin(entry("a"));
    assert!(bytes(&segments) > 0);
    first.end(number);
    drop(first);
    assert_eq!(segments.others(PLACE).list().unwrap(), []);
    let second = InProgress::new(&segments);
    second.begin(entry("a"));
    drop(second);
    assert_eq!(left(&InProgress::new(&segments)), ["a"], "a removal in progress stays on disk");
}

#[tokio::test(start_paused = true)]
async fn files_stay_small_and_keep_long_removals() {
    let segments = MemorySegments::default();
    let in_progress = InProgress::new(&segments);
    in_progress.begin(entry("slow"));
    for number in 0..20_000 {
        let begun = in_progress.begin(entry(&format!("c{number}")));
        in_progress.end(begun);
        assert!(bytes(&segments) <= LONG * 2, "{} at {number}", bytes(&segments));
    }
    kill(in_progress);
    assert_eq!(left(&InProgress::new(&segments)), ["slow"]);
}

#[tokio::test(start_paused = true)]
async fn earlier_lines_survive_a_kill_at_any_byte() {
    let segments = MemorySegments::default();
    let whole = InProgress::new(&segments);
    let first = whole.begin(entry("a"));
    let number = segments.others(PLACE).list().unwrap()[0].number;
    let kept = segments.others(PLACE).content(number).unwrap().len();
    whole.begin(entry("b"));
    whole.end(first);
    let content = segments.others(PLACE).content(number).unwrap();
    kill(whole);
    for end in kept..=content.len() {
        let segments = MemorySegments::default();
        segments.others(PLACE).put(number, &content[..end]);
        let found = left(&InProgress::new(&segments));
        assert!(found == ["a"] || found == ["a", "b"] || found == ["b"], "at {end}: {found:?}");
        // The next process can continue.
        let next = InProgress::new(&segments);
        next.begin(entry("c"));
        kill(next);
        assert_eq!(left(&InProgress::new(&segments)), [&found[..], &["c".to_owned()]].concat());
    }
}

#[tokio::test(start_paused = true)]
async fn full_disk_stops_no_removal_and_leaves_few_files() {
    let segments = MemorySegments::default();
    let in_progress = InProgress::new(&segments);
    segments.others(PLACE).set_room(Some(20));
    for number in 0..100 {
        let begun = in_progress.begin(entry(&format!("c{number}")));
        if number % 2 == 0 {
            in_progress.end(begun);
        }
    }
    assert!(segments.others(PLACE).list().unwrap().len() <= 1);
    segments.others(PLACE).set_room(None);
    in_progress.begin(entry("last"));
    kill(in_progress);
    let found = left(&InProgress::new(&segments));
    assert_eq!((found.len(), found.last().map(String::as_str)), (51, Some("last")));
}
