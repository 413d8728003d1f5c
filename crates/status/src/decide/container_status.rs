//! The status of one container.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    Container, ContainerState, ContainerStateRunning, ContainerStateTerminated,
    ContainerStateWaiting, ContainerStatus, ContainerUser, LinuxContainerUser, Pod,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use model::labels;
use model::observed;
use podspec::{restart, view};

use crate::decide::input::{StatusInput, Waiting};
use crate::decide::readiness::{self, ReadinessInput};
use crate::decide::{mounts, reported, restart_all};

/// The reason if the end of a container was not observed.
pub(super) const STATUS_UNKNOWN: &str = "ContainerStatusUnknown";
/// The exit code of a container whose end was not observed, as if it had been killed.
pub(super) const UNSEEN_EXIT_CODE: i32 = 137;

/// The message of a container whose end was not observed, in upstream's words.
pub(super) const UNSEEN_END: &str =
    "The container could not be located when the pod was terminated";
/// Like `UNSEEN_END`, if the runtime has no instance of it any more.
const UNSEEN_END_OF_GONE: &str = "The container could not be located when the pod was deleted.  \
                                  The container used to be Running";
/// The message of an init container that the runtime no longer has, while it has instances of later
/// containers.
const WORKED_UNSEEN: &str = "Unable to get init container status from container runtime and pod has \
                             been initialized, treat it as exited normally";

/// The type of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// One of `containers`.
    Regular,
    /// One of `initContainers` that must end.
    Init,
    /// One of `initContainers` that keeps running.
    Sidecar,
    /// One of `ephemeralContainers`.
    Ephemeral,
}

/// The status of a container, given the previous one.
pub(crate) fn container_status(
    input: &StatusInput<'_>,
    kind: Kind,
    container: &Container,
    old: Option<&ContainerStatus>,
) -> ContainerStatus {
    let newest = input.observed.latest(&container.name);
    let may_go = newest.is_none() && kind != Kind::Ephemeral;
    let went = old
        .filter(|old| may_go && !is_guess(old) && restart_all::is_removed_for_restart(input, old));
    let has_worked = kind == Kind::Init && went.is_none() && has_worked(input, newest);
    let failure = input
        .start_failures
        .get(&container.name)
        .filter(|_| !has_worked && restart::should_restart(input.pod, container, newest));
    let ended_before = old.filter(|old| ended(old.state.as_ref()).is_some());
    let mut status = match (newest, ended_before) {
        (Some(newest), _) => {
            let of_instance = of_instance(input, newest, input.observed.before(newest), old);
            let same =
                old.filter(|old| was_running(old) && old.container_id == of_instance.container_id);
            let resizing = &input.resizing;
            let requests = container.resources.as_ref().and_then(|given| given.requests.clone());
            ContainerStatus {
                resources: Some(reported::resources(container, newest, same, resizing)),
                allocated_resources: requests,
                volume_mounts: old
                    .and_then(|old| old.volume_mounts.clone())
                    .or_else(|| mounts::volume_mounts(container, input.recursive_read_only)),
                ..of_instance
            }
        }
        (None, _) if let Some(old) = went => {
            restart_all::gone(of_none(input, container, Some(old)), old)
        }
        // The last termination is shown until the container is started again, long after its removal.
        (None, Some(ended)) if failure.is_none() => ended.clone(),
        (None, _) => of_none(input, container, old),
    };
    if has_worked && is_waiting(&status) {
        status.state = Some(terminated(ContainerStateTerminated {
            reason: Some("Completed".to_owned()),
            message: Some(WORKED_UNSEEN.to_owned()),
            ..ContainerStateTerminated::default()
        }));
    }
    if let Some(failure) = failure {
        show_failure(&mut status, failure);
    }
    readiness::set(ReadinessInput { kind, container, probes: input.probes, old }, &mut status);
    status
}

/// Whether the status is only the inference that an init container must have completed.
fn is_guess(status: &ContainerStatus) -> bool {
    let end = ended(status.state.as_ref());
    end.is_some_and(|end| end.message.as_deref() == Some(WORKED_UNSEEN))
}

/// Whether a regular init container has completed: by its own status, or, if the runtime no longer has
/// it, because a later container was created.
fn has_worked(input: &StatusInput<'_>, newest: Option<&observed::ContainerStatus>) -> bool {
    let Some(newest) = newest else {
        return view::containers(input.pod).iter().any(|container| {
            let latest = input.observed.latest(&container.name);
            latest.is_some_and(|latest| latest.state != observed::ContainerState::Unknown)
        });
    };
    newest.state == observed::ContainerState::Exited
        && restart::init_failure(newest.exit_code, &newest.reason).is_none()
}

/// The status of a container without instances in the runtime.
fn of_none(
    input: &StatusInput<'_>,
    container: &Container,
    old: Option<&ContainerStatus>,
) -> ContainerStatus {
    let pod = input.pod;
    let end = old.and_then(|old| ended(old.state.as_ref())).cloned().map(terminated);
    let mut status = ContainerStatus {
        name: container.name.clone(),
        image: container.image.clone().unwrap_or_default(),
        restart_count: old.map_or(0, |old| old.restart_count),
        state: Some(waiting(Some(default_waiting_reason(pod)), None)),
        last_state: end.or_else(|| old.and_then(|old| old.last_state.clone())),
        volume_mounts: mounts::volume_mounts(container, input.recursive_read_only),
        ..ContainerStatus::default()
    };
    // It terminated, although that was not observed. Without a record of that it would look as if it had never
    // run, and the pod would return to Pending.
    if old.is_some_and(was_running) && ended(status.last_state.as_ref()).is_none() {
        status.last_state = Some(terminated(unseen_end(UNSEEN_END_OF_GONE)));
        if !view::is_being_deleted(pod) {
            status.restart_count = status.restart_count.saturating_add(1);
        }
    }
    status
}

fn default_waiting_reason(pod: &Pod) -> &'static str {
    if view::init_containers(pod).is_empty() { "ContainerCreating" } else { "PodInitializing" }
}

/// The status of a container with its newest instance, and the instance `before` that.
fn of_instance(
    input: &StatusInput<'_>,
    newest: &observed::ContainerStatus,
    before: Option<&observed::ContainerStatus>,
    old: Option<&ContainerStatus>,
) -> ContainerStatus {
    let id = full_id(input, newest);
    let last = before
        .filter(|before| before.state == observed::ContainerState::Exited)
        .map(|before| exit_of(input, before, old))
        .or_else(|| old.and_then(|old| last_end(old, &id)).cloned());
    let state = state(newest, &id, old, || exit_of(input, newest, old));
    // An unobserved end has no id: the end of the newest instance must not be shown as that of an earlier one.
    let is_newest =
        |end: &ContainerStateTerminated| is_unseen(end) && ended(Some(&state)) == Some(end);
    let last = last.filter(|end| !is_newest(end));
    ContainerStatus {
        name: newest.name.to_string(),
        image: newest.image.to_string(),
        image_id: newest.image_ref.to_string(),
        restart_count: restart_count(newest, &id, old),
        state: Some(state),
        last_state: last.map(terminated),
        container_id: Some(id),
        user: newest.user.as_deref().map(user),
        stop_signal: newest
            .stop_signal
            .as_deref()
            .filter(|_| input.node.stop_signals)
            .map(Into::into),
        ..ContainerStatus::default()
    }
}

fn user(user: &observed::ContainerUser) -> ContainerUser {
    let linux = user.linux.as_ref().map(|linux| LinuxContainerUser {
        uid: linux.uid,
        gid: linux.gid,
        supplemental_groups: Some(linux.supplemental_groups.clone()).filter(|all| !all.is_empty()),
    });
    ContainerUser { linux }
}

fn state(
    newest: &observed::ContainerStatus,
    id: &str,
    old: Option<&ContainerStatus>,
    exit: impl FnOnce() -> ContainerStateTerminated,
) -> ContainerState {
    match newest.state {
        observed::ContainerState::Running => ContainerState {
            running: Some(ContainerStateRunning { started_at: newest.started_at.map(Time) }),
            ..ContainerState::default()
        },
        observed::ContainerState::Created => waiting(None, None),
        observed::ContainerState::Exited => terminated(exit()),
        observed::ContainerState::Unknown => {
            let end = match old {
                Some(old) if was_running(old) => Some(unseen_end(UNSEEN_END)),
                // Upstream drops the message at the second computation.
                Some(old) => end_of(old, id),
                None => None,
            };
            end.map_or_else(|| waiting(None, None), terminated)
        }
    }
}

/// The restart count of the newest instance, unless more restarts are known.
fn restart_count(
    newest: &observed::ContainerStatus,
    id: &str,
    old: Option<&ContainerStatus>,
) -> i32 {
    let made_with = newest.annotations.get(labels::CONTAINER_RESTART_COUNT);
    let made_with = made_with.and_then(|count| count.parse::<i32>().ok()).unwrap_or(0).max(0);
    let Some(old) = old else { return made_with };
    let is_another = old.container_id.as_deref() != Some(id);
    let happened = match newest.state {
        // Its end was not observed, and not counted.
        observed::ContainerState::Unknown if was_running(old) => 1,
        // Earlier instances were removed, and their count is lost.
        observed::ContainerState::Running
            if is_another
                && ended(old.state.as_ref()).is_some()
                && old.restart_count >= made_with =>
        {
            1
        }
        _ => 0,
    };
    made_with.max(old.restart_count.saturating_add(happened))
}

/// How the instance before the one with this id terminated, according to the old status.
fn last_end<'a>(old: &'a ContainerStatus, id: &str) -> Option<&'a ContainerStateTerminated> {
    let of_another = ended(old.state.as_ref()).filter(|_| old.container_id.as_deref() != Some(id));
    // A failed start moves the end of the newest instance there.
    let last =
        || ended(old.last_state.as_ref()).filter(|end| end.container_id.as_deref() != Some(id));
    of_another.or_else(last)
}

/// How the instance with this id terminated, according to the old status. It carries the id, so that it
/// is found again after a failed start has moved it; an unobserved end is found without an id.
fn end_of(old: &ContainerStatus, id: &str) -> Option<ContainerStateTerminated> {
    let is_same = old.container_id.as_deref() == Some(id);
    let of_state = ended(old.state.as_ref()).filter(|_| is_same);
    let is_moved = |end: &ContainerStateTerminated| {
        end.container_id.as_deref() == Some(id) || (is_same && is_unseen(end))
    };
    let moved = || ended(old.last_state.as_ref()).filter(|end| is_moved(end));
    let mut end = of_state.or_else(moved)?.clone();
    if !is_unseen(&end) {
        end.container_id = Some(id.to_owned());
    }
    Some(end)
}

/// Whether it is an unobserved end.
fn is_unseen(end: &ContainerStateTerminated) -> bool {
    *end == unseen_end(UNSEEN_END)
}

/// The published message of a terminated instance: why the agent killed it, which a restarted agent does not
/// know.
fn reported_message(old: &ContainerStatus, id: &str) -> Option<String> {
    let ends = [ended(old.state.as_ref()), ended(old.last_state.as_ref())];
    let mut ends = ends.into_iter().flatten();
    ends.find(|end| end.container_id.as_deref() == Some(id))?.message.clone()
}

fn exit_of(
    input: &StatusInput<'_>,
    instance: &observed::ContainerStatus,
    old: Option<&ContainerStatus>,
) -> ContainerStateTerminated {
    let id = full_id(input, instance);
    let reported = || old.and_then(|old| reported_message(old, &id));
    let text = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let time = |at: Option<Timestamp>| at.map(Time);
    ContainerStateTerminated {
        message: text(&instance.message).or_else(reported),
        container_id: Some(id),
        exit_code: instance.exit_code,
        reason: text(&instance.reason),
        started_at: time(instance.started_at),
        finished_at: time(instance.finished_at),
        signal: None,
    }
}

fn full_id(input: &StatusInput<'_>, instance: &observed::ContainerStatus) -> String {
    format!("{}://{}", input.node.runtime_name, instance.id)
}

/// A container that will be started and could not be is waiting, and its termination becomes the last state.
fn show_failure(status: &mut ContainerStatus, failure: &Waiting) {
    if ended(status.state.as_ref()).is_some() {
        status.last_state = status.state.take();
    }
    status.state = Some(waiting(Some(failure.reason), Some(failure.message.clone())));
}

fn is_waiting(status: &ContainerStatus) -> bool {
    status.state.as_ref().is_some_and(|state| state.waiting.is_some())
}

fn was_running(status: &ContainerStatus) -> bool {
    status.state.as_ref().is_some_and(|state| state.running.is_some())
}

fn ended(state: Option<&ContainerState>) -> Option<&ContainerStateTerminated> {
    state?.terminated.as_ref()
}

fn waiting(reason: Option<&str>, message: Option<String>) -> ContainerState {
    let message = message.filter(|message| !message.is_empty());
    ContainerState {
        waiting: Some(ContainerStateWaiting { reason: reason.map(Into::into), message }),
        ..ContainerState::default()
    }
}

fn terminated(end: ContainerStateTerminated) -> ContainerState {
    ContainerState { terminated: Some(end), ..ContainerState::default() }
}

/// The end of an instance whose termination was not observed.
fn unseen_end(message: &str) -> ContainerStateTerminated {
    ContainerStateTerminated {
        exit_code: UNSEEN_EXIT_CODE,
        reason: Some(STATUS_UNKNOWN.to_owned()),
        message: Some(message.to_owned()),
        ..ContainerStateTerminated::default()
    }
}
