//! Why a pod as a whole has failed.

/// Why a pod as a whole has failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodFailure {
    /// In one word: `DeadlineExceeded`, `Evicted`, …
    pub reason: &'static str,
    /// In a sentence.
    pub message: String,
    /// The message of the condition `DisruptionTarget`, where the node ended the pod for the sake of others.
    pub disruption: Option<&'static str>,
}
