//! The journal of an agent that does not run.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use hostfs::HostSegments;
use journal::{IncidentJournal, SMALLEST};
use model::ids::PodName;
use model::ports::incidents::{Incident, IncidentKind, IncidentRecord as _};
use model::verdict::{Detail, Input};
use testkit::clock::VirtualClock;

use super::*;

/// Records two pulls, and a kill of a container with the name of the image.
fn record(root: &Path) {
    let segments = HostSegments::new(root.join(JOURNAL));
    let clock = Arc::new(VirtualClock::starting_at(Timestamp::UNIX_EPOCH));
    let journal = IncidentJournal::new(&segments, clock, "0.1.0", SMALLEST);
    let pull = |pod: &str| Incident {
        kind: IncidentKind::Pull,
        pod: PodName::new("shop", pod),
        uid: pod.into(),
        container: "registry.example/far:1".to_owned(),
        id: "sha256:0123456789abcdef".to_owned(),
        rule: "image-absent".into(),
        detail: Detail::default()
            .with("container", Input::Text("main".to_owned()))
            .with("credential", Input::Text("secret shop/key".to_owned()))
            .with("took", Input::Span(Duration::from_secs(2))),
        at: None,
    };
    let kill = Incident {
        kind: IncidentKind::Kill,
        container: "far".to_owned(),
        rule: "pod-deleted".into(),
        ..pull("db")
    };
    for incident in [pull("web"), kill, pull("web")] {
        journal.record_incident(incident);
    }
}

// behaviour: PULL-14
#[test]
fn pulls_of_an_image_are_shown_with_pod_and_secret() {
    let root = tempfile::tempdir().unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let _inside = runtime.enter();
    record(root.path());
    let query_why = |image: &str, limit, output| {
        let place = Place { root_dir: root.path().to_owned() };
        let args = Args { place, image: image.to_owned(), limit, output };
        let (mut out, agent) = (Vec::new(), args.place.agent());
        let requested = runtime.block_on(why(&agent, &args, Timestamp::UNIX_EPOCH, &mut out));
        (String::from_utf8(out).unwrap(), requested.map_err(|error| error.to_string()))
    };
    let line = "00:00:00 image registry.example/far:1 (0123456789abc) pulled for container main \
                of pod shop/web: it was not present; with secret shop/key, in 2s\n";
    for name in ["far", "far:1", "registry.example/far:1", "0123456789"] {
        assert_eq!(query_why(name, 20, None), (line.repeat(2), Ok(())), "{name}");
    }
    let (text, _) = query_why("far:1", 1, None);
    assert_eq!(text, format!("{line}There is more; --limit shows older lines.\n"));
    let (text, _) = query_why("far:1", 20, Some(Output::Json));
    assert!(text.contains("\"stillThere\": null") && !text.contains("pod-deleted"), "{text}");
    let error = query_why("near", 20, None).1.unwrap_err();
    assert!(error.starts_with("nothing is recorded about an image \"near\""), "{error}");
}
