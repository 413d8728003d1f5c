use model::ids::PodName;
use model::ports::journal::Journal as _;
use model::verdict::{Detail, Input, Owner, Subject};
use proptest::prelude::*;
use testkit::clock::VirtualClock;
use testkit::segments::MemorySegments;
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

use super::*;
use crate::find::find;
use crate::journal_thread::DiskJournal;
use crate::query::Match;

fn journal(segments: &MemorySegments, max_bytes: u64) -> DiskJournal {
    let clock = Arc::new(VirtualClock::new());
    DiskJournal::new(Arc::new(segments.clone()), clock, "0.1.0", max_bytes)
}

fn verdict(id: &str, name: &str, pod: &str) -> Verdict {
    Verdict {
        subject: Subject::Container(id.into()),
        name: name.into(),
        owner: Some(Owner {
            uid: format!("uid-of-{pod}").into(),
            pod: Some(PodName::new("default", pod)),
        }),
        rule: "per-container-cap",
        detail: Detail::default().with("cap", Input::Number(1)),
        at: Timestamp::UNIX_EPOCH,
    }
}

fn ids(found: &SearchResult) -> Vec<&str> {
    found.entries.iter().map(|entry| entry.id.as_str()).collect()
}

fn everything(journal: &DiskJournal) -> SearchResult {
    journal.find(&Query::new("web"), 10_000).unwrap()
}

/// The size of all segments in bytes.
fn bytes(segments: &MemorySegments) -> u64 {
    segments.list().unwrap().iter().map(|existing| existing.size).sum()
}

#[tokio::test(start_paused = true)]
async fn entries_are_found_newest_first_by_the_next_process() {
    let segments = MemorySegments::default();
    let first = journal(&segments, SMALLEST);
    first.record(&verdict("c1", "main", "web"), Outcome::Removed);
    first.record(&verdict("c2", "main", "web"), Outcome::Failed("busy"));
    drop(first);
    let second = journal(&segments, SMALLEST);
    second.record(&verdict("c3", "other", "web"), Outcome::AlreadyGone);
    assert_eq!(ids(&everything(&second)), ["c3", "c2", "c1"]);
    assert_eq!(segments.list().unwrap().len(), 1, "it continues the same segment");
    let found = second.find(&Query::new("main"), 1).unwrap();
    assert_eq!((ids(&found), found.more, found.damaged), (vec!["c2"], true, 0));
    assert_eq!(found.entries[0].error.as_deref(), Some("busy"));
    assert_eq!(ids(&second.find(&Query::new("c"), 10).unwrap()), ["c3", "c2", "c1"]);
    let since = everything(&second).entries.last().map(|entry| entry.time);
    let nothing = SearchResult { since, ..SearchResult::default() };
    assert_eq!(second.find(&Query::new("unknown"), 10).unwrap(), nothing);
}

// behaviour: GC-107
#[tokio::test(start_paused = true)]
async fn search_reports_the_time_of_the_oldest_entry() {
    let segments = MemorySegments::default();
    let journal = journal(&segments, SMALLEST);
    let since = || journal.find(&Query::new("unknown"), 10).unwrap().since;
    assert_eq!(since(), None, "it has no entries");
    journal.record(&verdict("c0", "main", "web"), Outcome::Removed);
    let first = everything(&journal).entries[0].time;
    tokio::time::advance(Duration::from_hours(1)).await;
    journal.record(&verdict("c1", "main", "web"), Outcome::Removed);
    assert_eq!(since(), Some(first));
    let mut number = 2;
    while segments.list().unwrap()[0].number == 1 {
        journal.record(&verdict(&format!("c{number}"), "main", "web"), Outcome::Removed);
        number += 1;
    }
    assert_eq!(since(), Some(first + Duration::from_hours(1)), "the first segment is gone");
}

#[tokio::test(start_paused = true)]
async fn search_for_a_pod_finds_its_directory_by_uid() {
    let segments = MemorySegments::default();
    let journal = journal(&segments, SMALLEST);
    let directory = |uid: &str| Verdict {
        subject: Subject::PodDirectory(format!("/pods/{uid}").into()),
        name: "".into(),
        owner: Some(Owner { uid: uid.into(), pod: None }),
        ..verdict("", "", "")
    };
    journal.record(&verdict("c1", "main", "web"), Outcome::Removed);
    journal.record(&verdict("c2", "main", "other"), Outcome::Removed);
    for uid in ["uid-of-web", "uid-of-other"] {
        journal.record(&directory(uid), Outcome::Removed);
    }
    let requested = |what| ids(&journal.find(&Query::new(what), 10).unwrap()).join(" ");
    assert_eq!(requested("web"), "/pods/uid-of-web c1");
    assert_eq!(requested("default/web"), "/pods/uid-of-web c1");
    journal.record(&verdict("c3", "main", "set-1"), Outcome::Removed);
    journal.record(&directory("uid-of-set-1"), Outcome::Removed);
    assert_eq!(requested("set"), "/pods/uid-of-set-1 c3");
    assert_eq!(requested("c1"), "c1", "a search by ID finds that object alone");
}

#[tokio::test(start_paused = true)]
async fn logs_of_a_container_do_not_count_towards_the_limit() {
    let segments = MemorySegments::default();
    let journal = journal(&segments, SMALLEST);
    for id in ["c1", "c2", "c3", "c4"] {
        for subject in [
            Subject::ContainerLog(format!("/logs/{id}.log").into()),
            Subject::LogLink(format!("/links/{id}.log").into()),
            Subject::Container(id.into()),
        ] {
            journal.record(&Verdict { subject, ..verdict(id, "main", "web") }, Outcome::Removed);
        }
    }
    let found = journal.find(&Query::new("web"), 2).unwrap();
    let expected = ["c4", "/links/c4.log", "/logs/c4.log", "c3", "/links/c3.log", "/logs/c3.log"];
    assert_eq!((ids(&found), found.more), (expected.to_vec(), true));
    let all = journal.find(&Query::new("web"), 4).unwrap();
    assert_eq!((all.entries.len(), all.more), (12, false));
}

// behaviour: GC-104
#[tokio::test(start_paused = true)]
async fn logs_are_found_with_their_container_in_any_segment() {
    const A: &str = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    const B: &str = "bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb";
    const C: &str = "cccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccccc";
    let [log, link] =
        [|id: &str| format!("/logs/{id}.log"), |id: &str| format!("/links/w-{id}.log")];
    let removed_with = |id: &str| [id.to_owned(), link(id), log(id)];
    let segments = MemorySegments::default();
    let mut number = 0;
    let mut put = |id: &str, subjects: &[Subject]| {
        let created = Input::Text(format!("when {id} was"));
        let of = verdict(id, "main", "web");
        let detail = of.detail.clone().with("created", created);
        for subject in subjects {
            let verdict =
                Verdict { subject: subject.clone(), detail: detail.clone(), ..of.clone() };
            let entry = Entry::new(&verdict, Outcome::Removed, Timestamp::UNIX_EPOCH, "0.1.0");
            // Two per segment, so that some are in another one than their container.
            let mut content = segments.content(number / 2).unwrap_or_default();
            content.extend_from_slice(&decode::line(&entry));
            segments.put(number / 2, content);
            number += 1;
        }
    };
    for id in [A, B, C] {
        put(id, &[Subject::ContainerLog(log(id).into())]);
    }
    for id in [B, A, C] {
        put(id, &[Subject::LogLink(link(id).into())]);
    }
    for id in [C, A, B] {
        put(id, &[Subject::Container(id.into())]);
    }
    let requested = |what: &str, limit| {
        let found = find(&segments, &Query::new(what), limit).unwrap();
        let mut ids: Vec<String> = ids(&found).into_iter().map(str::to_owned).collect();
        ids.sort();
        (ids, found.more)
    };
    let sorted = |containers: &[&str]| {
        let mut all: Vec<String> = containers.iter().flat_map(|id| removed_with(id)).collect();
        all.sort();
        all
    };
    let rows: [(&str, usize, &[&str], bool); 5] = [
        ("web", 1, &[B], true),
        ("web", 2, &[B, A], true),
        ("web", 3, &[B, A, C], false),
        ("aaaa", 1, &[A], false),
        (C, 20, &[C], false),
    ];
    for (what, limit, expected, more) in rows {
        assert_eq!(requested(what, limit), (sorted(expected), more), "{what} {limit}");
    }
    assert_eq!(requested(&log(A), 1), (vec![log(A)], false), "a search for a log finds it alone");
}

#[tokio::test(start_paused = true)]
async fn entry_cut_off_at_any_byte_is_the_only_one_lost() {
    let segments = MemorySegments::default();
    let whole = journal(&segments, SMALLEST);
    whole.record(&verdict("c1", "main", "web"), Outcome::Removed);
    let kept = segments.content(1).unwrap().len();
    whole.record(&verdict("c2", "main", "web"), Outcome::Removed);
    let content = segments.content(1).unwrap();
    for end in kept..=content.len() {
        let segments = MemorySegments::default();
        segments.put(1, &content[..end]);
        let torn = journal(&segments, SMALLEST);
        // An entry that only lacks the end of its line counts.
        let is_whole = end + 1 >= content.len();
        let before: &[&str] = if is_whole { &["c2", "c1"] } else { &["c1"] };
        assert_eq!(ids(&everything(&torn)), before, "at {end}");
        torn.record(&verdict("c3", "main", "web"), Outcome::Removed);
        let found = everything(&torn);
        assert_eq!(ids(&found), [&["c3"], before].concat(), "at {end}");
        assert_eq!(found.damaged, u64::from(!is_whole && end > kept), "at {end}");
    }
}

#[tokio::test(start_paused = true)]
async fn flipped_byte_damages_only_its_entry() {
    let segments = MemorySegments::default();
    let whole = journal(&segments, SMALLEST);
    for id in ["c1", "c2", "c3"] {
        whole.record(&verdict(id, "main", "web"), Outcome::Removed);
    }
    let content = segments.content(1).unwrap();
    let length = content.len() / 3;
    for position in length..2 * length {
        let mut damaged = content.clone();
        damaged[position] ^= 0x04;
        segments.put(1, damaged);
        let found = everything(&whole);
        // A damaged end of a line damages the next line too.
        let expected: &[&str] = if position == 2 * length - 1 { &["c1"] } else { &["c3", "c1"] };
        assert_eq!(ids(&found), expected, "at {position}");
        assert_eq!(found.damaged, 1, "at {position}");
    }
}

#[tokio::test(start_paused = true)]
async fn damaged_or_unreadable_segment_is_skipped() {
    let segments = MemorySegments::default();
    segments.put(3, vec![0; 200_000]);
    segments.put(4, "not ours\n".repeat(10));
    let kept = journal(&segments, SMALLEST);
    kept.record(&verdict("c1", "main", "web"), Outcome::Removed);
    let found = everything(&kept);
    assert_eq!((ids(&found), found.damaged), (vec!["c1"], 11));
    segments.break_segment(4);
    let next = journal(&segments, SMALLEST);
    next.record(&verdict("c2", "main", "web"), Outcome::Removed);
    let found = everything(&next);
    assert_eq!((ids(&found), found.problems.len()), (vec!["c2"], 1));
}

// behaviour: GC-103
#[tokio::test(start_paused = true)]
async fn entries_wait_on_a_full_disk_and_are_found_meanwhile() {
    let segments = MemorySegments::default();
    segments.cannot_reserve();
    let kept = Arc::new(journal(&segments, SMALLEST));
    let stop = CancellationToken::new();
    let task = Arc::clone(&kept).keep_synced(stop.clone());
    let play = async {
        kept.record(&verdict("c1", "main", "web"), Outcome::Removed);
        segments.set_room(Some(20));
        kept.record(&verdict("c2", "main", "web"), Outcome::Removed);
        kept.record(&verdict("c3", "main", "web"), Outcome::Removed);
        assert_eq!(ids(&everything(&kept)), ["c3", "c2", "c1"]);
        assert_eq!(ids(&everything(&journal(&segments, SMALLEST))), ["c1"]);
        sleep(Duration::from_mins(1)).await;
        segments.set_room(None);
        sleep(Duration::from_secs(10)).await;
        let on_disk = everything(&journal(&segments, SMALLEST));
        assert_eq!((ids(&on_disk), on_disk.damaged), (vec!["c3", "c2", "c1"], 1));
        kept.record(&verdict("c4", "main", "web"), Outcome::Removed);
        assert_eq!(ids(&everything(&kept)), ["c4", "c3", "c2", "c1"]);
        stop.cancel();
    };
    tokio::join!(task, play);
}

// behaviour: GC-103
#[tokio::test(start_paused = true)]
async fn oldest_waiting_entries_are_lost_but_written_entries_are_kept() {
    let segments = MemorySegments::default();
    segments.cannot_reserve();
    for number in 1..=7 {
        segments.put(number, vec![b'x'; 131_072]);
    }
    let kept = journal(&segments, SMALLEST);
    kept.record(&verdict("c0", "main", "web"), Outcome::Removed);
    let existing = segments.list().unwrap().len();
    segments.set_room(Some(0));
    for number in 1..=2000 {
        kept.record(&verdict(&format!("c{number}"), "main", "web"), Outcome::Removed);
    }
    assert_eq!(segments.list().unwrap().len(), existing, "written segments stay");
    segments.set_room(None);
    kept.record(&verdict("c2001", "main", "web"), Outcome::Removed);
    let found = everything(&kept);
    let newest = (1..=2001).rev().take(MOST_WAITING + 1).map(|number| format!("c{number}"));
    let expected: Vec<String> = newest.chain(["c0".to_owned()]).collect();
    assert_eq!(ids(&found), expected);
}

// behaviour: GC-103
#[tokio::test(start_paused = true)]
async fn removal_on_a_full_disk_is_recorded_even_if_the_agent_is_killed() {
    let few = 60;
    // Also close to the end of a segment.
    for before in (1..1200).step_by(53) {
        let segments = MemorySegments::default();
        let kept = journal(&segments, SMALLEST);
        for number in 0..before {
            kept.record(&verdict(&format!("c{number}"), "main", "web"), Outcome::Removed);
        }
        segments.set_room(Some(0));
        for number in before..before + few {
            kept.record(&verdict(&format!("c{number}"), "main", "web"), Outcome::Removed);
        }
        // As after a kill: nothing is written at the end.
        drop(kept);
        let next = journal(&segments, SMALLEST);
        let found = everything(&next);
        let expected: Vec<String> = (0..before + few).rev().map(|it| format!("c{it}")).collect();
        assert_eq!(
            (ids(&found), found.damaged),
            (expected.iter().map(String::as_str).collect(), 0)
        );
        assert!(bytes(&segments) <= SMALLEST);
        segments.set_room(None);
        next.record(&verdict("after", "main", "web"), Outcome::Removed);
        assert_eq!(ids(&everything(&journal(&segments, SMALLEST)))[0], "after");
    }
}

// behaviour: GC-101
#[tokio::test(start_paused = true)]
async fn repeated_failure_is_recorded_once() {
    let segments = MemorySegments::default();
    let kept = journal(&segments, SMALLEST);
    kept.record(&verdict("old", "main", "web"), Outcome::Removed);
    for _ in 0..60 {
        for number in 0..1000 {
            let verdict = verdict(&format!("c{number}"), "main", "web");
            kept.record(&verdict, Outcome::Failed("the runtime is gone"));
        }
    }
    let found = everything(&kept);
    assert_eq!(found.entries.len(), 1001, "and no other entry was displaced");
    kept.record(&verdict("c7", "main", "web"), Outcome::Removed);
    let of_one = kept.find(&Query::new("c7"), 10).unwrap();
    let outcomes: Vec<EntryOutcome> = of_one.entries.iter().map(|entry| entry.outcome).collect();
    assert_eq!(outcomes, [EntryOutcome::Removed, EntryOutcome::Failed]);
}

#[tokio::test(start_paused = true)]
async fn bound_always_holds_and_newest_entries_stay() {
    let segments = MemorySegments::default();
    // Left by an agent with a larger bound.
    for number in 1..=5 {
        segments.put(number, vec![b'x'; 400_000]);
    }
    let long = "n".repeat(5000);
    let mut kept = journal(&segments, SMALLEST);
    for number in 0..4000_u32 {
        let name = if number % 7 == 0 { long.as_str() } else { "main" };
        kept.record(&verdict(&format!("c{number}"), name, "web"), Outcome::Removed);
        assert!(bytes(&segments) <= SMALLEST, "{} at {number}", bytes(&segments));
        if number % 500 == 0 {
            kept = journal(&segments, SMALLEST);
        }
    }
    let found = everything(&kept);
    let expected: Vec<String> =
        (0..4000_u32).rev().take(found.entries.len()).map(|number| format!("c{number}")).collect();
    assert_eq!(ids(&found), expected);
    assert!(bytes(&segments) > SMALLEST / 4 * 3, "no more is removed than necessary");
}

#[tokio::test(start_paused = true)]
async fn oversized_entry_loses_its_inputs() {
    let segments = MemorySegments::default();
    let kept = journal(&segments, SMALLEST);
    let mut huge = verdict("c1", "main", "web");
    for _ in 0..100 {
        huge.detail = huge.detail.with("text", Input::Text("\u{1}".repeat(5000)));
    }
    kept.record(&huge, Outcome::Failed(&"\u{1}".repeat(100_000)));
    let found = everything(&kept);
    assert_eq!(found.entries[0].detail.to_string(), "tooLong true");
    assert!(segments.content(1).unwrap().len() <= decode::LONGEST_LINE);
}

#[tokio::test(start_paused = true)]
async fn entries_are_synced_after_a_while_and_at_the_end() {
    let segments = MemorySegments::default();
    let kept = Arc::new(journal(&segments, SMALLEST));
    let stop = CancellationToken::new();
    let task = Arc::clone(&kept).keep_synced(stop.clone());
    let play = async {
        sleep(Duration::from_mins(1)).await;
        assert_eq!(segments.syncs(), 0, "nothing to sync");
        for id in ["c1", "c2", "c3"] {
            kept.record(&verdict(id, "main", "web"), Outcome::Removed);
        }
        sleep(Duration::from_mins(1)).await;
        assert_eq!(segments.syncs(), 1);
        kept.record(&verdict("c4", "main", "web"), Outcome::Removed);
        stop.cancel();
    };
    tokio::join!(task, play);
    assert_eq!(segments.syncs(), 2);
}

/// Only a few different words, so that queries often match.
fn word() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "ab", "abc", "b", "ba", "web", "web-1", "default"])
        .prop_map(str::to_owned)
}

proptest! {
    #[test]
    fn search_result_equals_that_of_a_full_scan(
        removals in prop::collection::vec((word(), word(), word()), 0..40),
        what in word(),
        limit in 1_usize..12,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let _inside = runtime.enter();
        let segments = MemorySegments::default();
        let clock = Arc::new(VirtualClock::new());
        let mut kept = Vec::new();
        for (position, (id, name, pod)) in removals.iter().enumerate() {
            let line = decode::line(&Entry::new(
                &verdict(id, name, pod), Outcome::Removed, clock.now(), "0.1.0",
            ));
            // Spread over segments, some of them empty.
            let number = (position / 5 * 2) as u64;
            let mut content = segments.content(number).unwrap_or_default();
            content.extend_from_slice(&line);
            segments.put(number, content);
            kept.push(decode::value::<Entry>(line.strip_suffix(b"\n").unwrap()).unwrap());
        }
        let query = Query::new(&what);
        let by = |how| -> Vec<Entry> {
            kept.iter().rev().filter(|entry| query.matches(entry) == Some(how)).cloned().collect()
        };
        let exact = by(Match::Exact);
        let expected = if exact.is_empty() { by(Match::Prefix) } else { exact };
        let found = find(&segments, &query, limit).unwrap();
        prop_assert_eq!(found.more, expected.len() > limit);
        let newest: Vec<Entry> = expected.into_iter().take(limit).collect();
        prop_assert_eq!(found.entries, newest);
    }
}
