//! How long a container may take to end.

use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;

/// The least that a process gets between being asked and being killed, whatever the pod says.
const LEAST: Duration = Duration::from_secs(2);

/// The grace that the runtime is told for a container of the pod: what whoever kills the pod asks
/// for, else that of its deletion, else that of its specification.
pub fn stop_grace(pod: &Pod, asked: Option<Duration>) -> Duration {
    let seconds = |seconds: i64| Duration::from_secs(u64::try_from(seconds).unwrap_or(0));
    let deletion = pod.metadata.deletion_grace_period_seconds.map(seconds);
    let specified = pod.spec.as_ref().and_then(|spec| spec.termination_grace_period_seconds);
    asked.or(deletion).or(specified.map(seconds)).unwrap_or(LEAST).max(LEAST)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::PodSpec;

    use super::*;

    // behaviour: WRK-25
    #[test]
    fn the_closest_wish_counts_and_two_seconds_are_the_least() {
        let rows = [
            (None, None, None, 2),
            (None, None, Some(30), 30),
            (None, Some(5), Some(30), 5),
            (Some(7), Some(5), Some(30), 7),
            (Some(0), Some(5), Some(30), 2),
            (None, Some(0), Some(30), 2),
            (None, Some(-1), None, 2),
        ];
        for (asked, deletion, specified, expected) in rows {
            let mut pod = Pod::default();
            pod.metadata.deletion_grace_period_seconds = deletion;
            pod.spec =
                Some(PodSpec { termination_grace_period_seconds: specified, ..PodSpec::default() });
            let grace = stop_grace(&pod, asked.map(Duration::from_secs));
            assert_eq!(
                grace,
                Duration::from_secs(expected),
                "{asked:?} {deletion:?} {specified:?}"
            );
        }
    }
}
