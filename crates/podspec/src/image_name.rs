//! Image names, as far as a default depends on them.

/// Bytes in a name with its registry.
const NAME_MAX: usize = 255;
/// What a name without a registry means.
const DEFAULT_REGISTRY: &str = "docker.io/";
/// What a name without a registry and a path means.
const DEFAULT_PATH: &str = "docker.io/library/";

/// What an image name says after its repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageName<'a> {
    /// Registry and repository, as written.
    pub repository: &'a str,
    /// Tag, if one is written.
    pub tag: Option<&'a str>,
    /// Digest, if one is written.
    pub digest: Option<&'a str>,
}

impl<'a> ImageName<'a> {
    /// Takes a name apart. No name that a registry could not serve has parts.
    pub fn parse(text: &'a str) -> Option<Self> {
        let (rest, digest) = match text.split_once('@') {
            Some((rest, digest)) if is_digest(digest) => (rest, Some(digest)),
            Some(_) => return None,
            None => (text, None),
        };
        // A colon before the last slash belongs to the port of the registry.
        let tag_at = rest.rfind(':').filter(|at| !rest[*at..].contains('/'));
        let (repository, tag) = match tag_at {
            Some(at) if is_tag(&rest[at + 1..]) => (&rest[..at], Some(&rest[at + 1..])),
            Some(_) => return None,
            None => (rest, None),
        };
        if !is_repository(repository) || is_bare_id(text) {
            return None;
        }
        Some(Self { repository, tag, digest })
    }

    /// Why a name has no parts, if so, in the words that upstream has for it.
    pub fn problem(text: &str) -> Option<String> {
        if ImageName::parse(text).is_some() {
            return None;
        }
        if is_bare_id(text) {
            return Some(format!(
                "invalid repository name ({text}), cannot specify 64-byte hexadecimal strings"
            ));
        }
        let path = match text.split_once('/') {
            Some((first, rest)) if is_registry_position(first) => rest.to_owned(),
            Some(_) => text.to_owned(),
            None => format!("library/{text}"),
        };
        let path = path.split(':').next().unwrap_or_default();
        Some(if path.chars().any(char::is_uppercase) {
            format!("invalid reference format: repository name ({path}) must be lowercase")
        } else {
            "invalid reference format".to_owned()
        })
    }

    /// Whether the name means whatever the registry calls `latest` when it is pulled.
    pub fn is_latest(&self) -> bool {
        match self.tag {
            Some(tag) => tag == "latest",
            None => self.digest.is_none(),
        }
    }

    /// The name as runtimes list it: with its registry, and with its digest or else its tag.
    pub fn in_full(&self) -> String {
        let first = self.repository.split_once('/').map(|(first, _)| first);
        let prefix = match first {
            Some(first) if is_registry_position(first) => "",
            Some(_) => DEFAULT_REGISTRY,
            None => DEFAULT_PATH,
        };
        let repository = self.repository;
        match (self.digest, self.tag) {
            (Some(digest), _) => format!("{prefix}{repository}@{digest}"),
            (None, Some(tag)) => format!("{prefix}{repository}:{tag}"),
            (None, None) => format!("{prefix}{repository}"),
        }
    }
}

/// Whether this is how runtimes call images that have no name.
fn is_bare_id(text: &str) -> bool {
    text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A registry and a path, or a path alone.
fn is_repository(text: &str) -> bool {
    let is_path = |path: &str| path.split('/').all(is_path_component);
    let with_registry = text.split_once('/').filter(|(first, _)| is_registry_position(first));
    if let Some((registry, path)) = with_registry {
        let is_name = (is_domain(registry) && is_path(path)) || is_path(text);
        return is_name && text.len() <= NAME_MAX;
    }
    let prefix = if text.contains('/') { DEFAULT_REGISTRY } else { DEFAULT_PATH };
    is_path(text) && prefix.len() + text.len() <= NAME_MAX
}

/// Whether the first component of a name is a registry and not the first part of a path.
fn is_registry_position(first: &str) -> bool {
    first.contains(['.', ':'])
        || first == "localhost"
        || first.bytes().any(|byte| byte.is_ascii_uppercase())
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

fn is_digest(text: &str) -> bool {
    let Some((algorithm, hex)) = text.split_once(':') else {
        return false;
    };
    let is_part = |part: &str| {
        part.bytes().next().is_some_and(|byte| byte.is_ascii_alphabetic())
            && part.bytes().all(|byte| byte.is_ascii_alphanumeric())
    };
    let is_length = match algorithm {
        "sha256" => hex.len() == 64,
        "sha384" => hex.len() == 96,
        "sha512" => hex.len() == 128,
        _ => hex.len() >= 32,
    };
    is_length
        && algorithm.split(['-', '_', '+', '.']).all(is_part)
        && hex.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use super::ImageName;

    const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    fn parts(text: &str) -> Option<(&str, Option<&str>, Option<&str>)> {
        ImageName::parse(text).map(|name| (name.repository, name.tag, name.digest))
    }

    #[test]
    fn names_come_apart() {
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
    fn names_in_full_have_a_registry() {
        let both = format!("a:1@{DIGEST}");
        let digested = format!("docker.io/library/a@{DIGEST}");
        let cases = [
            ("busybox", "docker.io/library/busybox"),
            ("busybox:1", "docker.io/library/busybox:1"),
            ("team/app:1", "docker.io/team/app:1"),
            ("localhost/app", "localhost/app"),
            ("localhost:5000/app:1", "localhost:5000/app:1"),
            ("registry.test/app", "registry.test/app"),
            (&both, &digested),
        ];
        for (text, expected) in cases {
            assert_eq!(ImageName::parse(text).unwrap().in_full(), expected, "{text}");
        }
    }

    #[test]
    fn what_no_registry_serves_has_no_parts() {
        let bare_id = "0123456789abcdef".repeat(4);
        let long = "a".repeat(238);
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

    // behaviour: ACT-124
    #[test]
    fn what_is_wrong_with_a_name_is_said_as_upstream_says_it() {
        let bare_id = "0123456789abcdef".repeat(4);
        let of_id = format!(
            "invalid repository name ({bare_id}), cannot specify 64-byte hexadecimal strings"
        );
        let lower = |path: &str| {
            format!("invalid reference format: repository name ({path}) must be lowercase")
        };
        let cases = [
            ("busybox", None),
            ("Registry/a", None),
            ("", Some("invalid reference format".to_owned())),
            ("a b", Some("invalid reference format".to_owned())),
            ("registry.test/a:", Some("invalid reference format".to_owned())),
            ("Upper:1", Some(lower("library/Upper"))),
            ("team/App", Some(lower("team/App"))),
            ("registry.test/Team/app:1", Some(lower("Team/app"))),
            (&bare_id, Some(of_id)),
        ];
        for (text, expected) in cases {
            assert_eq!(ImageName::problem(text), expected, "{text:?}");
        }
    }

    #[test]
    fn no_tag_and_no_digest_means_latest() {
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
