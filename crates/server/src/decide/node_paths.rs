//! Request paths, decoded and cleaned as upstream's server does.

use std::fmt::Write as _;

/// A path without percent-encoding; `None` if it is malformed or not UTF-8.
pub(super) fn decoded(path: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let [first, tail @ ..] = rest {
        rest = match (first, tail) {
            (b'%', [high, low, tail @ ..]) => {
                bytes.push(digit(*high)? << 4 | digit(*low)?);
                tail
            }
            (b'%', _) => return None,
            _ => {
                bytes.push(*first);
                tail
            }
        };
    }
    String::from_utf8(bytes).ok()
}

fn digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}

/// A path without empty segments, `.` and `..`; a trailing slash stays.
pub(super) fn clean(path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    for segment in path.split('/') {
        match segment {
            "" | "." => {}
            ".." => {
                segments.pop();
            }
            _ => segments.push(segment),
        }
    }
    let end = if path.ends_with('/') && !segments.is_empty() { "/" } else { "" };
    format!("/{}{end}", segments.join("/"))
}

/// A path with percent-encoding.
pub fn encoded(path: &str) -> String {
    let mut text = String::with_capacity(path.len());
    for byte in path.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' => {
                text.push(char::from(byte));
            }
            _ => write!(text, "%{byte:02X}").expect("a string takes every text"),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_is_decoded_or_refused() {
        let rows = [
            ("/pods", Some("/pods")),
            ("/po%64s%2fx", Some("/pods/x")),
            ("/%", None),
            ("/%a", None),
            ("/%zz", None),
            ("/%ff", None),
            ("/%25", Some("/%")),
        ];
        for (path, expected) in rows {
            assert_eq!(decoded(path).as_deref(), expected, "{path}");
        }
    }

    #[test]
    fn path_is_cleaned() {
        let rows = [
            ("/", "/"),
            ("//", "/"),
            ("/pods/", "/pods/"),
            ("//pods//x", "/pods/x"),
            ("/healthz/../exec/a/./b/", "/exec/a/b/"),
            ("/../../x", "/x"),
            ("/..", "/"),
        ];
        for (path, expected) in rows {
            assert_eq!(clean(path), expected, "{path}");
            assert_eq!(clean(expected), expected);
        }
    }

    #[test]
    fn encoding_is_reversible() {
        let path = "/a b/ü%/?#";
        assert_eq!(encoded(path), "/a%20b/%C3%BC%25/%3F%23");
        assert_eq!(decoded(&encoded(path)).as_deref(), Some(path));
    }
}
