//! Whether an image must be pulled.

/// Whether an image is present, and whether the pod may use it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// Not looked up: the policy pulls in any case.
    NotLookedUp,
    /// The runtime does not have it.
    Absent,
    /// The runtime has it, and the pod may use it.
    Usable,
    /// The runtime has it, and the pod must prove by a pull that it may use it.
    Unproven,
}

/// The decision about the image of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ImageDecision {
    /// The present image is used.
    UsePresent,
    /// The image is pulled.
    Pull(PullCause),
    /// The image must not be pulled. Whether it is present is not revealed.
    Forbidden,
}

/// Why an image is pulled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PullCause {
    /// The policy is `Always`.
    Always,
    /// The runtime does not have it.
    Absent,
    /// The pod must prove that it may use it.
    Unproven,
}

impl PullCause {
    /// The rule of the pull in the journal.
    pub fn rule(self) -> &'static str {
        match self {
            Self::Always => "pull-policy-always",
            Self::Absent => "image-absent",
            Self::Unproven => "access-unproven",
        }
    }
}

/// Whether the policy needs a lookup of the image.
pub fn is_looked_for(policy: Option<&str>) -> bool {
    policy != Some("Always")
}

/// Decides by policy and presence. An image without a policy has `IfNotPresent`, as the API server sets it.
pub fn image_decision(policy: Option<&str>, presence: Presence) -> ImageDecision {
    match (policy, presence) {
        (Some("Always"), _) => ImageDecision::Pull(PullCause::Always),
        (_, Presence::Usable) => ImageDecision::UsePresent,
        (Some("Never"), _) => ImageDecision::Forbidden,
        (_, Presence::Unproven) => ImageDecision::Pull(PullCause::Unproven),
        (_, Presence::Absent | Presence::NotLookedUp) => ImageDecision::Pull(PullCause::Absent),
    }
}

/// The name with `:latest` when it has neither tag nor digest. Otherwise the name is not changed:
/// the runtime has its own default registry.
pub fn with_default_tag(image: &str) -> String {
    let last = image.rsplit('/').next().unwrap_or(image);
    if image.contains('@') || last.contains(':') {
        image.to_owned()
    } else {
        format!("{image}:latest")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // behaviour: PULL-1
    #[test]
    fn pull_policy_and_presence_decide() {
        use ImageDecision::{Forbidden, Pull, UsePresent};
        let rows = [
            (Some("Always"), Presence::NotLookedUp, Pull(PullCause::Always)),
            (Some("IfNotPresent"), Presence::Absent, Pull(PullCause::Absent)),
            (Some("IfNotPresent"), Presence::Usable, UsePresent),
            (Some("IfNotPresent"), Presence::Unproven, Pull(PullCause::Unproven)),
            (Some("Never"), Presence::Absent, Forbidden),
            (Some("Never"), Presence::Usable, UsePresent),
            (Some("Never"), Presence::Unproven, Forbidden),
            (None, Presence::Absent, Pull(PullCause::Absent)),
            (None, Presence::Usable, UsePresent),
        ];
        for (policy, presence, expected) in rows {
            assert_eq!(image_decision(policy, presence), expected, "{policy:?} {presence:?}");
        }
    }

    #[test]
    fn image_is_looked_up_where_it_makes_a_difference() {
        for policy in [Some("Always"), Some("IfNotPresent"), Some("Never"), None] {
            let decision = |presence| image_decision(policy, presence);
            let differs = decision(Presence::Absent) != decision(Presence::Usable);
            assert_eq!(is_looked_for(policy), differs, "{policy:?}");
        }
    }

    #[test]
    fn latest_is_the_default_tag() {
        let rows = [
            ("busybox", "busybox:latest"),
            ("busybox:1", "busybox:1"),
            ("reg:5000/busybox", "reg:5000/busybox:latest"),
            ("reg:5000/busybox:1", "reg:5000/busybox:1"),
            ("busybox@sha256:00", "busybox@sha256:00"),
            ("busybox:1@sha256:00", "busybox:1@sha256:00"),
        ];
        for (image, expected) in rows {
            assert_eq!(with_default_tag(image), expected);
        }
    }
}
