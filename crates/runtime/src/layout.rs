//! Paths of pods on the node, in upstream's layout.

use std::path::{Path, PathBuf};

use model::log_layout::LogLayout;
use model::ports::files::{FileError, HostFiles};

/// The directory of the node's seccomp profiles.
pub(crate) fn seccomp_profiles(root_dir: &Path) -> PathBuf {
    root_dir.join("seccomp")
}

/// Creates a directory below that of all pods' logs.
pub(crate) async fn create_log_directory(
    files: &dyn HostFiles,
    logs: &LogLayout,
    below: &Path,
) -> Result<(), FileError> {
    files.create_directory(&logs.pod_logs, below, 0o755).await
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

    // behaviour: ACT-300
    #[test]
    fn next_log_number_follows_the_highest() {
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
