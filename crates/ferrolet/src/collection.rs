//! Garbage collection as people ask for it: dead containers, sandboxes, logs and images together.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::{self, BoxStream, StreamExt as _};
use gc::containers::{ContainerGc, Pass, Planned};
use gc::decide::images::Policy;
use gc::images::{ImageGc, ImageGcError};
use gc::plan::{Fate, Item, Plan};
use gc::policy::{AgeBy, ContainerPolicy};
use journal::{Inputs, Ledger, Progress};
use model::chain::Chain;
use model::ports::clock::WallClock;
use model::verdict::{Detail, Input, Verdict};
use serde_json::Value;
use server::wire::{GcDone, GcItem, GcLine, GcPlan, GcSource, GcVerdict};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::records::Records;
use crate::tasks::Tasks;
use crate::wiring::{Ports, Settings};

/// How many lines wait for a slow reader.
const LINES: usize = 64;

/// How long a pass waits for whoever reads of it, each time.
const READER: Duration = Duration::from_secs(10);

/// How many people wait for their pass at a time.
const WAITING: usize = 4;

/// Whom a pass is told to.
type Reader = mpsc::Sender<GcLine>;

/// What collects garbage on this node.
#[derive(Debug)]
pub(crate) struct Collection {
    containers: ContainerGc,
    images: ImageGc,
    clock: Arc<dyn WallClock>,
    policy: Inputs,
    /// Read by the task that makes passes.
    asked: mpsc::Sender<Reader>,
}

/// Makes the passes that are asked for, one after the other, whether or not anybody still listens.
#[derive(Debug)]
struct Passes {
    containers: ContainerGc,
    images: ImageGc,
    ledger: Arc<Ledger>,
    asked: mpsc::Receiver<Reader>,
}

#[async_trait]
impl server::Collector for Collection {
    async fn plan(&self) -> GcPlan {
        let generated_at = self.clock.now();
        let (containers, images) = tokio::join!(self.containers.plan(), self.images.plan());
        let (items, problems) = planned(&containers, images);
        let policy = self.policy.clone();
        GcPlan { generated_at, source: GcSource::Agent, policy, items, problems }
    }

    async fn run(&self) -> BoxStream<'static, GcLine> {
        let (sender, lines) = mpsc::channel(LINES);
        // When the agent stops, nothing is told.
        drop(self.asked.send(sender).await);
        let next = async |mut lines: mpsc::Receiver<GcLine>| Some((lines.recv().await?, lines));
        stream::unfold(lines, next).boxed()
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
            clock: Arc::clone(&ports.clock),
            policy: policy(&settings.container_gc, &settings.images.policy),
            asked: sender,
        }
    }
}

impl Passes {
    async fn run(mut self, stop: CancellationToken) {
        let passes = async {
            while let Some(reader) = self.asked.recv().await {
                self.pass(reader).await;
            }
            // Nobody can ask any more: the agent stops.
            std::future::pending::<()>().await;
        };
        stop.run_until_cancelled(passes).await;
    }

    /// A pass over everything. Images come first: the others make some of them unused, and what a plan
    /// says goes, no more and no less.
    async fn pass(&self, lines: Reader) {
        let mut done = GcDone::default();
        self.images_pass(&lines, &mut done).await;
        self.containers_pass(&lines, &mut done).await;
        tell(&lines, GcLine::Done(done)).await;
    }

    async fn containers_pass(&self, lines: &mpsc::Sender<GcLine>, done: &mut GcDone) {
        let Pass { mut steps, report } = self.containers.run_now().await;
        while let Some(step) = steps.recv().await {
            told(&step.verdict, step.outcome.err(), lines, done).await;
        }
        match report.await {
            Ok(report) => done.problems.extend(report.problems.iter().map(chain)),
            Err(_) => done.problems.push("the agent stops".to_owned()),
        }
    }

    async fn images_pass(&self, lines: &mpsc::Sender<GcLine>, done: &mut GcDone) {
        let mut removals = self.ledger.watch();
        let pass = self.images.run_now();
        let mut pass = std::pin::pin!(pass);
        let report = loop {
            // Biased: what was removed is told before the end is.
            tokio::select! {
                biased;
                Ok(removal) = removals.recv() => image_told(&removal, lines, done).await,
                report = &mut pass => break report,
            }
        };
        while let Ok(removal) = removals.try_recv() {
            image_told(&removal, lines, done).await;
        }
        done.problems.extend(report.error.as_ref().map(chain));
    }
}

fn chain(error: &(impl std::error::Error + 'static)) -> String {
    Chain(error).to_string()
}

async fn tell(lines: &mpsc::Sender<GcLine>, line: GcLine) {
    // Whoever read may have gone or stopped reading; the pass goes on.
    drop(lines.send_timeout(line, READER).await);
}

/// Tells the removal of an image; others are told by who makes them.
async fn image_told(removal: &Progress, lines: &mpsc::Sender<GcLine>, done: &mut GcDone) {
    if removal.verdict.subject.kind() == "image" {
        told(&removal.verdict, removal.error.clone(), lines, done).await;
    }
}

async fn told(
    verdict: &Verdict,
    error: Option<String>,
    lines: &mpsc::Sender<GcLine>,
    done: &mut GcDone,
) {
    let item = removal_item(verdict);
    let count = |counts: &mut BTreeMap<String, u64>| {
        *counts.entry(item.kind.clone()).or_default() += 1;
    };
    match error {
        None => {
            count(&mut done.removed);
            tell(lines, GcLine::Removed { item }).await;
        }
        Some(error) => {
            count(&mut done.failed);
            tell(lines, GcLine::Failed { item, error }).await;
        }
    }
}

/// Both plans together: what goes first, and what could not be looked at.
pub(crate) fn planned(
    containers: &Planned,
    images: Result<Plan, ImageGcError>,
) -> (Vec<GcItem>, Vec<String>) {
    let mut problems: Vec<String> = containers.problems.iter().map(chain).collect();
    let mut items: Vec<GcItem> = containers.plan.items.iter().map(plan_item).collect();
    match images {
        Ok(plan) => items.extend(plan.items.iter().map(plan_item)),
        Err(error) => problems.push(chain(&error)),
    }
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
fn removal_item(verdict: &Verdict) -> GcItem {
    let Verdict { subject, name, owner, rule, detail, at: _ } = verdict.clone();
    plan_item(&Item { subject, name, owner, fate: Fate::Remove, rule, detail })
}

/// How much is kept, and for how long, as it is told. No limit is `null`.
pub(crate) fn policy(containers: &ContainerPolicy, images: &Policy) -> Inputs {
    let limit = |limit: Option<usize>| limit.map_or(Value::Null, Value::from);
    let spans = Inputs::from(
        &Detail::default()
            .with("minimumContainerAge", Input::Span(containers.min_age))
            .with("minimumImageAge", Input::Span(images.minimum_age))
            .with("maximumImageAge", Input::Span(images.maximum_age)),
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
