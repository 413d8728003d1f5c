//! Where logs and what else is a pod's lie on the node, by upstream's layout.

use std::path::{Path, PathBuf};

use model::ids::{ContainerId, PodName, PodUid};

/// The longest name that Linux file systems take.
const LONGEST_NAME: usize = 255;

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

    /// A container's log below its pod's directory.
    pub fn container_log(container: &str, restart_count: u32) -> String {
        format!("{container}/{restart_count}.log")
    }

    /// The link to a container's log.
    pub fn container_link(&self, pod: &PodName, container: &str, id: &ContainerId) -> PathBuf {
        let mut name = format!("{}_{}_{container}-{id}", pod.name, pod.namespace);
        let longest = LONGEST_NAME - ".log".len();
        if name.len() > longest {
            // Names of pods and containers are ASCII; a runtime's id might not be.
            let cut = (0..=longest).rev().find(|at| name.is_char_boundary(*at)).unwrap_or(0);
            name.truncate(cut);
        }
        self.container_links.join(name + ".log")
    }
}

/// Where the node's seccomp profiles are.
pub(crate) fn seccomp_profiles(root_dir: &Path) -> PathBuf {
    root_dir.join("seccomp")
}

/// The next number for a container of which the runtime has no instance, from the names in its log
/// directory: one more than the highest, so that no log is written twice.
pub(crate) fn next_restart_count(names: &[String]) -> u32 {
    let number = |name: &String| name.split_once(".log")?.0.parse::<u32>().ok();
    names.iter().filter_map(number).max().map_or(0, |highest| highest.saturating_add(1))
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
    fn paths_are_upstreams() {
        let pod = PodName::new("default", "web");
        let directory = layout().pod_directory(&pod, &"uid".into());
        assert_eq!(directory, PathBuf::from("/var/log/pods/default_web_uid"));
        assert_eq!(LogLayout::container_log("main", 3), "main/3.log");
        let link = layout().container_link(&pod, "main", &"abc".into());
        assert_eq!(link, PathBuf::from("/var/log/containers/web_default_main-abc.log"));
    }

    #[test]
    fn a_link_that_would_be_too_long_is_cut() {
        let pod = PodName::new("default", "x".repeat(253));
        let link = layout().container_link(&pod, "main", &"abc".into());
        let name = link.file_name().unwrap().to_str().unwrap();
        assert_eq!(name.len(), 255);
        assert_eq!(&name[251..], ".log");
    }

    #[test]
    fn the_next_log_comes_after_the_highest_that_is_there() {
        let rows: [(&[&str], u32); 5] = [
            (&[], 0),
            (&["0.log"], 1),
            (&["0.log", "2.log", "10.log"], 11),
            (&["3.log.20240101-000000.gz"], 4),
            (&["x.log", "notes"], 0),
        ];
        for (names, expected) in rows {
            let names: Vec<String> = names.iter().map(ToString::to_string).collect();
            assert_eq!(next_restart_count(&names), expected, "{names:?}");
        }
    }
}
