//! An intake with one pod, for the tables.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use model::admission::Rejection;
use podspec::annotations;

use super::*;

pub(super) const UID: &str = "a";

pub(super) fn uid() -> PodUid {
    UID.into()
}

pub(super) fn rejection() -> Rejection {
    Rejection::new("UnsupportedFields", "not supported")
}

/// A pod of the API named `web`.
pub(super) fn api_pod(uid: &str) -> Arc<Pod> {
    Arc::new(testkit::pods::pod("web").uid(uid).build())
}

/// A static pod named `web`.
pub(super) fn static_pod(uid: &str) -> Arc<Pod> {
    let pod = testkit::pods::pod("web").uid(uid);
    Arc::new(pod.annotation(annotations::CONFIG_SOURCE, annotations::SOURCE_FILE).build())
}

pub(super) fn deleted_pod(uid: &str) -> Arc<Pod> {
    let delete = |pod: &mut Pod| {
        pod.metadata.deletion_timestamp = Some(Time(jiff::Timestamp::UNIX_EPOCH));
    };
    Arc::new(testkit::pods::pod("web").uid(uid).with(delete).build())
}

pub(super) fn listed(pod: &Arc<Pod>) -> Listing {
    Listing::Pod(Arc::clone(pod))
}

/// An intake after the start.
pub(super) fn started(entries: impl IntoIterator<Item = (&'static str, Entry)>) -> Intake {
    let pods = entries.into_iter().map(|(uid, entry)| (PodUid::from(uid), entry));
    let pods: BTreeMap<PodUid, Entry> = pods.collect();
    let waiting = pods.iter().filter(|(_, entry)| entry.is_awaiting_start());
    let awaiting_start = waiting.map(|(uid, _)| uid.clone()).collect();
    Intake { pods, awaiting_start, all_ready: true, relisted: true, ..Intake::default() }
}

/// Like `started`, with one pod that is listed.
pub(super) fn with_pod(pod: &Arc<Pod>, state: IntakeState) -> Intake {
    started([(UID, Entry { listing: Some(listed(pod)), state, awaits_room: false })])
}

/// The values that an intake borrows, owned for a test.
#[derive(Debug, Default)]
pub(super) struct Node {
    pub(super) live: BTreeMap<PodUid, PodName>,
    pub(super) outdated: OutdatedCopies,
    pub(super) removing: BTreeSet<PodUid>,
}

impl Node {
    /// Pods named `web` run.
    pub(super) fn running(uids: &[&str]) -> Self {
        let name = PodName::new("default", "web");
        let live = uids.iter().map(|uid| (PodUid::from(*uid), name.clone())).collect();
        Self { live, ..Self::default() }
    }

    pub(super) fn step(&self, intake: &mut Intake, event: IntakeEvent) -> Vec<IntakeCommand> {
        let Self { live, outdated, removing } = self;
        intake.step(event, &IntakeContext { live, outdated, removing })
    }
}

/// Commands as words, for rows.
pub(super) fn words(commands: &[IntakeCommand]) -> String {
    let words = commands.iter().map(|command| {
        let word = match command {
            IntakeCommand::Show(_) => "show",
            IntakeCommand::Forget(_) => "forget",
            IntakeCommand::Reject { terminate: false, .. } => "reject",
            IntakeCommand::Reject { terminate: true, .. } => "reject and terminate",
            IntakeCommand::CreateWorker(_) => "create",
            IntakeCommand::RestartWorker(_) => "restart",
            IntakeCommand::UpdateWorker(_) => "update",
            IntakeCommand::SyncWorker(_) => "sync",
            IntakeCommand::Terminate { .. } => "terminate",
            IntakeCommand::TerminateOrphan { spec: None, .. } => "terminate orphan",
            IntakeCommand::TerminateOrphan { spec: Some(_), .. } => "terminate known orphan",
            IntakeCommand::Preempt { .. } => "preempt",
            IntakeCommand::Readmit(_) => "readmit",
            IntakeCommand::CleanUp(_) => "clean up",
        };
        if command.uid().as_str() == UID {
            word.to_owned()
        } else {
            format!("{word} {}", command.uid())
        }
    });
    words.collect::<Vec<_>>().join(", ")
}
