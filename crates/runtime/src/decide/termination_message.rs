//! Where the last words of a container are found.

use model::labels;
use model::observed::{ContainerState, ContainerStatus};

use super::go_path::cleaned;

/// How much of the file is shown.
pub const MOST_OF_FILE: u64 = 4096;
/// How many lines from the end of the log are looked at.
pub const MOST_LINES: u64 = 80;
/// How much of those is shown.
pub const MOST_OF_LOG: usize = 2048;

/// Where to look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MessageSource {
    /// The file on the host that the container could write, if it had one.
    pub file: Option<String>,
    /// Whether the log counts when there is no file or nothing in it.
    pub or_log: bool,
}

/// Where the last words of an ended container are; nothing for one that has not ended.
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
        // One that could not even start has no log.
        or_log: policy == "FallbackToLogsOnError"
            && status.exit_code != 0
            && &*status.reason != "ContainerCannotRun",
    })
}

/// The runtime's message with the container's own words behind it.
pub fn with_last_words(message: &str, words: &str) -> String {
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
    fn termination_message_path_is_that_of_the_mounted_file() {
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
        assert_eq!(with_last_words("", ""), "");
        assert_eq!(with_last_words("killed", ""), "killed");
        assert_eq!(with_last_words("", "bye"), "bye");
        assert_eq!(with_last_words("killed", "bye"), "killed: bye");
    }
}
