//! The journal of an agent that does not run.

use std::sync::Arc;

use journal::{IncidentJournal, SMALLEST};
use model::ids::PodName;
use model::ports::incidents::{Incident, IncidentKind, IncidentRecord as _};
use model::verdict::Detail;
use testkit::clock::VirtualClock;

use super::*;

// behaviour: WHY-12
#[test]
fn incidents_are_read_from_the_files_of_an_agent_that_has_ended() {
    let root = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let _inside = runtime.enter();
    let args = |what: &str, output| Args {
        place: Place { root_dir: root.path().to_owned() },
        what: what.to_owned(),
        limit: 20,
        output,
    };
    let query_why = |what: &str, output| {
        let (mut out, args) = (Vec::new(), args(what, output));
        let agent = args.place.agent();
        let requested = runtime.block_on(why(&agent, &args, Timestamp::UNIX_EPOCH, &mut out));
        (String::from_utf8(out).unwrap(), requested.map_err(|error| error.to_string()))
    };
    let error = query_why("shop/web", None).1.unwrap_err();
    assert!(error.contains("there is no journal in"), "{error}");
    let segments = HostSegments::new(root.path().join(JOURNAL));
    let clock = Arc::new(VirtualClock::starting_at(Timestamp::UNIX_EPOCH));
    let journal = IncidentJournal::new(&segments, clock, "0.1.0", SMALLEST);
    journal.record_incident(Incident {
        kind: IncidentKind::Kill,
        pod: PodName::new("shop", "web"),
        uid: "u1".into(),
        container: "main".to_owned(),
        id: "c1".to_owned(),
        rule: "pod-deleted".into(),
        detail: Detail::default(),
        at: None,
    });
    // Waits until the thread of the journal has written it.
    drop(journal);
    let (text, requested) = query_why("shop/web", None);
    assert_eq!(requested, Ok(()));
    assert_eq!(text, "00:00:00 container main killed: the pod was deleted\n");
    let (text, _) = query_why("web", Some(Output::Yaml));
    assert!(text.contains("rule: pod-deleted") && text.contains("stillThere: null"), "{text}");
    let (_, requested) = query_why("db", None);
    let error = requested.unwrap_err();
    assert!(error.starts_with("nothing is recorded about \"db\""), "{error}");
    assert!(error.ends_with("no agent runs here"), "{error}");
}
