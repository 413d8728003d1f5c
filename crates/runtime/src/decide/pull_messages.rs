//! Texts of events and statuses about images: upstream's, which other programs match.

use std::time::Duration;

use model::go_duration::milliseconds;
use model::go_text;
use model::ports::files::FileError;
use model::ports::runtime::RuntimeError;

use super::pull_error::PullError;

/// The image is present, and it was verified that the pod may use it, if the node verifies that.
pub fn present(image: &str, is_verified: bool) -> String {
    let access = if is_verified { " and can be accessed by the pod" } else { "" };
    format!("Container image {image:?} already present on machine{access}")
}

/// The image is not present, and must not be pulled.
pub fn never(image: &str) -> String {
    format!("Container image {image:?} is not present with pull policy of Never")
}

/// The presence of the image is unknown. Upstream prints the missing result instead of the name of the
/// image.
pub fn uninspected(error: &RuntimeError) -> String {
    format!("Failed to inspect image \"\": {}", error.rpc_text())
}

/// The image is being pulled.
pub fn pulling(image: &str) -> String {
    format!("Pulling image {image:?}")
}

/// The image was pulled: the duration without and with the wait for others, and its size in bytes; 0
/// if the runtime does not report it.
pub fn pulled(image: &str, took: Duration, with_wait: Duration, size: u64) -> String {
    let (took, with_wait) = (milliseconds(took), milliseconds(with_wait));
    format!(
        "Successfully pulled image {image:?} in {took} ({with_wait} including waiting). \
         Image size: {size} bytes."
    )
}

/// The image was not pulled.
pub fn not_pulled(image: &str, error: &PullError) -> String {
    format!("Failed to pull image {image:?}: {error}")
}

/// The intent of a pull could not be recorded, so the pull does not begin.
pub fn not_recorded(image: &str, error: &FileError) -> String {
    let error = go_text::file_error(error);
    format!("Failed to record image pull intent for container image {image:?}: {error}")
}

/// The pull has not ended after that time, or not begun.
pub fn still_pulling(image: &str, waited: Duration, has_begun: bool) -> String {
    let waited = milliseconds(waited);
    if has_begun {
        format!("Still pulling image {image:?} after {waited}")
    } else {
        format!("Still waiting to pull image {image:?} after {waited}: other pulls come first")
    }
}

/// The pull will be retried later.
pub fn back_off(image: &str) -> String {
    format!("Back-off pulling image {image:?}")
}

/// Why a container waits for its image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullFailure {
    /// The reason.
    pub reason: &'static str,
    /// The message.
    pub message: String,
}

/// The waiting reason and message after a failed pull; upstream's `evalCRIPullErr`.
pub fn pull_failure(image: &str, error: &PullError) -> PullFailure {
    let known = [
        ("RegistryUnavailable", "the registry is unavailable"),
        ("SignatureValidationFailed", "the signature validation failed"),
    ];
    let text = error.to_string();
    let found = known.into_iter().find_map(|(reason, why)| {
        let rest = text.strip_prefix(reason)?;
        let message = format!("image pull failed for {image} because {why}{rest}");
        Some(PullFailure { reason, message })
    });
    found.unwrap_or(PullFailure { reason: "ErrImagePull", message: text })
}

impl PullFailure {
    /// The message during the back-off.
    pub fn while_waiting(&self, image: &str) -> String {
        format!("{}: {}: {}", back_off(image), self.reason, self.message)
    }
}

#[cfg(test)]
mod tests {
    use model::ports::runtime::Code;

    use super::*;
    use crate::decide::pull_error::AttemptError;

    fn refused(code: Code, message: &str) -> RuntimeError {
        RuntimeError {
            method: "PullImage",
            object: "far:1".to_owned(),
            code,
            message: message.to_owned(),
        }
    }

    fn error(code: Code, message: &str) -> PullError {
        PullError(vec![AttemptError::Runtime(refused(code, message))])
    }

    // behaviour: ACT-120
    #[test]
    fn image_messages_match_upstream() {
        let gone = error(Code::NotFound, "no such manifest");
        let rows = [
            (
                present("far:1", true),
                "Container image \"far:1\" already present on machine and can be accessed by the pod",
            ),
            (present("far:1", false), "Container image \"far:1\" already present on machine"),
            (never("far:1"), "Container image \"far:1\" is not present with pull policy of Never"),
            (pulling("far:1"), "Pulling image \"far:1\""),
            (back_off("far:1"), "Back-off pulling image \"far:1\""),
            (
                pulled("far:1", Duration::from_millis(1250), Duration::from_secs(61), 4096),
                "Successfully pulled image \"far:1\" in 1.25s (1m1s including waiting). \
                 Image size: 4096 bytes.",
            ),
            (
                not_pulled("far:1", &gone),
                "Failed to pull image \"far:1\": rpc error: code = NotFound desc = no such manifest",
            ),
            (
                not_pulled("far:1", &error(Code::Unknown, "reset")),
                "Failed to pull image \"far:1\": reset",
            ),
            (
                uninspected(&refused(Code::Cancelled, "gone")),
                "Failed to inspect image \"\": rpc error: code = Canceled desc = gone",
            ),
            (
                pull_failure("far:1", &gone).while_waiting("far:1"),
                "Back-off pulling image \"far:1\": ErrImagePull: \
                 rpc error: code = NotFound desc = no such manifest",
            ),
        ];
        for (text, expected) in rows {
            assert_eq!(text, expected);
        }
    }

    // behaviour: PULL-12
    #[test]
    fn reminder_says_whether_the_pull_has_begun() {
        let waited = Duration::from_mins(5);
        assert_eq!(
            still_pulling("far:1", waited, true),
            "Still pulling image \"far:1\" after 5m0s"
        );
        assert_eq!(
            still_pulling("far:1", waited, false),
            "Still waiting to pull image \"far:1\" after 5m0s: other pulls come first"
        );
    }

    // behaviour: ACT-121
    #[test]
    fn error_text_of_the_runtime_selects_the_reason() {
        let rows = [
            (
                error(Code::Unknown, "RegistryUnavailable: 503"),
                "RegistryUnavailable",
                "image pull failed for far:1 because the registry is unavailable: 503",
            ),
            (
                error(Code::Unknown, "SignatureValidationFailed"),
                "SignatureValidationFailed",
                "image pull failed for far:1 because the signature validation failed",
            ),
            (
                error(Code::Unknown, "no RegistryUnavailable"),
                "ErrImagePull",
                "no RegistryUnavailable",
            ),
            (
                error(Code::Unavailable, "RegistryUnavailable: 503"),
                "ErrImagePull",
                "rpc error: code = Unavailable desc = RegistryUnavailable: 503",
            ),
        ];
        for (error, reason, message) in rows {
            let expected = PullFailure { reason, message: message.to_owned() };
            assert_eq!(pull_failure("far:1", &error), expected);
        }
    }
}
