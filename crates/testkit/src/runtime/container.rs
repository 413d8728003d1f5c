//! One container and the state of its process.

use std::sync::Arc;

use jiff::Timestamp;
use model::ids::{ContainerId, PodName, SandboxId};
use model::labels;
use model::observed::{
    Container, ContainerState, ContainerStatus, ContainerUser, LinuxUser, ReportedResources,
};
use model::ports::runtime::ImageUse;
use model::wanted::{ContainerConfig, LinuxResources};
use tokio::sync::Notify;

use super::images::StoredImage;
use super::script::{OnTerm, Script};

/// Exit code of a container that failed to start.
const EXIT_START_ERROR: i32 = 128;
/// Exit code that stands for death by SIGKILL.
pub(super) const EXIT_KILLED: i32 = 137;
/// Exit code of a container whose state the runtime lost.
const EXIT_UNKNOWN: i32 = 255;

#[derive(Debug)]
pub(crate) struct ContainerRecord {
    pub(crate) id: ContainerId,
    pub(crate) sandbox_id: SandboxId,
    pub(crate) config: ContainerConfig,
    pub(crate) created_at: Timestamp,
    pub(crate) image_id: String,
    pub(super) log_path: Arc<str>,
    pub(super) script: Script,
    pub(super) life: Life,
    /// Notified when the process ends earlier than its script says; stop calls wait for this.
    pub(super) ended: Arc<Notify>,
}

#[derive(Debug)]
pub(super) enum Life {
    Created,
    Running(Process),
    Exited(Exit),
    /// The runtime lost its state.
    Unknown {
        started_at: Option<Timestamp>,
    },
}

/// A running process with an end time.
#[derive(Debug)]
pub(super) struct Process {
    started_at: Timestamp,
    /// When it ends by itself, if known now, and with which code.
    end: Option<(Timestamp, i32)>,
    /// SIGTERM is sent once, even for repeated requests.
    terminated: bool,
}

/// How it ended.
#[derive(Debug)]
pub(super) struct Exit {
    started_at: Option<Timestamp>,
    finished_at: Timestamp,
    code: i32,
    reason: &'static str,
    message: String,
}

impl Exit {
    fn of(started_at: Timestamp, finished_at: Timestamp, code: i32) -> Self {
        Self {
            started_at: Some(started_at),
            finished_at,
            code,
            reason: if code == 0 { "Completed" } else { "Error" },
            message: String::new(),
        }
    }
}

impl ContainerRecord {
    /// Updates the state to now: a process whose end time has passed has ended at that time.
    pub(super) fn settle(&mut self, now: Timestamp) {
        if let Life::Running(process) = &self.life
            && let Some((at, code)) = process.end
            && at <= now
        {
            self.life = Life::Exited(Exit::of(process.started_at, at, code));
        }
    }

    pub(crate) fn state(&self) -> ContainerState {
        match self.life {
            Life::Created => ContainerState::Created,
            Life::Running(_) => ContainerState::Running,
            Life::Exited(_) => ContainerState::Exited,
            Life::Unknown { .. } => ContainerState::Unknown,
        }
    }

    pub(super) fn is_running(&self) -> bool {
        self.state() == ContainerState::Running
    }

    /// When a running process ends by itself.
    pub(super) fn ends_at(&self) -> Option<Timestamp> {
        match &self.life {
            Life::Running(process) => process.end.map(|(at, _)| at),
            _ => None,
        }
    }

    /// Starts the process; the script must be of an existing program.
    pub(super) fn start(&mut self, now: Timestamp) {
        let end = match self.script {
            // An overflowing end time means no end.
            Script::Runs { end: Some((after, code)), .. } => {
                now.checked_add(after).ok().map(|at| (at, code))
            }
            Script::Runs { end: None, .. } | Script::Missing => None,
        };
        self.life = Life::Running(Process { started_at: now, end, terminated: false });
    }

    /// Marks it as failed to start.
    pub(super) fn fail_start(&mut self, now: Timestamp, message: &str) {
        self.life = Life::Exited(Exit {
            started_at: None,
            finished_at: now,
            code: EXIT_START_ERROR,
            reason: "StartError",
            message: message.to_owned(),
        });
    }

    /// Sends SIGTERM, unless that was done before.
    pub(super) fn terminate(&mut self, now: Timestamp) {
        let Life::Running(process) = &mut self.life else {
            return;
        };
        if std::mem::replace(&mut process.terminated, true) {
            return;
        }
        if let Script::Runs { on_term: OnTerm::Exit { code, delay }, .. } = self.script
            && let Ok(at) = now.checked_add(delay)
            && process.end.is_none_or(|(end, _)| at < end)
        {
            process.end = Some((at, code));
            // Waiting stop calls check the end time again.
            self.ended.notify_waiters();
        }
    }

    /// Ends it now; does nothing unless it runs or its state is unknown.
    pub(super) fn kill(&mut self, now: Timestamp, code: i32) {
        self.settle(now);
        self.life = match self.life {
            Life::Running(ref process) => Life::Exited(Exit::of(process.started_at, now, code)),
            Life::Unknown { started_at } => {
                Life::Exited(Exit { started_at, ..Exit::of(now, now, EXIT_UNKNOWN) })
            }
            Life::Created | Life::Exited(_) => return,
        };
        self.ended.notify_waiters();
    }

    /// Changes its resources; unset values stay.
    pub(super) fn limit(&mut self, resources: &LinuxResources) {
        let kept = &mut self.config.resources;
        let set = |kept: &mut i64, value: i64| {
            if value != 0 {
                *kept = value;
            }
        };
        set(&mut kept.cpu_period, resources.cpu_period);
        set(&mut kept.cpu_quota, resources.cpu_quota);
        set(&mut kept.cpu_shares, resources.cpu_shares);
        set(&mut kept.memory_limit, resources.memory_limit);
        set(&mut kept.memory_swap_limit, resources.memory_swap_limit);
    }

    /// Ends it now as OOM-killed.
    pub(super) fn oom_kill(&mut self, now: Timestamp) {
        self.kill(now, EXIT_KILLED);
        if let Life::Exited(exit) = &mut self.life {
            exit.reason = "OOMKilled";
        }
    }

    /// Makes its state unknown.
    pub(super) fn lose(&mut self, now: Timestamp) {
        self.settle(now);
        let started_at = match &self.life {
            Life::Created => None,
            Life::Running(process) => Some(process.started_at),
            Life::Exited(exit) => exit.started_at,
            Life::Unknown { started_at } => *started_at,
        };
        self.life = Life::Unknown { started_at };
        self.ended.notify_waiters();
    }

    /// Its list entry. The pod comes from the labels only; without them there is none.
    pub(super) fn listed(&self) -> Container {
        let label = |name| self.config.labels.get(name).map(String::as_str).unwrap_or_default();
        Container {
            id: self.id.clone(),
            sandbox_id: self.sandbox_id.clone(),
            pod_uid: label(labels::POD_UID).into(),
            pod: PodName::new(label(labels::POD_NAMESPACE), label(labels::POD_NAME)),
            name: Arc::clone(&self.config.name),
            attempt: self.config.attempt,
            state: self.state(),
            created_at: self.created_at,
            image_ref: self.image_id.as_str().into(),
        }
    }

    /// The id of its image.
    pub(super) fn image_use(&self) -> ImageUse {
        let uid = self.config.labels.get(labels::POD_UID).filter(|uid| !uid.is_empty());
        ImageUse {
            container: self.id.clone(),
            pod_uid: uid.map(|uid| uid.as_str().into()),
            image_id: self.image_id.as_str().into(),
            runtime_handler: "".into(),
        }
    }

    /// The image reference of its configuration.
    fn image_reference(&self) -> &str {
        match self.config.user_image.as_str() {
            "" => &self.config.image_ref,
            user_image => user_image,
        }
    }

    /// Its user: root by default. The first group is one of the list, as with containerd.
    fn user(&self) -> ContainerUser {
        let security = &self.config.security;
        let gid = security.run_as_group.unwrap_or(0);
        let further = security.supplemental_groups.iter().copied().filter(|group| *group != gid);
        let linux = LinuxUser {
            uid: security.run_as_user.unwrap_or(0),
            gid,
            supplemental_groups: std::iter::once(gid).chain(further).collect(),
        };
        ContainerUser { linux: Some(linux) }
    }

    /// Its status. If the image was removed, the values of its creation are used.
    pub(super) fn status(&self, image: Option<&StoredImage>) -> ContainerStatus {
        let (started_at, exit) = match &self.life {
            Life::Created => (None, None),
            Life::Running(process) => (Some(process.started_at), None),
            Life::Exited(exit) => (exit.started_at, Some(exit)),
            Life::Unknown { started_at } => (*started_at, None),
        };
        let tag = image.and_then(StoredImage::tag).unwrap_or(self.image_reference());
        let digest = image.and_then(StoredImage::digest).unwrap_or(&self.image_id);
        ContainerStatus {
            id: self.id.clone(),
            // The CRI has it in lists only.
            sandbox_id: "".into(),
            name: Arc::clone(&self.config.name),
            state: self.state(),
            created_at: self.created_at,
            started_at,
            finished_at: exit.map(|exit| exit.finished_at),
            exit_code: exit.map_or(0, |exit| exit.code),
            image: tag.into(),
            image_ref: digest.into(),
            reason: exit.map_or("", |exit| exit.reason).into(),
            message: exit.map_or("", |exit| &exit.message).into(),
            log_path: Arc::clone(&self.log_path),
            annotations: self.config.annotations.clone(),
            mounts: self.config.mounts.clone(),
            resources: ReportedResources::of(&self.config.resources),
            user: Some(Arc::new(self.user())),
            stop_signal: self.config.stop_signal.as_deref().map(Into::into),
        }
    }
}
