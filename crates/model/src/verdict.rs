//! Why something is removed.

use std::borrow::Cow;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

use crate::cgroup::CgroupName;
use crate::ids::{ContainerId, PodName, PodUid, SandboxId};

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
    /// A volume of a pod with all that is in it, by its path.
    Volume(PathBuf),
    /// The directory of a pod's logs, by its path.
    PodLogs(PathBuf),
    /// The log of a container with its rotated parts, by its path.
    ContainerLog(PathBuf),
    /// One rotated file of a container's log, or what a crash left of one, by its path.
    RotatedLog(PathBuf),
    /// A link to a container's log, by its own path.
    LogLink(PathBuf),
    /// The cgroup of a pod.
    Cgroup(CgroupName),
    /// A pod of the API server.
    Pod(PodUid),
}

impl Subject {
    /// What sort of thing it is, in one word: `container`, `sandbox`, `image`, `pod-directory`,
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

    /// What tells it from others of its kind: an id, or a path.
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

/// Whose a thing is, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Owner {
    /// The pod's uid; empty where it is not known: the name of a link tells the pod's name alone.
    pub uid: PodUid,
    /// The pod's namespace and name; a directory tells a uid alone.
    pub pod: Option<PodName>,
}

impl Owner {
    /// The pod that something belongs to; `None` if it is nobody's.
    pub fn of(uid: &PodUid, pod: &PodName) -> Option<Self> {
        (!uid.is_nobodys()).then(|| Self { uid: uid.clone(), pod: Some(pod.clone()) })
    }

    /// A pod of which the name alone is known.
    pub fn named(pod: PodName) -> Self {
        Self { uid: PodUid::from(""), pod: Some(pod) }
    }

    /// The pod's uid, if that is known.
    pub fn known_uid(&self) -> Option<&PodUid> {
        Some(&self.uid).filter(|uid| !uid.is_nobodys())
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

/// A number or name that a rule was applied to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Input {
    /// A name, an id, a state.
    Text(String),
    /// Names.
    Texts(Vec<String>),
    /// A count, a position, an amount of bytes.
    Number(i64),
    /// Yes or no.
    Flag(bool),
    /// A moment.
    Time(Timestamp),
    /// A stretch of time.
    Span(Duration),
    /// What would be told of something that is not: the last use of what nobody ever used.
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

/// What a rule was applied to, each thing under its name, in the order in which it is told.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Detail(pub Vec<(&'static str, Input)>);

impl Detail {
    /// With one thing more. Programs read the name, so it is one word in camel case.
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

/// A decision to remove something, with all that is needed to explain it later. Ports that remove
/// take one of these and nothing else, so a removal without a reason cannot be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// What goes.
    pub subject: Subject,
    /// What people call it: the container's name in its pod, a name of the image; empty when it has
    /// none beside its id or path.
    pub name: Arc<str>,
    /// Whose it is, if it belongs to a pod.
    pub owner: Option<Owner>,
    /// The rule that says so, in kebab case; the same word wherever the rule shows.
    pub rule: &'static str,
    /// The numbers and names that the rule was applied to.
    pub detail: Detail,
    /// When it was decided.
    pub at: Timestamp,
}

impl Verdict {
    /// That a pod goes from the API server, by a rule that needs no numbers.
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
    fn names_of_inputs_are_one_word() {
        let rows = [("cap", true), ("minimumAge", true), ("min-age", false), ("min_age", false)];
        for (name, expected) in rows {
            assert_eq!(is_camel_case(name), expected, "{name}");
        }
        assert!(!is_camel_case("") && !is_camel_case("Cap"));
    }

    #[test]
    fn a_verdict_reads_as_a_sentence_with_whose_it_is_and_the_numbers_of_its_rule() {
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
