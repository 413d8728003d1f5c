//! Garbage collection as people ask for it: dead containers, sandboxes, logs and images together.

mod passes;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use gc::containers::{ContainerGc, Planned};
use gc::decide::images::Policy;
use gc::images::{ImageGc, PassReport};
use gc::plan::{Fate, Item};
use gc::policy::{AgeBy, ContainerPolicy};
use journal::Inputs;
use model::chain::Chain;
use model::ports::clock::WallClock;
use model::ports::runtime::{Runtime, RuntimeError, RuntimeVersion};
use model::verdict::{Detail, Input, Verdict};
use serde_json::Value;
use server::wire::{GcItem, GcLine, GcPlan, GcSource, GcVerdict};
use tokio::sync::mpsc;
use tokio::time::timeout;

use self::passes::{Passes, Reader};
use crate::records::Records;
use crate::tasks::Tasks;
use crate::wiring::{Ports, Settings};

/// How many people wait for their pass at a time.
const WAITING: usize = 4;

/// How long somebody who asks waits for a runtime that says nothing. Calls of passes have minutes.
const PATIENCE: Duration = Duration::from_secs(5);

/// The runtime says nothing.
#[derive(Debug, thiserror::Error)]
#[error("the container runtime does not answer: it was asked for its version {}s ago", PATIENCE.as_secs())]
pub(crate) struct Silent;

/// Asks the runtime for what it always knows, so that nobody waits minutes for one that hangs. What a plan
/// asks for after that may take its time: there may be very many containers.
pub(crate) async fn heard(
    runtime: &dyn Runtime,
) -> Result<Result<RuntimeVersion, RuntimeError>, Silent> {
    timeout(PATIENCE, runtime.version()).await.map_err(|_| Silent)
}

/// What collects garbage on this node.
#[derive(Debug)]
pub(crate) struct Collection {
    containers: ContainerGc,
    images: ImageGc,
    runtime: Arc<dyn Runtime>,
    clock: Arc<dyn WallClock>,
    policy: Inputs,
    /// Read by the task that makes passes.
    asked: mpsc::Sender<Reader>,
}

#[async_trait]
impl server::Collector for Collection {
    async fn plan(&self) -> GcPlan {
        let generated_at = self.clock.now();
        let policy = self.policy.clone();
        // One that fails at once is told with all that it was asked for.
        let (items, problems) = match heard(&*self.runtime).await {
            Ok(_) => {
                let plans = tokio::join!(self.containers.plan(), self.images.plan());
                planned(&plans.0, &plans.1)
            }
            Err(silent) => (Vec::new(), vec![chain(&silent)]),
        };
        GcPlan { generated_at, source: GcSource::Agent, policy, items, problems }
    }

    async fn run(&self) -> BoxStream<'static, GcLine> {
        let (reader, lines) = Reader::new();
        // When the agent stops, nothing is told.
        drop(self.asked.send(reader).await);
        lines
    }
}

impl Collection {
    /// Starts the task that makes passes, and tells how to ask for them.
    pub(crate) fn start(
        settings: &Settings,
        ports: &Ports,
        records: &Records,
        (containers, images): &(ContainerGc, ImageGc),
        tasks: &mut Tasks,
    ) -> Self {
        let (containers, images) = (containers.clone(), images.clone());
        let (sender, asked) = mpsc::channel(WAITING);
        let passes = Passes {
            containers: containers.clone(),
            images: images.clone(),
            ledger: Arc::clone(&records.ledger),
            asked,
        };
        tasks.spawn("garbage collection on request", |stop| passes.run(stop));
        Self {
            containers,
            images,
            runtime: Arc::clone(&ports.runtime),
            clock: Arc::clone(&ports.clock),
            policy: policy(&settings.container_gc, &settings.images.policy),
            asked: sender,
        }
    }
}

fn chain(error: &(impl std::error::Error + 'static)) -> String {
    Chain(error).to_string()
}

/// Both plans together: what goes first, and what could not be looked at.
pub(crate) fn planned(containers: &Planned, images: &PassReport) -> (Vec<GcItem>, Vec<String>) {
    let mut problems: Vec<String> = containers.problems.iter().map(chain).collect();
    problems.extend(images.error.as_ref().map(chain));
    let all = containers.plan.items.iter().chain(&images.plan.items);
    let mut items: Vec<GcItem> = all.map(plan_item).collect();
    // Stable: what goes keeps its order.
    items.sort_by_key(|item| item.verdict);
    (items, problems)
}

/// An item of a plan as it is told.
fn plan_item(item: &Item) -> GcItem {
    let Item { subject, name, owner, fate, rule, detail } = item;
    let pod = owner.as_ref().and_then(|owner| owner.pod.as_ref());
    GcItem {
        kind: subject.kind().to_owned(),
        id: subject.id().into_owned(),
        name: name.to_string(),
        pod: pod.map(ToString::to_string),
        pod_uid: owner.as_ref().map(|owner| owner.uid.to_string()),
        verdict: match fate {
            Fate::Remove => GcVerdict::Remove,
            Fate::Keep => GcVerdict::Keep,
        },
        rule: (*rule).to_owned(),
        detail: Inputs::from(detail),
    }
}

/// What goes as it is told.
fn removal_item(verdict: Verdict) -> GcItem {
    let Verdict { subject, name, owner, rule, detail, at: _ } = verdict;
    plan_item(&Item { subject, name, owner, fate: Fate::Remove, rule, detail })
}

/// How much is kept, and for how long, as it is told. No limit is `null`.
pub(crate) fn policy(containers: &ContainerPolicy, images: &Policy) -> Inputs {
    let limit = |limit: Option<usize>| limit.map_or(Value::Null, Value::from);
    // Zero is for ever.
    let maximum_age = Some(images.maximum_age).filter(|age| !age.is_zero());
    let maximum_age = maximum_age.map_or(Input::Nothing, Input::Span);
    let spans = Inputs::from(
        &Detail::default()
            .with("minimumContainerAge", Input::Span(containers.min_age))
            .with("minimumImageAge", Input::Span(images.minimum_age))
            .with("maximumImageAge", maximum_age),
    );
    let age_by = match containers.age_by {
        AgeBy::Created => "created",
        AgeBy::Finished => "finished",
    };
    let mut policy = vec![
        ("maximumDeadContainersPerContainer".to_owned(), limit(containers.per_container)),
        ("maximumDeadContainers".to_owned(), limit(containers.in_all)),
        ("containerAgeBy".to_owned(), age_by.into()),
        ("imageHighThresholdPercent".to_owned(), images.high_threshold.into()),
        ("imageLowThresholdPercent".to_owned(), images.low_threshold.into()),
    ];
    policy.splice(0..0, spans.0);
    Inputs(policy)
}

#[cfg(test)]
mod tests {
    use gc::images::ImageGcError;
    use gc::plan::Plan;

    use super::*;

    // behaviour: IMG-61
    #[test]
    fn a_disk_of_images_that_cannot_be_measured_is_a_problem_of_the_plan() {
        let containers = Planned { plan: Plan::default(), problems: Vec::new() };
        let error = Some(ImageGcError::NoCapacity("/var/lib/images".into()));
        let images = PassReport { error, ..PassReport::default() };
        let (items, problems) = planned(&containers, &images);
        assert!(items.is_empty());
        assert_eq!(problems, ["invalid capacity 0 on image filesystem: /var/lib/images"]);
    }

    #[test]
    fn a_limit_that_is_not_set_is_null() {
        let unlimited = ContainerPolicy { per_container: None, ..ContainerPolicy::default() };
        let told = serde_json::to_string(&policy(&unlimited, &Policy::default())).unwrap();
        assert_eq!(
            told,
            r#"{"minimumContainerAge":"0s","minimumImageAge":"2m0s","maximumImageAge":null,"maximumDeadContainersPerContainer":null,"maximumDeadContainers":null,"containerAgeBy":"created","imageHighThresholdPercent":85,"imageLowThresholdPercent":80}"#
        );
    }
}
