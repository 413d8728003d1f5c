//! Why something is removed.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::cgroup::CgroupName;
use crate::ids::{ContainerId, PodName, PodUid, SandboxId};

/// The object of a removal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Subject {
    /// A dead container.
    Container(ContainerId),
    /// A dead sandbox.
    Sandbox(SandboxId),
    /// An image, by its id.
    Image(String),
    /// The directory of a pod: termination messages of its containers, and other files of the pod.
    PodDirectory(PathBuf),
    /// A volume of a pod with its content, by its path.
    Volume(PathBuf),
    /// The directory of a pod's logs, by its path.
    PodLogs(PathBuf),
    /// The log of a container with its rotated parts, by its path.
    ContainerLog(PathBuf),
    /// One rotated file of a container's log, or the rest of one after a crash, by its path.
    RotatedLog(PathBuf),
    /// A link to a container's log, by its own path.
    LogLink(PathBuf),
    /// The cgroup of a pod.
    Cgroup(CgroupName),
    /// A pod of the API server.
    Pod(PodUid),
}

impl Subject {
    /// The kind of object: `container`, `sandbox`, `image`, `pod-directory`,
    /// `volume`, `log`, `cgroup`, `pod`.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Container(_) => "container",
            Self::Sandbox(_) => "sandbox",
            Self::Image(_) => "image",
            Self::PodDirectory(_) => "pod-directory",
            Self::Volume(_) => "volume",
            Self::PodLogs(_) | Self::ContainerLog(_) | Self::RotatedLog(_) | Self::LogLink(_) => {
                "log"
            }
            Self::Cgroup(_) => "cgroup",
            Self::Pod(_) => "pod",
        }
    }

    /// Its identity among its kind: an ID, or a path.
    pub fn id(&self) -> Cow<'_, str> {
        match self {
            Self::Container(id) => id.as_str().into(),
            Self::Sandbox(id) => id.as_str().into(),
            Self::Image(id) => id.into(),
            Self::Pod(uid) => uid.as_str().into(),
            Self::PodDirectory(path)
            | Self::Volume(path)
            | Self::PodLogs(path)
            | Self::ContainerLog(path)
            | Self::RotatedLog(path)
            | Self::LogLink(path) => path.to_string_lossy(),
            Self::Cgroup(name) => name.to_string().into(),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Container(id) => write!(f, "container {id}"),
            Self::Sandbox(id) => write!(f, "sandbox {id}"),
            Self::Image(id) => write!(f, "image {id}"),
            Self::Pod(uid) => write!(f, "pod {uid}"),
            Self::PodDirectory(path) => write!(f, "directory {}", path.display()),
            Self::Volume(path) => write!(f, "volume {}", path.display()),
            Self::PodLogs(path) => write!(f, "logs {}", path.display()),
            Self::ContainerLog(path) => write!(f, "log {}", path.display()),
            Self::RotatedLog(path) => write!(f, "rotated log {}", path.display()),
            Self::LogLink(path) => write!(f, "link {}", path.display()),
            Self::Cgroup(name) => write!(f, "cgroup {name}"),
        }
    }
}

/// The pod that an object belongs to, if known.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// The pod's UID; empty if unknown: a link has only the pod's name.
    pub uid: PodUid,
    /// The pod's namespace and name; `None` for a directory, which has only a UID.
    pub pod: Option<PodName>,
}

impl Owner {
    /// The owner of an object; `None` if its UID is empty.
    pub fn of(uid: &PodUid, pod: &PodName) -> Option<Self> {
        (!uid.is_empty()).then(|| Self { uid: uid.clone(), pod: Some(pod.clone()) })
    }

    /// A pod of which only the name is known.
    pub fn named(pod: PodName) -> Self {
        Self { uid: PodUid::from(""), pod: Some(pod) }
    }

    /// The pod's uid, if that is known.
    pub fn known_uid(&self) -> Option<&PodUid> {
        Some(&self.uid).filter(|uid| !uid.is_empty())
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.pod, self.known_uid()) {
            (Some(pod), Some(uid)) => write!(f, "pod {pod} ({uid})"),
            (Some(pod), None) => write!(f, "pod {pod}"),
            (None, _) => write!(f, "pod {}", self.uid),
        }
    }
}

/// An input of a rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Input {
    /// A name, an ID, a state.
    Text(String),
    /// Names.
    Texts(Vec<String>),
    /// A count, a position, an amount of bytes.
    Number(i64),
    /// Yes or no.
    Flag(bool),
    /// A point in time.
    Time(Timestamp),
    /// A duration.
    Span(Duration),
    /// An absent value: the last use of something that was never used.
    Nothing,
}

impl fmt::Display for Input {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Texts(texts) => f.write_str(&texts.join(" ")),
            Self::Number(number) => write!(f, "{number}"),
            Self::Flag(flag) => write!(f, "{flag}"),
            Self::Time(time) => write!(f, "{time}"),
            Self::Span(span) => write!(f, "{span:?}"),
            Self::Nothing => f.write_str("none"),
        }
    }
}

/// The inputs of a rule by name, in the order of their display.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Detail(pub Vec<(&'static str, Input)>);

impl Detail {
    /// Adds an input. Programs read the name, so it is one word in camel case.
    #[must_use]
    pub fn with(mut self, name: &'static str, input: Input) -> Self {
        debug_assert!(is_camel_case(name), "{name}");
        self.0.push((name, input));
        self
    }
}

fn is_camel_case(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_alphanumeric())
}

impl fmt::Display for Detail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, (name, input)) in self.0.iter().enumerate() {
            let gap = if position == 0 { "" } else { ", " };
            write!(f, "{gap}{name} {input}")?;
        }
        Ok(())
    }
}

/// A decision to remove something, with everything needed to explain it later. Ports that remove
/// objects take a verdict and nothing else, so the code cannot remove anything without a reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// The removed object.
    pub subject: Subject,
    /// Its name for users: the container's name in its pod, a name of the image; empty if it has
    /// only an ID or a path.
    pub name: Arc<str>,
    /// The pod that it belongs to, if any.
    pub owner: Option<Owner>,
    /// The rule that decided it, in kebab case; the same name everywhere.
    pub rule: &'static str,
    /// The inputs of the rule.
    pub detail: Detail,
    /// When it was decided.
    pub at: Timestamp,
}

impl Verdict {
    /// The removal of a pod from the API server, by a rule without inputs.
    pub fn of_pod(uid: &PodUid, pod: &PodName, rule: &'static str, at: Timestamp) -> Self {
        Self {
            subject: Subject::Pod(uid.clone()),
            name: "".into(),
            owner: Owner::of(uid, pod),
            rule,
            detail: Detail::default(),
            at,
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "remove {}", self.subject)?;
        if !self.name.is_empty() {
            write!(f, " {}", self.name)?;
        }
        if let Some(owner) = &self.owner {
            write!(f, " of {owner}")?;
        }
        write!(f, " by {}", self.rule)?;
        if self.detail.0.is_empty() { Ok(()) } else { write!(f, " ({})", self.detail) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn input_names_are_camel_case() {
        let rows = [("cap", true), ("minimumAge", true), ("min-age", false), ("min_age", false)];
        for (name, expected) in rows {
            assert_eq!(is_camel_case(name), expected, "{name}");
        }
        assert!(!is_camel_case("") && !is_camel_case("Cap"));
    }

    #[test]
    fn verdict_displays_subject_owner_rule_and_inputs() {
        let verdict = Verdict {
            subject: Subject::Container("c1".into()),
            name: "main".into(),
            owner: Some(Owner { uid: "u1".into(), pod: Some(PodName::new("default", "web")) }),
            rule: "per-container-cap",
            detail: Detail::default()
                .with("cap", Input::Number(1))
                .with("age", Input::Span(Duration::from_secs(90))),
            at: Timestamp::UNIX_EPOCH,
        };
        assert_eq!(
            verdict.to_string(),
            "remove container c1 main of pod default/web (u1) by per-container-cap (cap 1, age 90s)"
        );
        let bare = Verdict {
            subject: Subject::PodDirectory("/pods/u1".into()),
            name: "".into(),
            owner: Some(Owner { uid: "u1".into(), pod: None }),
            rule: "pod-is-gone",
            detail: Detail::default(),
            at: Timestamp::UNIX_EPOCH,
        };
        assert_eq!(bare.to_string(), "remove directory /pods/u1 of pod u1 by pod-is-gone");
        let owner = Some(Owner::named(PodName::new("default", "web")));
        let link = Verdict { subject: Subject::LogLink("/links/a.log".into()), owner, ..bare };
        assert_eq!(link.to_string(), "remove link /links/a.log of pod default/web by pod-is-gone");
    }
}
