use super::*;

/// An event of one object.
#[derive(Debug, Clone, Copy)]
enum Step {
    Intent,
    Began,
    Ended,
    Written(&'static str),
    Failed,
    Settled,
    Gone,
    Died,
    Started,
    /// Time passes.
    Later,
}

fn events(steps: &[Step]) -> impl Iterator<Item = Record> {
    let object = || ObjectRef { kind: "container".to_owned(), id: "c".to_owned() };
    let mut at = Duration::ZERO;
    steps.iter().map(move |step| {
        let event = match step {
            Step::Intent => Event::IntentWritten(object(), "old".to_owned()),
            Step::Began => Event::RemovalBegan(object(), "old"),
            Step::Ended => Event::RemovalEnded(object()),
            Step::Written(rule) => Event::EntryWritten(object(), (*rule).to_owned(), false),
            Step::Failed => Event::EntryWritten(object(), "old".to_owned(), true),
            Step::Settled => Event::IntentSettled(object(), "old".to_owned()),
            Step::Gone => Event::Gone(object()),
            Step::Died => Event::AgentDied,
            Step::Started => Event::AgentStarted(2),
            Step::Later => {
                at += SETTLED * 2;
                Event::ClockJumped
            }
        };
        Record { at, event }
    })
}

#[test]
fn finds_removal_without_a_journal_entry() {
    use Step::{Began, Died, Ended, Failed, Gone, Intent, Later, Settled, Started, Written};
    let old = Written("old");
    let rows: &[(&[Step], bool)] = &[
        (&[Intent, Began, Gone, Ended, old, Settled, Started], true),
        // It takes effect after the call was given up.
        (&[Intent, Began, Ended, old, Settled, Started, Gone], true),
        (&[Gone], false),
        (&[Began], false),
        (&[Intent, Settled, Began], false),
        (&[Intent, Began, Ended, Gone], false),
        (&[Intent, Began, Ended, Settled], false),
        (&[Intent, Began, Ended, Written("other")], false),
        (&[old], false),
        (&[Intent, old], false),
        // A recreated object must be removed again, which may be the effect of an earlier removal.
        (
            &[Intent, Began, Ended, old, Settled, Intent, Began, Ended, old, Settled, Gone, Gone],
            true,
        ),
        (&[Intent, Began, Ended, old, Settled, Gone, Gone], false),
        // A repeated failure is covered by the first entry; another result is not.
        (&[Intent, Began, Ended, Failed, Settled, Intent, Began, Ended, Settled, Gone], true),
        (&[Intent, Began, Ended, Failed, Settled, Started, Intent, Began, Ended, Settled], false),
        (&[Intent, Began, Ended, old, Settled, Intent, Began, Ended, Settled], false),
        // The next agent records what this one did not observe.
        (&[Intent, Began, Died, Gone, Started, old, Later], true),
        (&[Intent, Began, Died, Started, old, Later, Gone], true),
        (&[Intent, Began, Died, Started, Intent, Settled, Later], false),
        (&[Intent, Began, Gone, Died, Later, Started], true),
        (&[Intent, Began, Died, Started, Died, Later, Started, old, Later], true),
        (&[Intent, Died, Started, old, Later], true),
        (&[Intent, Settled, Died, Started, old], false),
        (&[Intent, Began, Died, Started, Written("other")], false),
        (&[Intent, Began, Ended, Died], false),
        (&[Intent, Began, Started], false),
    ];
    for (row, (steps, expected)) in rows.iter().enumerate() {
        let mut invariant = JournalEntries::default();
        let read = events(steps).try_for_each(|record| invariant.read(&record));
        assert_eq!(read.is_ok(), *expected, "row {row}: {read:?}");
    }
}
