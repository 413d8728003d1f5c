//! Every removal of the agent is recorded.

use std::collections::BTreeSet;

use journal::{Entry, EntryOutcome, Query, find};
use model::ports::runtime::Code;
use testkit::runtime::{Fault, Method, Rule};

use crate::harness::Harness;

/// The entries about a name, the newest first.
fn entries(harness: &Harness, what: &str) -> Vec<Entry> {
    find(&harness.journal, &Query::new(what), 1000).expect("the journal can be read").entries
}

/// The requests for removals that the runtime got.
fn requested(harness: &Harness) -> BTreeSet<String> {
    let removals = [Method::RemoveContainer, Method::RemovePodSandbox, Method::RemoveImage];
    let calls = harness.runtime.calls().into_iter();
    calls.filter(|call| removals.contains(&call.method)).map(|call| call.object).collect()
}

#[tokio::test(start_paused = true)]
async fn every_removal_is_in_the_journal_with_pod_and_rule() {
    let harness = Harness::new();
    harness.write_manifest("web", "Always", "[sleep, forever]");
    harness.write_manifest("job", "OnFailure", "[exit, \"1\"]");
    let agent = harness.start();
    let web = harness.one_runs("web").await;
    harness.until("failures pile up", |harness| (requested(harness).len() > 2).then_some(())).await;
    let fault = Fault::error(Code::Internal);
    harness.runtime.inject(Rule::on(Method::RemoveContainer, fault).object(web.id.as_str()).once());
    harness.remove_manifest("web");
    let removed = |harness: &Harness| {
        let gone = harness.runtime.containers().iter().all(|one| one.id != web.id);
        (gone && harness.runtime.sandboxes().iter().all(|one| one.pod_uid != web.pod_uid))
            .then_some(())
    };
    harness.until("all its containers are removed", removed).await;
    agent.stop().await;
    let _next = harness.start();
    for id in requested(&harness) {
        let known = entries(&harness, &id);
        assert!(!known.is_empty(), "{id} was removed without a record");
        for entry in known {
            assert!(entry.pod.is_some() && !entry.rule.is_empty(), "{entry:?}");
        }
    }
    let of_web = entries(&harness, "default/web-node/main");
    let container: Vec<&Entry> = of_web.iter().filter(|one| one.id == web.id.as_str()).collect();
    let outcomes: Vec<EntryOutcome> = container.iter().map(|entry| entry.outcome).collect();
    assert_eq!(outcomes, [EntryOutcome::Removed, EntryOutcome::Failed]);
    let kinds: BTreeSet<String> =
        entries(&harness, web.pod_uid.as_str()).into_iter().map(|entry| entry.kind).collect();
    assert!(kinds.contains("sandbox") && kinds.contains("log"), "{kinds:?}");
}
