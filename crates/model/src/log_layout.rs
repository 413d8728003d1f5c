//! Paths of logs on the node, in upstream's layout.

use std::path::{Component, Path, PathBuf};

use crate::ids::{ContainerId, PodName, PodUid};
use crate::verdict::Subject;

/// The longest file name on Linux file systems.
const LONGEST_NAME: usize = 255;

/// The number of path components of a log below `podLogsDir`.
const NAMES_OF_A_LOG: usize = 3;

/// The shortest text that upstream accepts as an ID in the name of a link.
const SHORTEST_ID: usize = 6;

/// The suffix of a link.
const LINK_SUFFIX: &str = ".log";

/// Paths of log files.
#[derive(Debug, Clone)]
pub struct LogLayout {
    /// `podLogsDir`, by default `/var/log/pods`.
    pub pod_logs: PathBuf,
    /// Links by container, for log collectors: `/var/log/containers`.
    pub container_links: PathBuf,
}

impl LogLayout {
    /// The name of the directory of a pod's logs.
    pub fn pod_directory_name(pod: &PodName, uid: &PodUid) -> String {
        format!("{}_{}_{uid}", pod.namespace, pod.name)
    }

    /// The directory of a pod's logs.
    pub fn pod_directory(&self, pod: &PodName, uid: &PodUid) -> PathBuf {
        self.pod_logs.join(Self::pod_directory_name(pod, uid))
    }

    /// The UID of the pod of a log directory: the part after the last `_`, or all of the name.
    pub fn pod_of_directory(name: &str) -> PodUid {
        name.rsplit_once('_').map_or(name, |(_, uid)| uid).into()
    }

    /// The name of the pod of a log directory; `None` if the directory is not named
    /// `NAMESPACE_NAME_UID`. Namespaces and names of pods have no `_`.
    pub fn pod_name_of_directory(name: &str) -> Option<PodName> {
        let parts: Vec<&str> = name.split('_').collect();
        match parts[..] {
            [namespace, pod, uid] if ![namespace, pod, uid].contains(&"") => {
                Some(PodName::new(namespace, pod))
            }
            _ => None,
        }
    }

    /// A container's log below its pod's directory.
    pub fn container_log(container: &str, restart_count: u32) -> String {
        format!("{container}/{restart_count}.log")
    }

    /// The link to a container's log.
    pub fn container_link(&self, pod: &PodName, container: &str, id: &ContainerId) -> PathBuf {
        let mut name = format!("{}_{}_{container}-{id}", pod.name, pod.namespace);
        let longest = LONGEST_NAME - LINK_SUFFIX.len();
        if name.len() > longest {
            // Names of pods and containers are ASCII; a runtime's ID may not be.
            let cut = (0..=longest).rev().find(|at| name.is_char_boundary(*at)).unwrap_or(0);
            name.truncate(cut);
        }
        self.container_links.join(name + LINK_SUFFIX)
    }

    /// Whether an entry of the directory of links has the name of a link.
    pub fn is_link_name(name: &str) -> bool {
        name.ends_with(LINK_SUFFIX)
    }

    /// The container of a link, if its name has one. If the name was cut, it is a prefix of
    /// the ID.
    pub fn container_of_link(name: &str) -> Option<ContainerId> {
        let (_, id) = name.strip_suffix(LINK_SUFFIX)?.rsplit_once('-')?;
        (id.len() >= SHORTEST_ID).then(|| id.into())
    }

    /// The pod of a link; `None` if the link is not named
    /// `NAME_NAMESPACE_CONTAINER-ID.log`, or was cut too early.
    pub fn pod_of_link(name: &str) -> Option<PodName> {
        let parts: Vec<&str> = name.strip_suffix(LINK_SUFFIX)?.split('_').collect();
        match parts[..] {
            [pod, namespace, container] if ![pod, namespace, container].contains(&"") => {
                Some(PodName::new(namespace, pod))
            }
            _ => None,
        }
    }

    /// Whether a path is a container log: `POD/CONTAINER/FILE` below `podLogsDir`. Other files there belong to
    /// other clients of the runtime.
    pub fn has_log(&self, path: &Path) -> bool {
        let Ok(below) = path.strip_prefix(&self.pod_logs) else { return false };
        let mut names = below.components();
        below.components().count() == NAMES_OF_A_LOG
            && names.all(|name| matches!(name, Component::Normal(_)))
    }

    /// What is removed with a container, in order: its log with the rotated parts, the link, and then the
    /// container, because without the container they could not be found. A log elsewhere is not ours, and a
    /// container whose name is no valid file name has no link.
    pub fn removal_order(
        &self,
        pod: &PodName,
        name: &str,
        id: &ContainerId,
        log: Option<&Path>,
    ) -> Vec<Subject> {
        let log = log.filter(|log| self.has_log(log));
        let log = log.map(|log| Subject::ContainerLog(log.to_owned()));
        let link = self.container_link(pod, name, id);
        let link = (link.parent() == Some(&*self.container_links)).then_some(link);
        let link = link.map(Subject::LogLink);
        log.into_iter().chain(link).chain([Subject::Container(id.clone())]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout() -> LogLayout {
        LogLayout {
            pod_logs: "/var/log/pods".into(),
            container_links: "/var/log/containers".into(),
        }
    }

    #[test]
    fn paths_match_upstream() {
        let pod = PodName::new("default", "web");
        let directory = layout().pod_directory(&pod, &"uid".into());
        assert_eq!(directory, PathBuf::from("/var/log/pods/default_web_uid"));
        assert_eq!(LogLayout::container_log("main", 3), "main/3.log");
        let link = layout().container_link(&pod, "main", &"abc".into());
        assert_eq!(link, PathBuf::from("/var/log/containers/web_default_main-abc.log"));
    }

    #[test]
    fn link_name_is_cut_when_too_long() {
        let pod = PodName::new("default", "x".repeat(253));
        let link = layout().container_link(&pod, "main", &"abc".into());
        let name = link.file_name().unwrap().to_str().unwrap();
        assert_eq!(name.len(), 255);
        assert_eq!(&name[251..], ".log");
    }

    #[test]
    fn pods_and_containers_are_parsed_from_names() {
        let rows = [
            ("123", "123", None),
            ("ns_name_654", "654", Some(("ns", "name"))),
            ("a_b_", "", None),
            ("a_b_c_654", "654", None),
            ("_name_654", "654", None),
        ];
        for (name, uid, pod) in rows {
            assert_eq!(LogLayout::pod_of_directory(name), PodUid::from(uid), "{name}");
            let pod = pod.map(|(namespace, name)| PodName::new(namespace, name));
            assert_eq!(LogLayout::pod_name_of_directory(name), pod, "{name}");
        }
        let rows = [
            ("web_default_my-main-abcdef0123.log", Some("abcdef0123"), true),
            ("web_default_main-abcdef.log", Some("abcdef"), true),
            ("web_default_main-abcde.log", None, true),
            ("nothing.log", None, false),
            ("web_default.log", None, false),
            ("web__main-abcdef.log", Some("abcdef"), false),
            ("web_default_main_x-abcdef.log", Some("abcdef"), false),
            ("web_default_main-abcdef0123.gz", None, false),
        ];
        for (name, id, names_pod) in rows {
            assert_eq!(LogLayout::container_of_link(name), id.map(ContainerId::from), "{name}");
            let pod = names_pod.then(|| PodName::new("default", "web"));
            assert_eq!(LogLayout::pod_of_link(name), pod, "{name}");
        }
    }

    #[test]
    fn container_is_removed_after_its_log_and_link() {
        let pod = PodName::new("default", "web");
        let remains = |log: &str| {
            let all = layout().removal_order(&pod, "main", &"abc".into(), Some(Path::new(log)));
            all.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let link = "link /var/log/containers/web_default_main-abc.log";
        let log = "/var/log/pods/default_web_uid/main/0.log";
        assert_eq!(remains(log), [&format!("log {log}"), link, "container abc"]);
        let elsewhere = [
            "/elsewhere/0.log",
            "/var/log/pods",
            "/var/log/pods/0.log",
            "/var/log/pods/crictl/0.log",
            "/var/log/pods/other-root/default_web_uid/main/0.log",
            "/var/log/pods/default_web_uid/../0.log",
            "/var/log/pods/../../0.log",
            "/var/log/pods-of-others/default_web_uid/main/0.log",
        ];
        for log in elsewhere {
            assert_eq!(remains(log), [link, "container abc"], "{log}");
        }
        let odd = layout().removal_order(&pod, "../main", &"abc".into(), None);
        assert_eq!(odd, [Subject::Container("abc".into())]);
    }
}
