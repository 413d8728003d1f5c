//! Garbage collection on request: dead containers, sandboxes, logs and images together.

mod passes;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::stream::BoxStream;
use gc::containers::{ContainerGc, Planned};
use gc::decide::images::{FREE_DISK_SPACE_FAILED, Policy};
use gc::images::{ImageGc, PassReport};
use gc::plan::{Fate, Item};
use gc::policy::{AgeBy, ContainerPolicy};
use journal::Inputs;
use model::chain::Chain;
use model::observed::{ContainerState, SandboxState};
use model::ports::clock::WallClock;
use model::ports::runtime::{ContainerFilter, Runtime, RuntimeError, RuntimeInfo, SandboxFilter};
use model::verdict::{Detail, Input, Owner, Verdict};
use process::tasks::Tasks;
use runtime::PodDirectories;
use serde_json::Value;
use server::wire::{GcItem, GcLine, GcPlan, GcSource, GcVerdict, GcWarning};
use tokio::sync::mpsc;
use tokio::time::timeout;
use volumes::VolumeManager;

use self::passes::{Passes, Reader};
use crate::records::Records;
use crate::wiring::{Ports, Settings};

/// How many requested passes may wait at a time.
const WAITING: usize = 4;

/// How long a request waits for a runtime that does not answer. The calls of a pass may take minutes.
const PATIENCE: Duration = Duration::from_secs(5);

/// A check of the runtime failed.
#[derive(Debug, thiserror::Error)]
pub enum RuntimeCheckError {
    /// The runtime does not answer.
    #[error("the container runtime does not answer: requested {what} {seconds}s ago", seconds = PATIENCE.as_secs())]
    Silent {
        /// The requested data.
        what: &'static str,
    },
    /// It returned an error.
    #[error(transparent)]
    Failed(RuntimeError),
}

/// Waits for a runtime call, up to the limit of a request.
async fn answered<T>(
    what: &'static str,
    answer: impl Future<Output = Result<T, RuntimeError>>,
) -> Result<(), RuntimeCheckError> {
    match timeout(PATIENCE, answer).await {
        Ok(answer) => answer.map(drop).map_err(RuntimeCheckError::Failed),
        Err(_) => Err(RuntimeCheckError::Silent { what }),
    }
}

/// Requests the version of the runtime, so that a command fails soon when the runtime hangs. The requests of a plan
/// have longer limits, because lists may be long.
pub async fn check_version(runtime: &dyn RuntimeInfo) -> Result<(), RuntimeCheckError> {
    answered("its version", runtime.version()).await
}

/// Requests short lists of the runtime, which may hang although the version is returned. Only a missing answer is an
/// error: a list that fails is a problem of the plan.
pub async fn check_lists(runtime: &Runtime) -> Result<(), RuntimeCheckError> {
    let ready = SandboxFilter { state: Some(SandboxState::Ready), ..SandboxFilter::default() };
    let created =
        ContainerFilter { state: Some(ContainerState::Created), ..ContainerFilter::default() };
    let (sandboxes, containers, images) = tokio::join!(
        answered("its sandboxes (ListPodSandbox)", runtime.sandboxes.list_pod_sandboxes(&ready)),
        answered("its containers (ListContainers)", runtime.containers.list_containers(&created)),
        answered("its images (ListImages)", runtime.images.list_images()),
    );
    let is_silent = |answer: &Result<(), RuntimeCheckError>| {
        matches!(answer, Err(RuntimeCheckError::Silent { .. }))
    };
    [sandboxes, containers, images].into_iter().find(is_silent).unwrap_or(Ok(()))
}

/// The garbage collectors of this node.
#[derive(Debug)]
pub(crate) struct Collection {
    containers: ContainerGc,
    images: ImageGc,
    volumes: VolumeManager,
    directories: PodDirectories,
    runtime: Runtime,
    clock: Arc<dyn WallClock>,
    policy: Inputs,
    /// Read by the task that runs the passes.
    requested: mpsc::Sender<Reader>,
}

#[async_trait]
impl server::Collector for Collection {
    async fn plan(&self) -> GcPlan {
        let generated_at = self.clock.now();
        let policy = self.policy.clone();
        let (items, warnings, problems) = match check_version(&*self.runtime.info).await {
            Err(silent @ RuntimeCheckError::Silent { .. }) => {
                (Vec::new(), Vec::new(), vec![chain(&silent)])
            }
            // An immediate error does not end the plan: it is reported with those of the lists.
            Ok(()) | Err(RuntimeCheckError::Failed(_)) => {
                let plans = tokio::join!(self.containers.plan(), self.images.plan());
                let (mut items, warnings, problems) = planned(&plans.0, &plans.1);
                // These requests do not wait for a pass.
                let volumes = self.volumes.removals().into_iter();
                let removals = volumes.chain(self.directories.failed_removals());
                items.splice(0..0, removals.map(removal_item));
                (items, warnings, problems)
            }
        };
        GcPlan { generated_at, source: GcSource::Agent, policy, items, warnings, problems }
    }

    async fn run(&self) -> BoxStream<'static, GcLine> {
        let (reader, lines) = Reader::new();
        // No result when the agent stops.
        drop(self.requested.send(reader).await);
        lines
    }
}

/// The handles of the collectors.
#[derive(Debug, Clone)]
pub(crate) struct GcHandles {
    pub(crate) containers: ContainerGc,
    pub(crate) images: ImageGc,
    pub(crate) volumes: VolumeManager,
    pub(crate) directories: PodDirectories,
}

impl Collection {
    /// Starts the task that runs passes; returns the handle for requests.
    pub(crate) fn start(
        settings: &Settings,
        ports: &Ports,
        records: &Records,
        gc: &GcHandles,
        tasks: &mut Tasks,
    ) -> Self {
        let GcHandles { containers, images, volumes, directories } = gc.clone();
        let (sender, requested) = mpsc::channel(WAITING);
        let passes = Passes {
            containers: containers.clone(),
            images: images.clone(),
            ledger: Arc::clone(&records.ledger),
            requested,
        };
        tasks.spawn("garbage collection on request", |stop| passes.run(stop));
        Self {
            containers,
            images,
            volumes,
            directories,
            runtime: ports.runtime.clone(),
            clock: Arc::clone(&ports.clock),
            policy: policy(&settings.container_gc, &settings.images.policy),
            requested: sender,
        }
    }
}

fn chain(error: &(impl std::error::Error + 'static)) -> String {
    Chain(error).to_string()
}

/// The items of both plans, removals first, with the warnings that a pass would log and the problems of the lists.
pub fn planned(
    containers: &Planned,
    images: &PassReport,
) -> (Vec<GcItem>, Vec<GcWarning>, Vec<String>) {
    let mut problems: Vec<String> = containers.problems.iter().map(chain).collect();
    problems.extend(images.error.as_ref().map(chain));
    let all = containers.plan.items.iter().chain(&images.plan.items);
    let mut items: Vec<GcItem> = all.map(plan_item).collect();
    // Stable: removals keep their order.
    items.sort_by_key(|item| item.verdict);
    let warnings = images.not_enough.iter().map(|message| GcWarning {
        reason: FREE_DISK_SPACE_FAILED.to_owned(),
        message: message.clone(),
    });
    (items, warnings.collect(), problems)
}

/// An item of a plan as the socket returns it.
fn plan_item(item: &Item) -> GcItem {
    let Item { subject, name, owner, fate, rule, detail } = item;
    let pod = owner.as_ref().and_then(|owner| owner.pod.as_ref());
    GcItem {
        kind: subject.kind().to_owned(),
        id: subject.id().into_owned(),
        name: name.to_string(),
        pod: pod.map(ToString::to_string),
        pod_uid: owner.as_ref().and_then(Owner::known_uid).map(ToString::to_string),
        verdict: match fate {
            Fate::Remove => GcVerdict::Remove,
            Fate::Keep => GcVerdict::Keep,
        },
        rule: (*rule).to_owned(),
        detail: Inputs::from(detail),
    }
}

/// A removal as the socket returns it.
fn removal_item(verdict: Verdict) -> GcItem {
    let Verdict { subject, name, owner, rule, detail, at: _ } = verdict;
    plan_item(&Item { subject, name, owner, fate: Fate::Remove, rule, detail })
}

/// The limits of a policy as the socket returns them. No limit is `null`.
pub fn policy(containers: &ContainerPolicy, images: &Policy) -> Inputs {
    let limit = |limit: Option<usize>| limit.map_or(Value::Null, Value::from);
    // Zero means no limit.
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
    use model::ports::runtime::Code;
    use testkit::clock::VirtualClock;
    use testkit::runtime::{Fault, MemoryRuntime, Method, Rule};

    use super::*;

    // behaviour: GC-105
    #[tokio::test(start_paused = true)]
    async fn plan_fails_early_when_the_runtime_hangs_on_a_list() {
        let rows = [
            (Method::ListPodSandbox, "its sandboxes (ListPodSandbox)"),
            (Method::ListContainers, "its containers (ListContainers)"),
            (Method::ListImages, "its images (ListImages)"),
        ];
        for (method, what) in rows {
            let runtime = Arc::new(MemoryRuntime::new(Arc::new(VirtualClock::default())));
            let services = Runtime::new(Arc::clone(&runtime));
            assert!(check_lists(&services).await.is_ok(), "{what}");
            runtime.inject(Rule::on(method, Fault::error(Code::Unavailable)).once());
            assert!(check_lists(&services).await.is_ok(), "the plan reports it: {what}");
            runtime.inject(Rule::on(method, Fault::hang()));
            assert!(check_version(&*runtime).await.is_ok(), "{what}");
            let expected =
                format!("the container runtime does not answer: requested {what} 5s ago");
            assert_eq!(check_lists(&services).await.unwrap_err().to_string(), expected);
        }
    }

    // behaviour: IMG-61
    #[test]
    fn unmeasurable_image_disk_is_a_problem_of_the_plan() {
        let containers = Planned { plan: Plan::default(), problems: Vec::new() };
        let error = Some(ImageGcError::NoCapacity("/var/lib/images".into()));
        let images = PassReport { error, ..PassReport::default() };
        let (items, warnings, problems) = planned(&containers, &images);
        assert!(items.is_empty() && warnings.is_empty());
        assert_eq!(problems, ["invalid capacity 0 on image filesystem: /var/lib/images"]);
    }

    // behaviour: IMG-67
    #[test]
    fn insufficient_free_space_is_a_warning_of_the_plan() {
        let containers = Planned { plan: Plan::default(), problems: Vec::new() };
        let not_enough = Some("Insufficient free disk space".to_owned());
        let images = PassReport { not_enough, ..PassReport::default() };
        let (_, warnings, problems) = planned(&containers, &images);
        let reported = warnings.iter().map(|one| (&*one.reason, &*one.message)).collect::<Vec<_>>();
        assert_eq!(reported, [("FreeDiskSpaceFailed", "Insufficient free disk space")]);
        assert!(problems.is_empty());
    }

    #[test]
    fn unset_limit_is_null() {
        let unlimited = ContainerPolicy { per_container: None, ..ContainerPolicy::default() };
        let reported = serde_json::to_string(&policy(&unlimited, &Policy::default())).unwrap();
        assert_eq!(
            reported,
            r#"{"minimumContainerAge":"0s","minimumImageAge":"2m0s","maximumImageAge":null,"maximumDeadContainersPerContainer":null,"maximumDeadContainers":null,"containerAgeBy":"created","imageHighThresholdPercent":85,"imageLowThresholdPercent":80}"#
        );
    }
}
