//! A panic in the work for one pod is that pod's failure: caught, reported, and returned as an error.

use std::any::Any;
use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use futures_util::FutureExt as _;

use crate::ids::{PodName, PodUid};

/// The step that panicked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PanicStep {
    /// A job of a pod's worker, or a change of the worker's state.
    PodWorker,
    /// The sync loop.
    SyncLoop,
    /// Reading the state of a pod from the runtime.
    Relist,
    /// Writing the status of a pod.
    StatusWrite,
    /// Writing the mirror of a static pod.
    MirrorPod,
    /// Removing dead containers, sandboxes and logs.
    ContainerGc,
    /// Removing images.
    ImageGc,
    /// Removing the cgroups of removed pods.
    CgroupSweep,
    /// Mounting and unmounting volumes.
    Volumes,
    /// Probing containers.
    Probes,
    /// Rotating a container's log.
    LogRotation,
}

impl PanicStep {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::PodWorker,
        Self::SyncLoop,
        Self::Relist,
        Self::StatusWrite,
        Self::MirrorPod,
        Self::ContainerGc,
        Self::ImageGc,
        Self::CgroupSweep,
        Self::Volumes,
        Self::Probes,
        Self::LogRotation,
    ];

    /// Its name in metrics, logs and events.
    pub fn label(self) -> &'static str {
        match self {
            Self::PodWorker => "pod_worker",
            Self::SyncLoop => "sync_loop",
            Self::Relist => "relist",
            Self::StatusWrite => "status_write",
            Self::MirrorPod => "mirror_pod",
            Self::ContainerGc => "container_gc",
            Self::ImageGc => "image_gc",
            Self::CgroupSweep => "cgroup_sweep",
            Self::Volumes => "volumes",
            Self::Probes => "probes",
            Self::LogRotation => "log_rotation",
        }
    }
}

/// The subject of the work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PanicSubject<'a> {
    /// A pod, with its name if known.
    Pod(&'a PodUid, Option<&'a PodName>),
    /// An object that belongs to no single pod, such as an image.
    Object(&'a str),
}

/// A panic that was caught.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("panic in {}: {message}", step.label())]
pub struct CaughtPanic {
    /// The step.
    pub step: PanicStep,
    /// The message.
    pub message: String,
}

/// Takes reports of panics: logs, counts and publishes them.
pub trait PanicReports: Debug + Send + Sync {
    /// Takes a report.
    fn report(&self, panic: &CaughtPanic, of: PanicSubject<'_>);
}

/// Catches panics. Clones report to the same place; the default reports nowhere.
///
/// Changes made before the panic stay. Decide first, then assign; the caller repeats the
/// work after a back-off.
#[derive(Debug, Clone, Default)]
pub struct PanicGuard(Option<Arc<dyn PanicReports>>);

impl PanicGuard {
    /// A guard that reports caught panics.
    pub fn new(reports: Arc<dyn PanicReports>) -> Self {
        Self(Some(reports))
    }

    /// Runs work for a pod or an object.
    pub fn catch<T>(
        &self,
        step: PanicStep,
        of: PanicSubject<'_>,
        work: impl FnOnce() -> T,
    ) -> Result<T, CaughtPanic> {
        catch_unwind(AssertUnwindSafe(work)).map_err(|cause| self.caught(step, of, &*cause))
    }

    /// Runs asynchronous work for a pod or an object.
    pub async fn catch_async<T>(
        &self,
        step: PanicStep,
        of: PanicSubject<'_>,
        work: impl Future<Output = T>,
    ) -> Result<T, CaughtPanic> {
        let done = AssertUnwindSafe(work).catch_unwind().await;
        done.map_err(|cause| self.caught(step, of, &*cause))
    }

    fn caught(
        &self,
        step: PanicStep,
        of: PanicSubject<'_>,
        cause: &(dyn Any + Send),
    ) -> CaughtPanic {
        let text = cause.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| cause.downcast_ref::<String>().cloned());
        let message = text.unwrap_or_else(|| "no message".to_owned());
        let panic = CaughtPanic { step, message };
        if let Some(reports) = &self.0 {
            // A panic in the report must not escape.
            drop(catch_unwind(AssertUnwindSafe(|| reports.report(&panic, of))));
        }
        panic
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[derive(Debug, Default)]
    struct KeptReports(Mutex<Vec<String>>);

    impl PanicReports for KeptReports {
        fn report(&self, panic: &CaughtPanic, of: PanicSubject<'_>) {
            self.0.lock().expect("no report panics with it").push(format!("{panic}, {of:?}"));
            assert!(of != PanicSubject::Object("unreportable"), "a report panics too");
        }
    }

    #[test]
    fn panic_is_returned_as_an_error_and_reported() {
        let kept = Arc::new(KeptReports::default());
        let guard = PanicGuard::new(Arc::clone(&kept) as _);
        let image = PanicSubject::Object("sha256:1");
        assert_eq!(guard.catch(PanicStep::ImageGc, image, || 1), Ok(1));
        let caught = guard.catch(PanicStep::ImageGc, image, || panic!("number {}", 2));
        let caught: CaughtPanic = caught.map(|(): ()| ()).unwrap_err();
        assert_eq!(caught.to_string(), "panic in image_gc: number 2");
        let work = async { panic!("fixed") };
        let uid = PodUid::from("u1");
        let done = guard.catch_async(PanicStep::Relist, PanicSubject::Pod(&uid, None), work);
        let caught: CaughtPanic = done.now_or_never().unwrap().map(|(): ()| ()).unwrap_err();
        assert_eq!((caught.step, caught.message.as_str()), (PanicStep::Relist, "fixed"));
        let subject = PanicSubject::Object("unreportable");
        guard.catch(PanicStep::ImageGc, subject, || std::panic::panic_any(3)).unwrap_err();
        let reports = kept.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        assert_eq!(reports.len(), 3);
        assert_eq!(reports[2], "panic in image_gc: no message, Object(\"unreportable\")");
    }

    #[test]
    fn panic_steps_have_distinct_labels() {
        let labels: std::collections::BTreeSet<_> =
            PanicStep::ALL.iter().map(|step| step.label()).collect();
        assert_eq!(labels.len(), PanicStep::ALL.len());
    }
}
