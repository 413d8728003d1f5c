//! For which images pods must prove their access.

use config::ImagePullCredentialsVerificationPolicy;
use podspec::image_name::ImageName;

/// For which images pods must prove their access: `imagePullCredentialsVerificationPolicy`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VerificationPolicy {
    /// For none.
    Never,
    /// For those that the agent has pulled.
    NeverPreloaded,
    /// For images that are not on the list.
    NeverAllowlisted(Allowlist),
    /// For all.
    Always,
}

impl VerificationPolicy {
    /// The policy of a configuration.
    pub fn new(policy: ImagePullCredentialsVerificationPolicy, allowlist: &[String]) -> Self {
        use ImagePullCredentialsVerificationPolicy as Policy;
        match policy {
            Policy::NeverVerify => Self::Never,
            Policy::NeverVerifyPreloadedImages => Self::NeverPreloaded,
            Policy::NeverVerifyAllowlistedImages => {
                Self::NeverAllowlisted(Allowlist::new(allowlist))
            }
            Policy::AlwaysVerify => Self::Always,
        }
    }

    /// Whether a pod must prove its access to an image with this full name without a tag.
    pub fn verifies(&self, repository: &str, is_pulled_by_agent: bool) -> bool {
        match self {
            Self::Never => false,
            Self::NeverPreloaded => is_pulled_by_agent,
            Self::NeverAllowlisted(allowlist) => !allowlist.has(repository),
            Self::Always => true,
        }
    }
}

/// Images that every pod may use: `preloadedImagesVerificationAllowlist`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Allowlist {
    names: Vec<String>,
    /// With the slash at the end.
    prefixes: Vec<String>,
}

impl Allowlist {
    fn new(entries: &[String]) -> Self {
        let mut allowlist = Self::default();
        for entry in entries {
            match entry.strip_suffix('*') {
                Some(prefix) => allowlist.prefixes.push(prefix.to_owned()),
                None => allowlist.names.push(repository(entry).unwrap_or_else(|| entry.clone())),
            }
        }
        allowlist
    }

    fn has(&self, repository: &str) -> bool {
        self.names.iter().any(|name| name == repository)
            || self.prefixes.iter().any(|prefix| repository.starts_with(prefix))
    }
}

/// The full name of an image without tag and digest, such as `docker.io/library/busybox`; `None` for an invalid
/// name.
pub fn repository(image: &str) -> Option<String> {
    let name = ImageName::parse(image)?;
    Some(ImageName { tag: None, digest: None, ..name }.in_full())
}

#[cfg(test)]
mod tests {
    use super::*;

    // behaviour: PULL-31
    #[test]
    fn policy_decides_by_origin_and_allowlist() {
        use ImagePullCredentialsVerificationPolicy as Policy;
        let list = ["busybox", "r.io/team/*", "r.io/one"].map(str::to_owned);
        let (hub, team) = ("docker.io/library/busybox", "r.io/team/a");
        let rows = [
            (Policy::NeverVerify, team, true, false),
            (Policy::NeverVerifyPreloadedImages, team, true, true),
            (Policy::NeverVerifyPreloadedImages, team, false, false),
            (Policy::AlwaysVerify, team, false, true),
            (Policy::NeverVerifyAllowlistedImages, team, true, false),
            (Policy::NeverVerifyAllowlistedImages, "r.io/team", false, true),
            (Policy::NeverVerifyAllowlistedImages, "r.io/team2/a", false, true),
            (Policy::NeverVerifyAllowlistedImages, hub, true, false),
            (Policy::NeverVerifyAllowlistedImages, "r.io/one", true, false),
            (Policy::NeverVerifyAllowlistedImages, "r.io/one/more", false, true),
        ];
        for (policy, image, is_pulled, expected) in rows {
            let policy = VerificationPolicy::new(policy, &list);
            assert_eq!(policy.verifies(image, is_pulled), expected, "{policy:?} {image}");
        }
    }

    #[test]
    fn repository_is_the_full_name_without_tag_and_digest() {
        let digest = "0123456789abcdef".repeat(4);
        let rows = [
            ("busybox".to_owned(), Some("docker.io/library/busybox")),
            ("team/web:1".to_owned(), Some("docker.io/team/web")),
            ("localhost:5000/a:1".to_owned(), Some("localhost:5000/a")),
            (format!("r.io/a:1@sha256:{digest}"), Some("r.io/a")),
            ("UPPER/a".to_owned(), Some("UPPER/a")),
            ("r.io/UPPER".to_owned(), None),
        ];
        for (image, expected) in rows {
            assert_eq!(repository(&image).as_deref(), expected, "{image}");
        }
    }
}
