//! The text of a removal: for the journal, the log and events.

use jiff::Timestamp;
use model::cluster::{ClusterEvent, InvolvedObject, PodTarget};
use model::ids::PodName;
use model::verdict::{Detail, Input, Owner, Subject, Verdict};

use crate::plan::{Excess, PodView, Rule};

/// The reason of events about deletions.
pub const EVENT_REASON: &str = "PodGC";

/// Why a pod is deleted, with the inputs of the rule.
pub(crate) fn verdict(view: &PodView<'_>, pod: &PodTarget, rule: &Rule, now: Timestamp) -> Verdict {
    let uid = pod.uid.to_string();
    let owner =
        Owner { uid: uid.as_str().into(), pod: Some(PodName::new(&*pod.namespace, &*pod.name)) };
    Verdict {
        subject: Subject::Pod(uid.into()),
        name: "".into(),
        owner: Some(owner),
        rule: rule.name(),
        detail: detail(view, rule),
        at: now,
    }
}

fn detail(view: &PodView<'_>, rule: &Rule) -> Detail {
    let number = |number: u32| Input::Number(number.into());
    let excess = |excess: &Excess| {
        Detail::default()
            .with("terminated", number(excess.terminated))
            .with("allowed", number(excess.allowed))
            .with("position", number(excess.position))
    };
    let of_rule = match rule {
        Rule::OverThreshold(number)
        | Rule::OverNamespaceCap(number)
        | Rule::OverNodeCap(number) => excess(number),
        Rule::OverTtl { age, ttl } => {
            Detail::default().with("age", Input::Span(*age)).with("ttl", Input::Span(*ttl))
        }
        Rule::NodeOutOfService | Rule::NeverScheduled => Detail::default(),
        Rule::NodeGone { missing_for } => {
            Detail::default().with("missingFor", Input::Span(*missing_for))
        }
    };
    let mut detail = of_rule.with("phase", Input::Text(view.phase.to_string()));
    if !view.node.is_empty() {
        detail = detail.with("node", Input::Text(view.node.to_owned()));
    }
    if view.is_evicted {
        detail = detail.with("evicted", Input::Flag(true));
    }
    match Timestamp::from_second(view.created) {
        Ok(created) => detail.with("created", Input::Time(created)),
        Err(_) => detail,
    }
}

/// The rule as a sentence.
pub fn sentence(rule: &Rule, node: &str) -> String {
    let of = |excess: &Excess, place: &str| {
        let Excess { terminated, allowed, position } = excess;
        format!(
            "{terminated} terminated pods {place}, {allowed} may stay; it is number {position} to go"
        )
    };
    match rule {
        Rule::OverThreshold(excess) => of(excess, "in the cluster"),
        Rule::OverNamespaceCap(excess) => of(excess, "in its namespace"),
        Rule::OverNodeCap(excess) => of(excess, &format!("on node {node}")),
        Rule::OverTtl { age, ttl } => format!("it ended {age:?} ago and may stay for {ttl:?}"),
        Rule::NodeOutOfService => format!("its node {node} is out of service and not ready"),
        Rule::NodeGone { missing_for } => {
            format!("its node {node} no longer exists; it was missing for {missing_for:?}")
        }
        Rule::NeverScheduled => "it was deleted before it got a node".to_owned(),
    }
}

/// The event about a deletion.
pub(crate) fn event(pod: &PodTarget, rule: &Rule, node: &str, now: Timestamp) -> ClusterEvent {
    let about = InvolvedObject {
        api_version: "v1",
        kind: "Pod",
        namespace: pod.namespace.to_string(),
        name: pod.name.to_string(),
        uid: pod.uid.clone(),
        field_path: String::new(),
    };
    let message = format!("Deleted by {}: {}", rule.name(), sentence(rule, node));
    ClusterEvent::new(about, false, EVENT_REASON.into(), message, now)
}
