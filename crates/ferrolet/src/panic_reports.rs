//! Reports panics in the work for single pods: a log line, a metric, and an event of the pod.

use std::sync::Arc;

use model::panics::{CaughtPanic, PanicGuard, PanicReports, PanicStep, PanicSubject};
use model::ports::events::{Events, PodEvent};
use prometheus::{IntCounterVec, Opts, Registry};
use tracing::error;

/// The event's reason. Upstream has none: there a panic ends the kubelet.
const REASON: &str = "InternalError";

#[derive(Debug)]
struct Reports {
    panics: IntCounterVec,
    events: Arc<dyn Events>,
}

/// A guard that counts in a registry and records events.
pub(crate) fn panic_guard(
    registry: &Registry,
    events: Arc<dyn Events>,
) -> prometheus::Result<PanicGuard> {
    let options = Opts::new(
        "ferrolet_pod_panics_total",
        "Number of panics in the work for single pods or images, by what was being done.",
    );
    let panics = IntCounterVec::new(options, &["step"])?;
    registry.register(Box::new(panics.clone()))?;
    for step in PanicStep::ALL {
        panics.with_label_values(&[step.label()]).reset();
    }
    Ok(PanicGuard::new(Arc::new(Reports { panics, events })))
}

impl PanicReports for Reports {
    fn report(&self, panic: &CaughtPanic, of: PanicSubject<'_>) {
        let (step, message) = (panic.step.label(), &panic.message);
        self.panics.with_label_values(&[step]).inc();
        match of {
            PanicSubject::Pod(uid, name) => {
                let pod = name.map(ToString::to_string).unwrap_or_default();
                error!(%uid, pod, step, message, "Panic in the work for a pod, retrying");
                // The text of a panic may contain internal data; only the log has it.
                let text = format!("Internal error in {step}, retrying; see the log of the agent");
                if let Some(name) = name {
                    let event = PodEvent::warning(uid.clone(), name.clone(), REASON, text);
                    self.events.record(event);
                }
            }
            PanicSubject::Object(object) => {
                error!(object, step, message, "Panic in the work for an object, retrying");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use model::ids::{PodName, PodUid};
    use prometheus::TextEncoder;
    use testkit::events::KeptEvents;

    use super::*;

    // behaviour: WRK-38
    #[test]
    fn panic_is_counted_and_recorded_as_an_event_without_its_text() {
        let (registry, events) = (Registry::new(), Arc::<KeptEvents>::default());
        let guard = panic_guard(&registry, Arc::clone(&events) as _).unwrap();
        let (uid, name) = (PodUid::from("u1"), PodName::new("default", "web"));
        let of = PanicSubject::Pod(&uid, Some(&name));
        guard.catch(PanicStep::Relist, of, || panic!("secret")).unwrap_err();
        let image = PanicSubject::Object("sha256:1");
        guard.catch(PanicStep::ImageGc, image, || panic!("secret")).unwrap_err();
        let text = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        for line in [
            "ferrolet_pod_panics_total{step=\"relist\"} 1",
            "ferrolet_pod_panics_total{step=\"image_gc\"} 1",
            "ferrolet_pod_panics_total{step=\"pod_worker\"} 0",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is not in\n{text}");
        }
        let events = events.all();
        let message = "Internal error in relist, retrying; see the log of the agent".to_owned();
        assert_eq!(events, [PodEvent::warning(uid, name, "InternalError", message)]);
    }
}
