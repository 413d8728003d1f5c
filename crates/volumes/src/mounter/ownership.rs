//! Giving a volume to the group of a pod.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use model::ports::events::PodEvent;
use model::ports::files::FileError;
use model::volume::{Ownership, Place};
use podspec::view;
use tokio::time::{Instant, interval_at};

use crate::manager::ManagerParts;

/// When a change that is still under way is reported, and how often after that.
const FIRST_REPORT: Duration = Duration::from_secs(30);
const NEXT_REPORT: Duration = Duration::from_mins(1);

/// Changes the group of a volume. If it takes long, there are events.
pub(super) async fn set(
    parts: &ManagerParts,
    pod: &Pod,
    place: &Place,
    ownership: &Ownership,
) -> Result<(), FileError> {
    let files = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&files);
    let progress = Arc::new(move |number| counted.store(number, Ordering::Relaxed));
    let work = parts.host.set_ownership(place, ownership, progress);
    let mut work = std::pin::pin!(work);
    let mut reports = interval_at(Instant::now() + FIRST_REPORT, NEXT_REPORT);
    let mut is_first = true;
    loop {
        tokio::select! {
            biased;
            done = &mut work => return done,
            _ = reports.tick() => {
                let files = (!is_first).then(|| files.load(Ordering::Relaxed));
                is_first = false;
                report(parts, pod, place, files);
            }
        }
    }
}

/// The texts are upstream's.
fn report(parts: &ManagerParts, pod: &Pod, place: &Place, files: Option<u64>) {
    let volume = reported_name(&place.below);
    let message = match files {
        None => format!(
            "Setting volume ownership for {volume} is taking longer than expected, consider using \
             OnRootMismatch - https://kubernetes.io/docs/tasks/configure-pod-container/security-context/\
             #configure-volume-permission-and-ownership-change-policy-for-pods"
        ),
        Some(files) => {
            format!("Setting volume ownership for {volume}, processed {files} files.")
        }
    };
    let (uid, name) = (view::uid(pod), view::pod_name(pod));
    parts.events.record(PodEvent::warning(uid, name, "VolumePermissionChangeInProgress", message));
}

/// The path below the directory of all pods.
fn reported_name(below: &Path) -> String {
    below.display().to_string()
}
