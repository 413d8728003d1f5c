//! What people hear of a container's image: upstream's words, which other programs look for.

use std::time::Duration;

use model::go_duration::milliseconds;

use model::ports::runtime::{Code, RuntimeError};

/// The image is there. Every pod may use what is there: nobody checks by which secrets it was fetched.
pub fn present(image: &str) -> String {
    format!("Container image {image:?} already present on machine and can be accessed by the pod")
}

/// The image is not there, and must not be fetched.
pub fn never(image: &str) -> String {
    format!("Container image {image:?} is not present with pull policy of Never")
}

/// Nobody can tell whether the image is there. Upstream names what was not found in place of what was
/// looked for.
pub fn uninspected(error: &RuntimeError) -> String {
    format!("Failed to inspect image \"\": {}", error.rpc_text())
}

/// The image is being fetched.
pub fn pulling(image: &str) -> String {
    format!("Pulling image {image:?}")
}

/// The image was fetched: how long that took, with and without the wait for others, and its bytes; 0
/// where the runtime did not say.
pub fn pulled(image: &str, took: Duration, with_wait: Duration, size: u64) -> String {
    let (took, with_wait) = (milliseconds(took), milliseconds(with_wait));
    format!(
        "Successfully pulled image {image:?} in {took} ({with_wait} including waiting). \
         Image size: {size} bytes."
    )
}

/// The image was not fetched.
pub fn not_pulled(image: &str, error: &RuntimeError) -> String {
    format!("Failed to pull image {image:?}: {}", pull_error(error))
}

/// The image will be tried again later.
pub fn back_off(image: &str) -> String {
    format!("Back-off pulling image {image:?}")
}

/// Why a container waits for its image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PullFailure {
    /// In a word.
    pub reason: &'static str,
    /// In a sentence.
    pub message: String,
}

/// What a container that waits for an image says of a pull that failed; upstream's `evalCRIPullErr`.
pub fn pull_failure(image: &str, error: &RuntimeError) -> PullFailure {
    let known = [
        ("RegistryUnavailable", "the registry is unavailable"),
        ("SignatureValidationFailed", "the signature validation failed"),
    ];
    let said = pull_error(error);
    let found = known.into_iter().find_map(|(reason, why)| {
        let rest = said.strip_prefix(reason)?;
        let message = format!("image pull failed for {image} because {why}{rest}");
        Some(PullFailure { reason, message })
    });
    found.unwrap_or(PullFailure { reason: "ErrImagePull", message: said })
}

impl PullFailure {
    /// What a container says that waits for the next try.
    pub fn while_waiting(&self, image: &str) -> String {
        format!("{}: {}: {}", back_off(image), self.reason, self.message)
    }
}

/// The code of an error says nothing where it is unknown, so upstream leaves it out for pulls.
fn pull_error(error: &RuntimeError) -> String {
    if error.code == Code::Unknown { error.message.clone() } else { error.rpc_text() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(code: Code, message: &str) -> RuntimeError {
        RuntimeError {
            method: "PullImage",
            object: "far:1".to_owned(),
            code,
            message: message.to_owned(),
        }
    }

    // behaviour: ACT-120
    #[test]
    fn what_is_said_of_images_is_what_upstream_says() {
        let gone = error(Code::NotFound, "no such manifest");
        let rows = [
            (
                present("far:1"),
                "Container image \"far:1\" already present on machine and can be accessed by the pod",
            ),
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
                uninspected(&error(Code::Cancelled, "gone")),
                "Failed to inspect image \"\": rpc error: code = Canceled desc = gone",
            ),
            (
                pull_failure("far:1", &gone).while_waiting("far:1"),
                "Back-off pulling image \"far:1\": ErrImagePull: \
                 rpc error: code = NotFound desc = no such manifest",
            ),
        ];
        for (said, expected) in rows {
            assert_eq!(said, expected);
        }
    }

    // behaviour: ACT-121
    #[test]
    fn a_runtime_can_say_that_the_registry_or_the_signature_is_to_blame() {
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
