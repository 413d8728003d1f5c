//! Patterns of registries and images, as keys of docker configurations and `matchImages` have them.

use std::net::Ipv6Addr;

/// A pattern, or the name of an image without a tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegistryPattern {
    host: String,
    port: Option<String>,
    path: String,
}

impl RegistryPattern {
    /// Parses a pattern without a scheme; `None` if it is not a host with a path.
    pub fn parse(text: &str) -> Option<Self> {
        let end = text.find(['?', '#']).unwrap_or(text.len());
        let text = &text[..end];
        let (authority, path) = text.split_at(text.find('/').unwrap_or(text.len()));
        let authority = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        let (host, port) = split_port(authority)?;
        is_host(host).then_some(())?;
        let (host, port) = (host.to_owned(), port.map(str::to_owned));
        Some(Self { host, port, path: percent_decoded(path)? })
    }

    /// Whether this pattern matches an image. Each part of the host may have shell wildcards, which span no dot; the
    /// path is a plain prefix.
    pub fn matches(&self, image: &Self) -> bool {
        let (own, other) = (self.host.split('.'), image.host.split('.'));
        self.port == image.port
            && own.clone().count() == other.clone().count()
            && image.path.starts_with(&self.path)
            && own.zip(other).all(|(pattern, part)| matches_part(pattern, part))
    }
}

/// Whether a pattern matches an image. A malformed one matches nothing.
pub fn matches_image(pattern: &str, image: &str) -> bool {
    let (pattern, image) = (RegistryPattern::parse(pattern), RegistryPattern::parse(image));
    pattern.zip(image).is_some_and(|(pattern, image)| pattern.matches(&image))
}

/// Host and port. Brackets may only enclose an IPv6 address, so there are no character classes. An IPv6 address without
/// a port is refused, like upstream.
fn split_port(authority: &str) -> Option<(&str, Option<&str>)> {
    let (host, port) = authority.rsplit_once(':').unwrap_or((authority, ""));
    let host = match host.strip_prefix('[') {
        Some(rest) => rest.strip_suffix(']').filter(|address| is_ipv6(address))?,
        None => Some(host).filter(|host| !host.contains(['[', ':']))?,
    };
    let is_port = port.bytes().all(|byte| byte.is_ascii_digit());
    is_port.then_some((host, Some(port).filter(|port| !port.is_empty())))
}

fn is_ipv6(address: &str) -> bool {
    address.parse::<Ipv6Addr>().is_ok()
}

/// Whether a URL may have this host; wildcards are allowed there.
fn is_host(host: &str) -> bool {
    let is_mark = |byte: u8| b"-_.~!$&'()*+,;=:]<>\"".contains(&byte);
    host.bytes().all(|byte| !byte.is_ascii() || byte.is_ascii_alphanumeric() || is_mark(byte))
}

/// The path with `%` escapes resolved; `None` if one is malformed.
fn percent_decoded(path: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digit = |byte: u8| char::from(byte).to_digit(16);
            let (high, low) = (digit(rest.next()?)?, digit(rest.next()?)?);
            bytes.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

/// Matches one part of a host against a shell pattern of `*` and `?`.
fn matches_part(pattern: &str, part: &str) -> bool {
    let (pattern, part): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), part.chars().collect());
    let (mut at, mut read) = (0, 0);
    // The last star, and where the text that it stands for ends: it takes one character more after each mismatch.
    let mut star: Option<(usize, usize)> = None;
    loop {
        if pattern.get(at) == Some(&'*') {
            star = Some((at + 1, read));
            at += 1;
            continue;
        }
        let is_step = match (pattern.get(at), part.get(read)) {
            (Some('?'), Some(_)) => true,
            (Some(own), Some(other)) => own == other,
            _ => false,
        };
        if is_step {
            (at, read) = (at + 1, read + 1);
            continue;
        }
        if at == pattern.len() && read == part.len() {
            return true;
        }
        let Some((after, taken)) = star.filter(|(_, taken)| *taken < part.len()) else {
            return false;
        };
        star = Some((after, taken + 1));
        (at, read) = (after, taken + 1);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    // behaviour: PULL-21
    #[test]
    fn patterns_match_hosts_by_parts_ports_exactly_and_paths_by_prefix() {
        let rows = [
            ("*.kubernetes.io", "prefix.kubernetes.io", true),
            ("*.kubernetes.io", "kubernetes.io", false),
            ("*.*.kubernetes.io", "prefix.kubernetes.io", false),
            ("*.*.kubernetes.io", "a.b.kubernetes.io", true),
            ("*kubernetes.io", "a.kubernetes.io", false),
            ("*kubernetes.io", "my-kubernetes.io/a", true),
            ("prefix.*.io", "prefix.kubernetes.io", true),
            ("prefix.*.io/foo", "prefix.kubernetes.io/foo/bar", true),
            ("prefix.*.io/foo", "prefix.kubernetes.io/foobar", true),
            ("prefix.*.io/foo", "prefix.kubernetes.io/bar", false),
            ("*.kubernetes.io/blah", "prefix.kubernetes.io", false),
            ("*.kubernetes.io:1234/blah", "prefix.kubernetes.io:1111/blah", false),
            ("*.kubernetes.io:1234/blah", "prefix.kubernetes.io:1234/blah/x", true),
            ("kubernetes.io", "kubernetes.io:443", false),
            ("kubernetes.io:443", "kubernetes.io", false),
            ("kubernetes.*", "kubernetes.io", true),
            ("*", "localhost/a", true),
            ("*", "kubernetes.io/a", false),
            ("pre?ix.io", "prefix.io", false),
            ("[a-c]*.io", "bcd.io", false),
            ("x[a-c].io", "xa.io", false),
            ("[a-.io", "a.io", false),
            ("*-*.io", "a-b-c.io", true),
            ("*-d.io", "a-b-c.io", false),
            ("[::1]:5000", "[::1]:5000/a", true),
            ("r.io/*", "r.io/a", false),
            ("r.io/a%20b", "r.io/a b", true),
            ("r .io", "r .io", false),
            ("", "r.io", false),
        ];
        for (pattern, image, expected) in rows {
            assert_eq!(matches_image(pattern, image), expected, "{pattern} {image}");
        }
    }

    proptest! {
        // behaviour: PULL-21
        #[test]
        fn host_matches_itself_and_its_subdomains(
            host in "[a-z]{1,5}(\\.[a-z]{1,5}){0,3}(:[0-9]{1,4})?",
            path in "(/[a-z]{1,3}){0,3}",
        ) {
            let image = format!("{host}{path}");
            prop_assert!(matches_image(&host, &image));
            prop_assert!(matches_image(&image, &image));
            let more = format!("more.{host}");
            prop_assert!(!matches_image(&host, &more));
        }

        // behaviour: PULL-21
        #[test]
        fn stars_match_as_a_recursive_matcher_does(pattern in "[ab*]{0,6}", part in "[ab]{0,6}") {
            fn simple(pattern: &[u8], part: &[u8]) -> bool {
                match pattern.split_first() {
                    None => part.is_empty(),
                    Some((b'*', rest)) => (0..=part.len()).any(|at| simple(rest, &part[at..])),
                    Some((c, rest)) => part.first() == Some(c) && simple(rest, &part[1..]),
                }
            }
            prop_assert_eq!(matches_part(&pattern, &part), simple(pattern.as_bytes(), part.as_bytes()));
        }
    }
}
