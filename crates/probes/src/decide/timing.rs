//! The settings of a probe.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, Probe};

/// The annotation that makes probes of a pod run at a shorter period until they pass for the first time.
pub const STARTUP_PERIOD: &str = "ferrolet.dev/startup-probe-period";

/// The shortest period that the annotation may set.
const SHORTEST: Duration = Duration::from_millis(100);

/// The settings of a probe. Values that are unset or not positive have the API's defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Timing {
    /// The delay of the first attempt after the start of the container.
    pub initial_delay: Duration,
    /// The time from one attempt to the next.
    pub period: Duration,
    /// Like `period`, until the probe passes for the first time, if the pod has the annotation.
    pub startup_period: Option<Duration>,
    /// How long an attempt may take.
    pub timeout: Duration,
    /// The success threshold.
    pub success_threshold: u32,
    /// The failure threshold.
    pub failure_threshold: u32,
}

impl Timing {
    /// The settings of a pod's probe.
    pub fn new(pod: &Pod, probe: &Probe) -> Self {
        let seconds = |value: Option<i32>, default| {
            let set = value.and_then(|value| u64::try_from(value).ok()).filter(|value| *value > 0);
            Duration::from_secs(set.unwrap_or(default))
        };
        let count = |value: Option<i32>, default| {
            value.and_then(|value| u32::try_from(value).ok()).filter(|v| *v > 0).unwrap_or(default)
        };
        let period = seconds(probe.period_seconds, 10);
        Self {
            initial_delay: seconds(probe.initial_delay_seconds, 0),
            period,
            startup_period: startup_period(pod).filter(|startup| *startup < period),
            timeout: seconds(probe.timeout_seconds, 1),
            success_threshold: count(probe.success_threshold, 1),
            failure_threshold: count(probe.failure_threshold, 3),
        }
    }
}

/// The period of the annotation: `250ms` or `0.5s`. A value that cannot be read is ignored.
fn startup_period(pod: &Pod) -> Option<Duration> {
    let text = pod.metadata.annotations.as_ref()?.get(STARTUP_PERIOD)?.trim();
    let seconds = match text.strip_suffix("ms") {
        Some(millis) => millis.parse::<f64>().ok()? / 1000.0,
        None => text.strip_suffix('s')?.parse::<f64>().ok()?,
    };
    Some(Duration::try_from_secs_f64(seconds).ok()?.max(SHORTEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timing(annotation: Option<&str>, probe: &Probe) -> Timing {
        let mut pod = Pod::default();
        pod.metadata.annotations =
            annotation.map(|value| [(STARTUP_PERIOD.to_owned(), value.to_owned())].into());
        Timing::new(&pod, probe)
    }

    #[test]
    fn unset_numbers_have_the_defaults_of_the_api() {
        for zero in [None, Some(0), Some(-1)] {
            let probe = Probe {
                initial_delay_seconds: zero,
                period_seconds: zero,
                timeout_seconds: zero,
                success_threshold: zero,
                failure_threshold: zero,
                ..Probe::default()
            };
            let expected = Timing {
                initial_delay: Duration::ZERO,
                period: Duration::from_secs(10),
                startup_period: None,
                timeout: Duration::from_secs(1),
                success_threshold: 1,
                failure_threshold: 3,
            };
            assert_eq!(timing(None, &probe), expected);
        }
    }

    #[test]
    fn annotation_shortens_the_period_down_to_100_ms() {
        let probe = Probe { period_seconds: Some(2), ..Probe::default() };
        let rows = [
            ("250ms", Some(250)),
            ("0.5s", Some(500)),
            ("1s", Some(1000)),
            ("1ms", Some(100)),
            ("2s", None),
            ("5s", None),
            ("fast", None),
            ("-1s", None),
            ("NaNs", None),
            ("", None),
        ];
        for (value, millis) in rows {
            let expected = millis.map(Duration::from_millis);
            assert_eq!(timing(Some(value), &probe).startup_period, expected, "{value}");
        }
    }
}
