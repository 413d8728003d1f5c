//! The record of a pod's deletion from the API server.

use jiff::SignedDuration;
use k8s_openapi::api::core::v1::Pod;
use model::verdict::{Detail, Input};

use super::conditions::DISRUPTION_TARGET;

/// The detail of the deletion record: the final phase, when the deletion was requested, and the reason of the
/// disruption (`EvictionByEvictionAPI` of a drain), if it is known.
pub fn deletion_detail(pod: &Pod) -> Detail {
    let status = pod.status.as_ref();
    let phase = status.and_then(|status| status.phase.clone()).unwrap_or_default();
    let mut detail = Detail::default().with("phase", Input::Text(phase));
    // The API server adds the grace period to the time of the request.
    if let Some(end) = &pod.metadata.deletion_timestamp {
        let grace = pod.metadata.deletion_grace_period_seconds.unwrap_or_default().max(0);
        let requested = end.0.checked_sub(SignedDuration::from_secs(grace)).unwrap_or(end.0);
        detail = detail.with("deletionRequested", Input::Time(requested));
    }
    let mut conditions = status.and_then(|status| status.conditions.as_ref()).into_iter().flatten();
    let disrupted = conditions
        .find(|condition| condition.type_ == DISRUPTION_TARGET && condition.status == "True");
    if let Some(reason) = disrupted.and_then(|condition| condition.reason.clone()) {
        detail = detail.with("disruption", Input::Text(reason));
    }
    detail
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use k8s_openapi::api::core::v1::{PodCondition, PodStatus};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    use super::*;

    fn deleted(conditions: Vec<PodCondition>) -> Pod {
        let mut pod = Pod::default();
        pod.metadata.deletion_timestamp = Some(Time(Timestamp::from_second(130).unwrap()));
        pod.metadata.deletion_grace_period_seconds = Some(30);
        let phase = Some("Failed".to_owned());
        pod.status =
            Some(PodStatus { phase, conditions: Some(conditions), ..PodStatus::default() });
        pod
    }

    // behaviour: STW-45
    #[test]
    fn record_of_a_deletion_has_the_request_and_the_disruption() {
        let plain = deletion_detail(&deleted(Vec::new())).to_string();
        assert_eq!(plain, "phase Failed, deletionRequested 1970-01-01T00:01:40Z");
        let condition = |status: &str| PodCondition {
            type_: DISRUPTION_TARGET.to_owned(),
            status: status.to_owned(),
            reason: Some("EvictionByEvictionAPI".to_owned()),
            ..PodCondition::default()
        };
        let drained = deletion_detail(&deleted(vec![condition("True")])).to_string();
        assert_eq!(drained, format!("{plain}, disruption EvictionByEvictionAPI"));
        assert_eq!(deletion_detail(&deleted(vec![condition("False")])).to_string(), plain);
    }
}
