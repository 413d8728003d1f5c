//! Parses and validates image names, by the rules of registries and with upstream's messages.

/// The maximum length of a name without its registry.
const NAME_MAX: usize = 255;
/// The registry of a name without one.
const DEFAULT_REGISTRY: &str = "docker.io";
/// The former name of the same registry.
const OLD_DEFAULT_REGISTRY: &str = "index.docker.io";

/// The parts of an image name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageName<'a> {
    /// Registry and repository, as written.
    pub repository: &'a str,
    /// Tag, if one is written.
    pub tag: Option<&'a str>,
    /// Digest, if one is written.
    pub digest: Option<&'a str>,
}

/// Why a text is not an image name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ImageNameError {
    /// It is an image id.
    #[error("invalid repository name ({0}), cannot specify 64-byte hexadecimal strings")]
    Id(String),
    /// Its path has upper-case letters.
    #[error("invalid reference format: repository name ({0}) must be lowercase")]
    PathCase(String),
    /// It would be valid in lower case.
    #[error("repository name must be lowercase")]
    Case,
    /// It is malformed.
    #[error("invalid reference format")]
    Format,
    /// It is too long.
    #[error("repository name must not be more than {NAME_MAX} characters")]
    TooLong,
    /// Its digest is malformed.
    #[error("invalid checksum digest format")]
    DigestFormat,
    /// Its digest is too long or too short.
    #[error("invalid checksum digest length")]
    DigestLength,
    /// Its digest algorithm is unknown.
    #[error("unsupported digest algorithm")]
    DigestAlgorithm,
}

impl<'a> ImageName<'a> {
    /// Parses a name; `None` if no registry could serve it.
    pub fn parse(text: &'a str) -> Option<Self> {
        Self::read(text).ok()
    }

    /// Parses a name, or returns why it is invalid.
    pub fn read(text: &'a str) -> Result<Self, ImageNameError> {
        if text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(ImageNameError::Id(text.to_owned()));
        }
        let (registry, path) = in_registry(text);
        let before_tag = path.split(':').next().unwrap_or_default();
        if before_tag.to_lowercase() != before_tag {
            return Err(ImageNameError::PathCase(before_tag.to_owned()));
        }
        let full = format!("{registry}/{path}");
        let Some(path) = path_of(&full) else {
            let in_lower_case = path_of(&full.to_lowercase()).is_some();
            return Err(if in_lower_case { ImageNameError::Case } else { ImageNameError::Format });
        };
        if path.len() > NAME_MAX {
            return Err(ImageNameError::TooLong);
        }
        let parts = Self::split(text);
        parts.digest.map_or(Ok(()), check_digest)?;
        Ok(parts)
    }

    /// The parts of a text that may be invalid.
    fn split(text: &'a str) -> Self {
        let (rest, digest) =
            text.split_once('@').map_or((text, None), |(rest, digest)| (rest, Some(digest)));
        // A colon before the last slash belongs to the port of the registry.
        let tag_at = rest.rfind(':').filter(|at| !rest[*at..].contains('/'));
        let (repository, tag) =
            tag_at.map_or((rest, None), |at| (&rest[..at], Some(&rest[at + 1..])));
        Self { repository, tag, digest }
    }

    /// Whether the name refers to the current `latest` of the registry.
    pub fn is_latest(&self) -> bool {
        match self.tag {
            Some(tag) => tag == "latest",
            None => self.digest.is_none(),
        }
    }

    /// The name as runtimes list it: with its registry, and with its digest or else its tag.
    pub fn in_full(&self) -> String {
        let (registry, path) = in_registry(self.repository);
        match (self.digest, self.tag) {
            (Some(digest), _) => format!("{registry}/{path}@{digest}"),
            (None, Some(tag)) => format!("{registry}/{path}:{tag}"),
            (None, None) => format!("{registry}/{path}"),
        }
    }
}

/// The registry of a name, and the rest of the name there.
fn in_registry(text: &str) -> (&str, String) {
    let (registry, path) = match text.split_once('/') {
        Some((OLD_DEFAULT_REGISTRY, rest)) => (DEFAULT_REGISTRY, rest),
        Some((first, rest)) if is_registry_position(first) => (first, rest),
        _ => (DEFAULT_REGISTRY, text),
    };
    let is_short = registry == DEFAULT_REGISTRY && !path.contains('/');
    (registry, if is_short { format!("library/{path}") } else { path.to_owned() })
}

/// Whether the first component of a name is a registry rather than the first part of a path.
fn is_registry_position(first: &str) -> bool {
    first.contains(['.', ':']) || first == "localhost" || first.to_lowercase() != first
}

/// The path of a name with its registry, if it is well formed.
fn path_of(full: &str) -> Option<&str> {
    let ImageName { repository, tag, digest } = ImageName::split(full);
    if !(tag.is_none_or(is_tag) && digest.is_none_or(is_digest)) {
        return None;
    }
    let is_path = |path: &str| path.split('/').all(is_path_component);
    match repository.split_once('/') {
        Some((registry, path)) if is_domain(registry) && is_path(path) => Some(path),
        _ => is_path(repository).then_some(repository),
    }
}

fn is_domain(text: &str) -> bool {
    let (host, port) = if text.starts_with('[') {
        match text.split_once(']') {
            Some((host, "")) => (host, None),
            Some((host, port)) => match port.strip_prefix(':') {
                Some(port) => (host, Some(port)),
                None => return false,
            },
            None => return false,
        }
    } else {
        match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        }
    };
    let is_host = match host.strip_prefix('[') {
        Some(address) => {
            !address.is_empty()
                && address.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b':')
        }
        None => host.split('.').all(is_domain_component),
    };
    let is_port =
        port.is_none_or(|port| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()));
    is_host && is_port
}

fn is_domain_component(text: &str) -> bool {
    !text.is_empty()
        && !text.starts_with('-')
        && !text.ends_with('-')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Lower-case words joined by one dot, one or two underscores, or dashes.
fn is_path_component(text: &str) -> bool {
    let is_word = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = text.as_bytes();
    if !bytes.first().is_some_and(is_word) || !bytes.last().is_some_and(is_word) {
        return false;
    }
    bytes
        .split(is_word)
        .filter(|joint| !joint.is_empty())
        .all(|joint| matches!(joint, b"." | b"_" | b"__") || joint.iter().all(|byte| *byte == b'-'))
}

fn is_tag(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    text.len() <= 128
        && text.bytes().next().is_some_and(is_word)
        && text.bytes().all(|byte| is_word(byte) || matches!(byte, b'.' | b'-'))
}

/// Whether it is a digest by its form.
fn is_digest(text: &str) -> bool {
    let Some((algorithm, hex)) = text.split_once(':') else {
        return false;
    };
    let is_part = |part: &str| {
        part.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic())
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    hex.len() >= 32
        && algorithm.split(['-', '_', '+', '.']).all(is_part)
        && hex.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// Checks algorithm and length of a digest.
fn check_digest(text: &str) -> Result<(), ImageNameError> {
    let has_upper_case = |text: &str| text.bytes().any(|byte| byte.is_ascii_uppercase());
    let (algorithm, hex) = text.split_once(':').unwrap_or_default();
    let length = match algorithm {
        "sha256" => 64,
        "sha384" => 96,
        "sha512" => 128,
        _ if has_upper_case(algorithm) => return Err(ImageNameError::DigestFormat),
        _ => return Err(ImageNameError::DigestAlgorithm),
    };
    if hex.len() != length {
        Err(ImageNameError::DigestLength)
    } else if has_upper_case(hex) {
        Err(ImageNameError::DigestFormat)
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::{ImageName, ImageNameError};

    const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn parts(text: &str) -> Option<(&str, Option<&str>, Option<&str>)> {
        ImageName::parse(text).map(|name| (name.repository, name.tag, name.digest))
    }

    #[test]
    fn names_are_parsed() {
        let digested = format!("a@{DIGEST}");
        let both = format!("a:1@{DIGEST}");
        let cases = [
            ("busybox", Some(("busybox", None, None))),
            ("busybox:1.36", Some(("busybox", Some("1.36"), None))),
            ("localhost:5000/a", Some(("localhost:5000/a", None, None))),
            ("localhost:5000/a/b:v1", Some(("localhost:5000/a/b", Some("v1"), None))),
            ("[::1]:5000/a:v1", Some(("[::1]:5000/a", Some("v1"), None))),
            ("Registry/a", Some(("Registry/a", None, None))),
            ("a.b-c__d/e_f", Some(("a.b-c__d/e_f", None, None))),
            (&digested, Some(("a", None, Some(DIGEST)))),
            (&both, Some(("a", Some("1"), Some(DIGEST)))),
        ];
        for (text, expected) in cases {
            assert_eq!(parts(text), expected, "{text}");
        }
    }

    #[test]
    fn full_names_have_a_registry() {
        let both = format!("a:1@{DIGEST}");
        let digested = format!("docker.io/library/a@{DIGEST}");
        let cases = [
            ("busybox", "docker.io/library/busybox"),
            ("busybox:1", "docker.io/library/busybox:1"),
            ("team/app:1", "docker.io/team/app:1"),
            ("localhost/app", "localhost/app"),
            ("localhost:5000/app:1", "localhost:5000/app:1"),
            ("registry.test/app", "registry.test/app"),
            ("docker.io/busybox", "docker.io/library/busybox"),
            ("index.docker.io/team/app", "docker.io/team/app"),
            (&both, &digested),
        ];
        for (text, expected) in cases {
            assert_eq!(ImageName::parse(text).unwrap().in_full(), expected, "{text}");
        }
    }

    #[test]
    fn invalid_names_are_rejected() {
        let bare_id = "0123456789abcdef".repeat(4);
        let long = "a".repeat(248);
        let cases = [
            "",
            " ",
            "a b",
            "Upper",
            "a:",
            ":a",
            "a@",
            "a@sha256:12",
            "a:b:c",
            "a//b",
            "a/",
            "/a",
            "-a",
            "a-",
            "a___b",
            "a..b",
            "host:port/a",
            "a:-tag",
            "[::1/a",
            &bare_id,
            &long,
        ];
        for text in cases {
            assert_eq!(parts(text), None, "{text:?}");
        }
    }

    // behaviour: ACT-79
    #[test]
    fn invalid_names_have_upstream_errors() {
        use ImageNameError::{
            Case, DigestAlgorithm, DigestFormat, DigestLength, Format, Id, PathCase, TooLong,
        };
        let id = "0123456789abcdef".repeat(4);
        let long = format!("registry.test/{}", "a".repeat(256));
        let hex = |algorithm: &str, length| format!("a@{algorithm}:{}", "0".repeat(length));
        let rows = [
            (id.clone(), Id(id)),
            ("Upper".to_owned(), PathCase("library/Upper".to_owned())),
            ("host/Upper:1".to_owned(), PathCase("host/Upper".to_owned())),
            ("HOST..test/a".to_owned(), Format),
            ("HOST_x/a".to_owned(), Case),
            ("a:b:c".to_owned(), Format),
            ("a@sha256:12".to_owned(), Format),
            (long, TooLong),
            (hex("sha256", 63), DigestLength),
            (hex("sha512", 64), DigestLength),
            (hex("md5", 32), DigestAlgorithm),
            (hex("SHA256", 64), PathCase("library/a@SHA256".to_owned())),
            (format!("a:1@SHA256:{}", "0".repeat(64)), DigestFormat),
            (format!("a@sha256:{}", "A".repeat(64)), DigestFormat),
        ];
        for (text, expected) in rows {
            assert_eq!(ImageName::read(&text), Err(expected), "{text}");
        }
        let at_the_limit = format!("registry.test/{}", "a".repeat(255));
        assert!(ImageName::parse(&at_the_limit).is_some());
    }

    #[test]
    fn name_without_tag_and_digest_is_latest() {
        let digested = format!("a@{DIGEST}");
        let tagged = format!("a:latest@{DIGEST}");
        let cases = [
            ("a", true),
            ("a:latest", true),
            ("a:1", false),
            (&digested, false),
            (&tagged, true),
            ("localhost:5000/a", true),
        ];
        for (text, expected) in cases {
            let name = ImageName::parse(text).unwrap();
            assert_eq!(name.is_latest(), expected, "{text}");
        }
    }
}
