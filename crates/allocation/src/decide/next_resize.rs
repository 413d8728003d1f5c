//! What follows from a decision about a resize request.

use std::borrow::Cow;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use model::admission::{Preemption, Rejection};
use podspec::Allocation;

use super::pod_allocation::{Refusal, ResizeRequest, ResizeStage};
use super::resize::{InfeasibleResize, RefusedResize, Resize, refusal_report};

/// The request after a decision, and what to do about it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct NextResize {
    /// The request; `None` if the pod has what it requests.
    pub request: Option<ResizeRequest>,
    /// The pods that are terminated for it.
    pub preempt: Option<Preemption>,
    /// Whether it was deferred before and is granted now.
    pub accepts_deferred: bool,
    /// The refusal, if it is reported: once for each request.
    pub event: Option<RefusalEvent>,
    /// Whether the status of the pod changes.
    pub publish: bool,
    /// Whether the checkpoint is written at once: when the refusal is published, the allocation is saved.
    pub save: bool,
}

/// A refusal that is reported.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefusalEvent {
    /// The reason.
    pub reason: Cow<'static, str>,
    /// The message.
    pub message: String,
    /// The label of an infeasible resize in metrics.
    pub infeasible: Option<&'static str>,
}

/// Applies a decision to a request.
pub fn next_resize(
    request: ResizeRequest,
    desired: &Arc<Pod>,
    decision: Resize,
    now: Timestamp,
) -> NextResize {
    let ResizeRequest { refusal, .. } = request;
    match decision {
        Resize::Same => NextResize { publish: refusal.is_some(), ..NextResize::default() },
        Resize::Allocate => NextResize {
            accepts_deferred: refusal.as_ref().is_some_and(|refusal| !refusal.refused.infeasible),
            request: Some(ResizeRequest {
                stage: ResizeStage::Granted(Arc::clone(desired)),
                refusal,
            }),
            ..NextResize::default()
        },
        Resize::Preempt(plan) => NextResize {
            request: Some(ResizeRequest {
                stage: ResizeStage::AwaitingRoom(Allocation::of(desired)),
                refusal,
            }),
            preempt: Some(plan),
            ..NextResize::default()
        },
        Resize::Deferred(why) => refuse(refusal, desired, why, None, now),
        Resize::Infeasible(InfeasibleResize { message, detail }) => {
            let why = Rejection::new("Infeasible", message);
            refuse(refusal, desired, why, Some(detail), now)
        }
    }
}

/// Refuses the requested resources; permanently, if there is an infeasible label.
fn refuse(
    before: Option<Refusal>,
    desired: &Pod,
    why: Rejection,
    infeasible: Option<&'static str>,
    now: Timestamp,
) -> NextResize {
    let Rejection { reason, message } = why;
    let wanted = Allocation::of(desired);
    let refused = RefusedResize { wanted, infeasible: infeasible.is_some(), message };
    let report = refusal_report(before.as_ref().map(|before| &before.refused), &refused);
    let since = before.filter(|_| !report.event).map_or(now, |before| before.since);
    let event = || RefusalEvent { reason, message: refused.message.clone(), infeasible };
    NextResize {
        event: report.event.then(event),
        publish: report.status,
        save: true,
        request: Some(ResizeRequest {
            stage: match infeasible {
                Some(_) => ResizeStage::Infeasible,
                None => ResizeStage::Waiting,
            },
            refusal: Some(Refusal { since, refused }),
        }),
        ..NextResize::default()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ResourceRequirements;
    use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
    use testkit::pods::pod;

    use super::*;
    use crate::decide::pod_allocation::PodAllocation;

    fn requesting(cpu: &str) -> Arc<Pod> {
        let requests = Some([("cpu".to_owned(), Quantity(cpu.to_owned()))].into());
        let resources = ResourceRequirements { requests, ..ResourceRequirements::default() };
        let pod = pod("web").container("main", "image", ["sleep", "forever"]);
        Arc::new(pod.spec(|spec| spec.containers[0].resources = Some(resources)).build())
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn refusal(second: i64, cpu: &str, infeasible: bool) -> Refusal {
        let (wanted, message) = (Allocation::of(&requesting(cpu)), "no room".to_owned());
        Refusal { since: at(second), refused: RefusedResize { wanted, infeasible, message } }
    }

    /// A short text.
    fn summary(next: &NextResize) -> String {
        let request = next.request.as_ref().map_or("none", |request| match request.stage {
            ResizeStage::Waiting => "waiting",
            ResizeStage::Infeasible => "infeasible",
            ResizeStage::AwaitingRoom(_) => "awaiting room",
            ResizeStage::Reserved(_) => "reserved",
            ResizeStage::Granted(_) => "granted",
            ResizeStage::Saving(..) => "saving",
        });
        let refusal = next.request.as_ref().and_then(|request| request.refusal.as_ref());
        let since = refusal.map(|refusal| format!(" since {}", refusal.since.as_second()));
        let flags = [
            (next.preempt.is_some(), ", preempt"),
            (next.accepts_deferred, ", accept"),
            (next.event.is_some(), ", event"),
            (next.publish, ", publish"),
            (next.save, ", save"),
        ];
        let flags = flags.into_iter().filter(|(is_set, _)| *is_set).map(|(_, text)| text);
        flags.fold(format!("{request}{}", since.unwrap_or_default()), |text, flag| text + flag)
    }

    // behaviour: RSZ-4
    #[test]
    fn decision_moves_a_resize_request_to_its_next_stage() {
        let desired = requesting("2");
        let plan = Preemption { victims: vec!["lesser".into()], resource: "cpu".to_owned() };
        let deferred = || Resize::Deferred(Rejection::new("OutOfcpu", "no room"));
        let other = || Resize::Deferred(Rejection::new("OutOfcpu", "less room"));
        let impossible = InfeasibleResize { message: "no room", detail: "removal" };
        let infeasible = || Resize::Infeasible(impossible);
        let before = |cpu: &str, is_infeasible| Some(refusal(1, cpu, is_infeasible));
        let rows = [
            (None, Resize::Same, "none"),
            (before("2", false), Resize::Same, "none, publish"),
            (None, Resize::Allocate, "granted"),
            (before("2", false), Resize::Allocate, "granted since 1, accept"),
            (before("3", true), Resize::Allocate, "granted since 1"),
            (None, Resize::Preempt(plan), "awaiting room, preempt"),
            (None, deferred(), "waiting since 9, event, publish, save"),
            (before("2", false), deferred(), "waiting since 1, save"),
            (before("2", false), other(), "waiting since 1, publish, save"),
            (before("3", false), deferred(), "waiting since 9, event, save"),
            (before("2", true), deferred(), "waiting since 9, event, publish, save"),
            (None, infeasible(), "infeasible since 9, event, publish, save"),
            (before("2", false), infeasible(), "infeasible since 9, event, publish, save"),
            (before("2", true), infeasible(), "infeasible since 1, save"),
        ];
        for (row, (refusal, decision, expected)) in rows.into_iter().enumerate() {
            let request = ResizeRequest { refusal, ..ResizeRequest::default() };
            let next = next_resize(request, &desired, decision, at(9));
            assert_eq!(summary(&next), expected, "row {row}");
        }
    }

    // behaviour: RSZ-5
    #[test]
    fn request_is_reserved_from_its_grant_until_it_is_saved() {
        let (has, desired) = (requesting("1"), requesting("2"));
        let mut entry = PodAllocation::default();
        assert!(entry.admit(Arc::clone(&has), Arc::clone(&has)));
        entry.update(&desired);
        entry.request(&desired);
        let taken = |entry: &PodAllocation| Allocation::of(&entry.taken(Arc::clone(&has)));
        let decide = |entry: &mut PodAllocation, decision| {
            let request = entry.request.take().map(|request| *request).unwrap();
            let next = next_resize(request, &desired, decision, at(9));
            entry.request = next.request.map(Box::new);
        };
        assert_eq!(taken(&entry), Allocation::of(&has));
        let plan = Preemption { victims: vec!["lesser".into()], resource: "cpu".to_owned() };
        decide(&mut entry, Resize::Preempt(plan));
        let is_open = |entry: &PodAllocation| entry.request.as_ref().unwrap().is_open();
        assert!(!is_open(&entry), "its victims are terminating");
        entry.room_made();
        assert!(is_open(&entry) && taken(&entry) == Allocation::of(&desired));
        for is_saved in [false, true] {
            decide(&mut entry, Resize::Allocate);
            assert!(!is_open(&entry) && entry.begin_saving().is_some());
            assert!(entry.is_saving() && taken(&entry) == Allocation::of(&desired));
            assert_eq!(entry.end_saving(is_saved).is_some(), is_saved);
            assert!(taken(&entry) == Allocation::of(&desired), "also when the write failed");
        }
        let given = entry.actuate(&desired, &has, &desired);
        assert!(Arc::ptr_eq(&given, &desired) && entry.request.is_none());
    }
}
