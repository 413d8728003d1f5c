//! The events about a kill.

use std::borrow::Cow;
use std::sync::Arc;

use model::ids::{PodName, PodUid};
use model::oom::{MemoryUsage, OomKill, OomScope};
use model::ports::events::{EventType, NodeEvent, PodEvent};
use model::quantity::Quantity;

use super::message::LoggedKill;
use super::victim::VictimPod;

const SYSTEM_OOM: &str = "SystemOOM";
const OOM_KILLING: &str = "OOMKilling";

/// The event of the node, if the machine was out of memory. Upstream has it for processes inside and outside of pods.
pub fn system_event(kill: &LoggedKill) -> Option<NodeEvent> {
    if kill.limited.is_some() {
        return None;
    }
    let LoggedKill { process, pid, .. } = kill;
    let message = match (process.as_str(), pid) {
        ("", _) | (_, 0) => "System OOM encountered".to_owned(),
        _ => format!("System OOM encountered, victim process: {process}, pid: {pid}"),
    };
    Some(NodeEvent { kind: EventType::Warning, reason: SYSTEM_OOM, message })
}

/// The event of the pod whose process was killed.
pub fn container_event(uid: &PodUid, victim: &VictimPod, kill: &OomKill) -> PodEvent {
    let OomKill { pid, process, .. } = kill;
    let (field_path, whose): (Arc<str>, Cow<'_, str>) = match &victim.container {
        Some(container) => {
            let path = format!("spec.{}{{{}}}", container.list, container.name);
            (path.into(), format!("of container {}", container.name).into())
        }
        None => ("".into(), "of the pod".into()),
    };
    let message = format!(
        "Kernel killed process {process} (pid {pid}) {whose}: {why}",
        why = why(kill, victim.container.is_some())
    );
    let pod: PodName = victim.pod.clone();
    PodEvent { field_path, ..PodEvent::warning(uid.clone(), pod, OOM_KILLING, message) }
}

/// Which memory was exhausted.
fn why(kill: &OomKill, has_container: bool) -> String {
    let whose = match &kill.scope {
        OomScope::Node => return "the node is out of memory".to_owned(),
        OomScope::Container if has_container => "of the container".to_owned(),
        OomScope::Container => "of its cgroup".to_owned(),
        OomScope::Pod => "of the pod".to_owned(),
        OomScope::Cgroup(name) => format!("of the cgroup {name}"),
    };
    match kill.memory {
        Some(MemoryUsage { usage, limit }) => {
            format!("memory usage {} reached the limit {} {whose}", amount(usage), amount(limit))
        }
        None => format!("memory usage reached the limit {whose}"),
    }
}

/// Bytes as a pod specifies them: `64Mi`.
fn amount(bytes: u64) -> String {
    let quantity = bytes.to_string().parse::<Quantity>();
    quantity.map_or_else(|_| bytes.to_string(), |quantity| quantity.in_binary().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decide::victim::VictimContainer;

    fn kill(scope: OomScope, memory: Option<MemoryUsage>) -> OomKill {
        OomKill { pid: 7, process: "hog".to_owned(), scope, memory }
    }

    // behaviour: OOM-1
    #[test]
    fn node_has_an_event_only_if_the_machine_was_out_of_memory() {
        let of = |process: &str, limited: Option<&str>| LoggedKill {
            pid: 7,
            process: process.to_owned(),
            limited: limited.map(str::to_owned),
            cgroup: Some("/kubepods/podu/c".to_owned()),
            memory: None,
            by_group: false,
        };
        let event = system_event(&of("hog", None)).unwrap();
        assert_eq!((event.kind, event.reason), (EventType::Warning, "SystemOOM"));
        assert_eq!(event.message, "System OOM encountered, victim process: hog, pid: 7");
        assert_eq!(system_event(&of("", None)).unwrap().message, "System OOM encountered");
        assert_eq!(system_event(&of("hog", Some("/kubepods/podu/c"))), None);
    }

    // behaviour: OOM-2
    #[test]
    fn pod_event_names_container_process_limit_and_usage() {
        let container = VictimContainer { list: "containers", name: "main".into() };
        let pod = PodName::new("shop", "web");
        let of_container = VictimPod { pod: pod.clone(), container: Some(container) };
        let of_pod = VictimPod { pod, container: None };
        let memory = Some(MemoryUsage { usage: 64 << 20, limit: 65 << 20 });
        let rows = [
            (
                &of_container,
                kill(OomScope::Container, memory),
                "of container main: memory usage 64Mi reached the limit 65Mi of the container",
            ),
            (
                &of_container,
                kill(OomScope::Pod, memory),
                "of container main: memory usage 64Mi reached the limit 65Mi of the pod",
            ),
            (
                &of_container,
                kill(OomScope::Cgroup("/kubepods".to_owned()), None),
                "of container main: memory usage reached the limit of the cgroup /kubepods",
            ),
            (&of_pod, kill(OomScope::Node, None), "of the pod: the node is out of memory"),
            (
                &of_pod,
                kill(OomScope::Container, None),
                "of the pod: memory usage reached the limit of its cgroup",
            ),
        ];
        for (victim, kill, expected) in rows {
            let event = container_event(&"u1".into(), victim, &kill);
            assert_eq!(event.message, format!("Kernel killed process hog (pid 7) {expected}"));
            assert_eq!((event.kind, &*event.reason), (EventType::Warning, "OOMKilling"));
            let path = if victim.container.is_some() { "spec.containers{main}" } else { "" };
            assert_eq!((&*event.field_path, event.pod_uid), (path, "u1".into()));
        }
    }
}
