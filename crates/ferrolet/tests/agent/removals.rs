//! Every removal of the agent is recorded.

use std::collections::BTreeSet;

use journal::{Became, Entry, Query, find};
use model::ports::runtime::Code;
use testkit::runtime::{Fault, Method, Rule};

use crate::world::World;

/// The entries about a name, the newest first.
fn entries(world: &World, what: &str) -> Vec<Entry> {
    find(&world.journal, &Query::new(what), 1000).expect("the journal can be read").entries
}

/// The requests for removals that the runtime got.
fn asked(world: &World) -> BTreeSet<String> {
    let removals = [Method::RemoveContainer, Method::RemovePodSandbox, Method::RemoveImage];
    let calls = world.runtime.calls().into_iter();
    calls.filter(|call| removals.contains(&call.method)).map(|call| call.object).collect()
}

#[tokio::test(start_paused = true)]
async fn every_removal_is_in_the_journal_with_pod_and_rule() {
    let world = World::new();
    world.write_manifest("web", "Always", "[sleep, forever]");
    world.write_manifest("job", "OnFailure", "[exit, \"1\"]");
    let agent = world.start();
    let web = world.one_runs("web").await;
    world.until("failures pile up", |world| (asked(world).len() > 2).then_some(())).await;
    let fault = Fault::error(Code::Internal);
    world.runtime.inject(Rule::on(Method::RemoveContainer, fault).object(web.id.as_str()).once());
    world.remove_manifest("web");
    let removed = |world: &World| {
        let gone = world.runtime.containers().iter().all(|one| one.id != web.id);
        (gone && world.runtime.sandboxes().iter().all(|one| one.pod_uid != web.pod_uid))
            .then_some(())
    };
    world.until("all its containers are removed", removed).await;
    agent.stop().await;
    let _next = world.start();
    for id in asked(&world) {
        let known = entries(&world, &id);
        assert!(!known.is_empty(), "{id} was removed without a record");
        for entry in known {
            assert!(entry.pod.is_some() && !entry.rule.is_empty(), "{entry:?}");
        }
    }
    let of_web = entries(&world, "default/web-node/main");
    let container: Vec<&Entry> = of_web.iter().filter(|one| one.id == web.id.as_str()).collect();
    let became: Vec<Became> = container.iter().map(|entry| entry.outcome).collect();
    assert_eq!(became, [Became::Removed, Became::Failed]);
    let kinds: BTreeSet<String> =
        entries(&world, web.pod_uid.as_str()).into_iter().map(|entry| entry.kind).collect();
    assert!(kinds.contains("sandbox") && kinds.contains("log"), "{kinds:?}");
}
