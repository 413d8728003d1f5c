//! `ferrolet pod-gc why`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use journal::SearchResult;
use model::ports::clock::WallClock as _;
use podgc_main::journal_dir;
use process::clock::SystemClock;
use server::wire::WhyAnswer;

use super::gc::why::{answer_text, journal_range, read, report_damage};
use super::output::Output;

/// Print why a pod was deleted: rule, time and numbers.
#[derive(Debug, Clone, clap::Parser)]
#[command(name = "why", bin_name = "ferrolet pod-gc why")]
pub(crate) struct Args {
    /// The pod: NAMESPACE/NAME, NAME, or its uid or the beginning of it.
    #[arg(value_name = "NAMESPACE/NAME")]
    what: String,
    /// The state directory of the controller.
    #[arg(long, value_name = "DIR", default_value = "/var/lib/ferrolet/pod-gc")]
    state_dir: PathBuf,
    /// The maximum number of deletions, the newest first.
    #[arg(long, value_name = "COUNT", default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1000))]
    limit: u16,
    /// The format of the output.
    #[arg(short, long, value_enum)]
    output: Option<Output>,
}

pub(super) fn run(args: &Args) -> Result<()> {
    why(args, SystemClock.now(), &mut io::stdout())
}

/// Writes what was deleted and why; an error if nothing is recorded.
fn why(args: &Args, now: jiff::Timestamp, out: &mut dyn Write) -> Result<()> {
    let journal = journal_dir(&args.state_dir);
    let has =
        |path: &Path| path.try_exists().with_context(|| format!("look at {}", path.display()));
    // The first deletion creates the journal, and each replica has its own.
    let answer = read(journal, &args.what, usize::from(args.limit))?;
    let has_deleted = answer.is_some();
    let answer = if let Some(answer) = answer {
        answer
    } else {
        let dir = args.state_dir.display();
        ensure!(has(&args.state_dir)?, "there is no {dir}: no `ferrolet pod-gc` has run here");
        WhyAnswer { what: args.what.clone(), found: SearchResult::default() }
    };
    report_damage(&answer);
    if let Some(output) = args.output {
        out.write_all(output.text(&answer)?.as_bytes())?;
    } else {
        out.write_all(answer_text(&answer, now).as_bytes())?;
    }
    if !has_deleted {
        bail!("this replica has deleted nothing yet; other replicas have journals of their own");
    }
    if answer.found.entries.is_empty() {
        bail!("no pod called {:?} was deleted here, {}", args.what, journal_range(&answer));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use clap::Parser as _;
    use hostfs::HostSegments;
    use jiff::Timestamp;
    use journal::DiskJournal;
    use model::ids::PodName;
    use model::ports::journal::{Journal as _, Outcome};
    use model::verdict::{Detail, Input, Owner, Subject, Verdict};
    use podgc::plan::Rule;
    use testkit::clock::VirtualClock;

    use super::*;

    fn args(state_dir: &Path, what: &str) -> Args {
        let state_dir = state_dir.to_str().unwrap();
        Args::parse_from(["why", what, "--state-dir", state_dir])
    }

    const UID: &str = "00112233-4455-6677-8899-aabbccddeeff";

    fn verdict() -> Verdict {
        Verdict {
            subject: Subject::Pod(UID.into()),
            name: "".into(),
            owner: Some(Owner { uid: UID.into(), pod: Some(PodName::new("default", "web")) }),
            rule: Rule::NODE_GONE,
            detail: Detail::default()
                .with("missingFor", Input::Span(Duration::from_secs(40)))
                .with("phase", Input::Text("Running".to_owned()))
                .with("node", Input::Text("n1".to_owned())),
            at: Timestamp::UNIX_EPOCH,
        }
    }

    /// A journal with one deletion, and the time of it.
    fn written(place: &Path, outcome: Outcome<'_>) -> Timestamp {
        let clock = VirtualClock::new();
        let segments = Arc::new(HostSegments::new(journal_dir(place)));
        let written = DiskJournal::new(segments, Arc::new(clock.clone()), "0.1.0", 1 << 20);
        written.record(&verdict(), outcome);
        model::ports::clock::WallClock::now(&clock)
    }

    #[test]
    fn default_state_directory_matches_the_deployment() {
        let deployment = include_str!("../../../../deploy/pod-gc/deployment.yaml");
        let command = <Args as clap::CommandFactory>::command();
        let flag = command.get_arguments().find(|arg| arg.get_id() == "state_dir").unwrap();
        let default = flag.get_default_values()[0].to_str().unwrap();
        assert!(deployment.contains(&format!("mountPath: {default}\n")), "{default}");
    }

    // behaviour: PGC-57
    #[tokio::test(start_paused = true)]
    async fn pod_held_by_finalizers_is_not_shown_as_removed() {
        let place = tempfile::tempdir().unwrap();
        let then = written(place.path(), Outcome::Held);
        let mut out = Vec::new();
        why(&args(place.path(), "web"), then + Duration::from_secs(90), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let printed = "pod default/web was deleted, and was still held by finalizers, 90s ago, at ";
        assert!(text.starts_with(printed), "{text}");
    }

    // behaviour: PGC-115
    #[tokio::test(start_paused = true)]
    async fn deletion_in_progress_at_a_kill_is_shown() {
        let place = tempfile::tempdir().unwrap();
        let clock = VirtualClock::new();
        let open = || {
            let segments = Arc::new(HostSegments::new(journal_dir(place.path())));
            Arc::new(DiskJournal::new(segments, Arc::new(clock.clone()), "0.1.0", 1 << 20))
        };
        let killed = open();
        killed.begun(&verdict()).1.await;
        std::mem::forget(killed);
        let now = model::ports::clock::WallClock::now(&clock);
        let query_why = || {
            let mut out = Vec::new();
            why(&args(place.path(), "web"), now, &mut out).unwrap();
            String::from_utf8(out).unwrap()
        };
        let before = query_why();
        let printed = "pod default/web was being removed, with an unknown outcome, 0s ago, at ";
        assert!(before.starts_with(printed), "{before}");
        assert!(before.contains("\n  error: the process ended before the answer\n"), "{before}");
        let next = open();
        ::journal::ExistenceChecks::default().settle(&next).await;
        drop(next);
        assert_eq!(query_why(), before, "the next process has recorded it");
        assert!(journal_dir(place.path()).join("00000001.jsonl").is_file());
    }

    // behaviour: PGC-99
    #[test]
    fn replica_without_deletions_is_reported() {
        let place = tempfile::tempdir().unwrap();
        let query_why = |dir: &Path, more: &[&str]| {
            let flags = ["why", "web", "--state-dir", dir.to_str().unwrap()];
            let mut out = Vec::new();
            let args = Args::parse_from(flags.iter().chain(more));
            let error = why(&args, Timestamp::UNIX_EPOCH, &mut out).unwrap_err();
            (String::from_utf8(out).unwrap(), error.to_string())
        };
        let (text, error) = query_why(place.path(), &[]);
        assert_eq!(text, "");
        assert!(error.starts_with("this replica has deleted nothing yet"), "{error}");
        let (text, error) = query_why(place.path(), &["-o", "json"]);
        let answer: WhyAnswer = serde_json::from_str(&text).unwrap();
        assert!(answer.found.entries.is_empty());
        assert!(error.starts_with("this replica has deleted nothing yet"), "{error}");
        let nowhere = place.path().join("nowhere");
        let (_, error) = query_why(&nowhere, &[]);
        assert!(error.ends_with("no `ferrolet pod-gc` has run here"), "{error}");
    }

    // behaviour: PGC-99
    #[tokio::test(start_paused = true)]
    async fn deletion_is_shown_with_its_rule_and_numbers() {
        let place = tempfile::tempdir().unwrap();
        let now = written(place.path(), Outcome::Removed) + Duration::from_secs(90);
        for what in ["default/web", "web", UID, "00112233"] {
            let mut out = Vec::new();
            why(&args(place.path(), what), now, &mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            assert_eq!(
                text,
                "pod default/web was removed 90s ago, at 2026-01-01 00:00:00 UTC: its node n1 no longer \
                 existed; it had been missing for 40s.\n\
                 \x20 rule:  node-gone: missingFor 40s, phase Running, node n1\n\
                 \x20 id:    00112233-4455-6677-8899-aabbccddeeff\n",
                "{what}"
            );
        }
        let error = why(&args(place.path(), "default/other"), now, &mut Vec::new()).unwrap_err();
        let expected = "no pod called \"default/other\" was deleted here, as far as the journal goes back (to 2026-01-01 00:00:00 UTC)";
        assert_eq!(error.to_string(), expected);
    }
}
