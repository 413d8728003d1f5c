//! Why something is removed.

use std::fmt;
use std::path::PathBuf;

use jiff::Timestamp;

use crate::ids::{ContainerId, SandboxId};

/// What is to be removed.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// A dead container.
    Container(ContainerId),
    /// A dead sandbox.
    Sandbox(SandboxId),
    /// An image, by its id.
    Image(String),
    /// The directory of a pod: its containers' last words and whatever else belongs to it alone.
    PodDirectory(PathBuf),
    /// The directory of a pod's logs, by its path.
    PodLogs(PathBuf),
    /// The log of a container with its rotated parts, by its path.
    ContainerLog(PathBuf),
    /// A link to a container's log, by its own path.
    LogLink(PathBuf),
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Container(id) => write!(f, "container {id}"),
            Self::Sandbox(id) => write!(f, "sandbox {id}"),
            Self::Image(id) => write!(f, "image {id}"),
            Self::PodDirectory(path) => write!(f, "directory {}", path.display()),
            Self::PodLogs(path) => write!(f, "logs {}", path.display()),
            Self::ContainerLog(path) => write!(f, "log {}", path.display()),
            Self::LogLink(path) => write!(f, "link {}", path.display()),
        }
    }
}

/// A decision to remove something, with all that is needed to explain it later. Ports that remove
/// take one of these and nothing else, so a removal without a reason cannot be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// What goes.
    pub subject: Subject,
    /// The rule that says so, in kebab case; the same word wherever the rule shows.
    pub rule: &'static str,
    /// The numbers and names that the rule was applied to.
    pub inputs: String,
    /// When it was decided.
    pub at: Timestamp,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "remove {} by {} ({})", self.subject, self.rule, self.inputs)
    }
}
