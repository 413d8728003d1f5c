//! The source of the termination message of a container.

use model::labels;
use model::observed::{ContainerState, ContainerStatus};

use super::go_path::cleaned;

/// The maximum number of bytes of the file in a message.
pub const MOST_OF_FILE: u64 = 4096;
/// The maximum number of lines from the end of the log.
pub const MOST_LINES: u64 = 80;
/// The maximum number of bytes of these lines in a message.
pub const MOST_OF_LOG: usize = 2048;

/// The sources of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageSource {
    /// The termination message file on the host, if the container had one.
    pub file: Option<String>,
    /// Whether the log is the fallback for a missing or empty file.
    pub or_log: bool,
}

/// The sources of the termination message; `None` for a container that has not exited.
pub fn message_source(status: &ContainerStatus) -> Option<MessageSource> {
    if status.state != ContainerState::Exited {
        return None;
    }
    let annotation = |name| status.annotations.get(name).map(String::as_str).unwrap_or_default();
    let path = annotation(labels::CONTAINER_TERMINATION_MESSAGE_PATH);
    let policy = annotation(labels::CONTAINER_TERMINATION_MESSAGE_POLICY);
    let at = cleaned(path);
    let mount = status.mounts.iter().find(|mount| cleaned(&mount.container_path) == at);
    Some(MessageSource {
        file: mount.filter(|_| !path.is_empty()).map(|mount| mount.host_path.clone()),
        // A container that could not start has no log.
        or_log: policy == "FallbackToLogsOnError"
            && status.exit_code != 0
            && &*status.reason != "ContainerCannotRun",
    })
}

/// The runtime's message followed by the termination message.
pub fn with_termination_message(message: &str, words: &str) -> String {
    match (message, words) {
        (message, "") => message.to_owned(),
        ("", words) => words.to_owned(),
        (message, words) => format!("{message}: {words}"),
    }
}

#[cfg(test)]
mod tests {
    use model::wanted::Mount;

    use super::*;
    use crate::decide::test_pods::instance;

    fn ended(policy: &str, exit_code: i32, reason: &str) -> ContainerStatus {
        let mut status = instance("c", "a", ContainerState::Exited, exit_code);
        let annotations = [
            (labels::CONTAINER_TERMINATION_MESSAGE_PATH, "/dev/termination-log"),
            (labels::CONTAINER_TERMINATION_MESSAGE_POLICY, policy),
        ];
        status.annotations.extend(annotations.map(|(name, text)| (name.to_owned(), text.into())));
        status.reason = reason.into();
        let mount = |host: &str, container: &str| Mount {
            host_path: host.to_owned(),
            container_path: container.to_owned(),
            ..Mount::default()
        };
        status.mounts = vec![mount("/data", "/data"), mount("/words", "/dev/termination-log")];
        status
    }

    // behaviour: ACT-90
    #[test]
    fn termination_message_path_is_the_path_of_the_mounted_file() {
        let source = message_source(&ended("File", 1, "Error")).unwrap();
        assert_eq!(source, MessageSource { file: Some("/words".to_owned()), or_log: false });
        let mut loosely = ended("File", 1, "Error");
        let written = "dev//termination-log/".to_owned();
        let path = labels::CONTAINER_TERMINATION_MESSAGE_PATH.to_owned();
        loosely.annotations.insert(path, written);
        assert_eq!(message_source(&loosely), Some(source));
        let mut elsewhere = ended("File", 1, "Error");
        elsewhere.mounts.pop();
        assert_eq!(message_source(&elsewhere).unwrap().file, None);
        let running = ContainerStatus { state: ContainerState::Running, ..ended("File", 0, "") };
        assert_eq!(message_source(&running), None);
    }

    // behaviour: ACT-91
    #[test]
    fn log_is_the_message_only_with_fallback_policy_after_a_failure() {
        let rows = [
            ("FallbackToLogsOnError", 1, "Error", true),
            ("FallbackToLogsOnError", 0, "Completed", false),
            ("FallbackToLogsOnError", 128, "ContainerCannotRun", false),
            ("File", 1, "Error", false),
        ];
        for (policy, code, reason, expected) in rows {
            let source = message_source(&ended(policy, code, reason)).unwrap();
            assert_eq!(source.or_log, expected, "{policy} {code} {reason}");
        }
    }

    // behaviour: ACT-93
    #[test]
    fn termination_message_is_appended_to_the_runtime_message() {
        assert_eq!(with_termination_message("", ""), "");
        assert_eq!(with_termination_message("killed", ""), "killed");
        assert_eq!(with_termination_message("", "bye"), "bye");
        assert_eq!(with_termination_message("killed", "bye"), "killed: bye");
    }
}
