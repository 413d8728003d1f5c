//! Removes values that differ in each run from objects and messages: generated names, addresses and
//! times.

use std::net::Ipv4Addr;

use serde_json::Value;

use crate::differences::is_time;

/// Writers are compared elsewhere; the values differ each time.
const LEFT_OUT: [&str; 2] = ["managedFields", "resourceVersion"];

/// Replaces generated values.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Normalizer {
    /// The address of the node, which is not the address of a pod.
    pub(crate) node_ip: Ipv4Addr,
}

impl Normalizer {
    /// A text with placeholders for generated values.
    pub(crate) fn text(self, text: &str) -> String {
        let mut plain = String::new();
        let mut rest = text;
        while let Some(next) = rest.chars().next() {
            let is_begin = !plain.ends_with(|before: char| before.is_ascii_alphanumeric());
            let found = if is_begin { self.made_up(rest) } else { None };
            // Image digests are the same in all runs.
            let found = found.filter(|(_, name)| *name != "ID" || !plain.ends_with("sha256:"));
            let length = if let Some((length, name)) = found {
                plain.push_str(name);
                length
            } else {
                plain.push(next);
                next.len_utf8()
            };
            rest = &rest[length..];
        }
        plain
    }

    /// The length of a generated value at the beginning of a text, and its placeholder.
    fn made_up(self, text: &str) -> Option<(usize, &'static str)> {
        let is_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        let digits = text.bytes().take_while(is_hex).count();
        let ends = |length: usize| !text[length..].starts_with(|c: char| c.is_ascii_alphanumeric());
        match digits {
            64 if ends(64) => return Some((64, "ID")),
            32 if ends(32) => return Some((32, "HASH")),
            8 => {
                let is_uid = |text: &str| {
                    let parts: Vec<usize> = text.split('-').map(str::len).collect();
                    parts == [8, 4, 4, 4, 12] && text.bytes().all(|b| b == b'-' || is_hex(&b))
                };
                if text.get(..36).is_some_and(is_uid) && ends(36) {
                    return Some((36, "UID"));
                }
            }
            _ => {}
        }
        let address = text.split(|c: char| !c.is_ascii_digit() && c != '.').next()?;
        let address = address.trim_end_matches('.');
        let is_own = address.parse::<Ipv4Addr>().ok()? == self.node_ip;
        let name = if is_own { "NODE-IP" } else { "POD-IP" };
        // Loopback addresses are the same everywhere.
        (!address.starts_with("127.")).then_some((address.len(), name))
    }

    /// An object without values that differ each time.
    pub(crate) fn object(self, value: &Value) -> Value {
        match value {
            Value::Object(map) => {
                let kept = map.iter().filter(|(key, _)| !LEFT_OUT.contains(&key.as_str()));
                let plain = kept.map(|(key, inner)| {
                    let inner = match inner {
                        Value::String(time) if is_time(key) => when(time).into(),
                        other => self.object(other),
                    };
                    (key.clone(), inner)
                });
                Value::Object(plain.collect())
            }
            Value::Array(list) => list.iter().map(|inner| self.object(inner)).collect(),
            Value::String(text) => self.text(text).into(),
            other => other.clone(),
        }
    }

    /// A file without the generated name of a termination message file.
    pub(crate) fn file(self, line: &str) -> String {
        let line = self.text(line);
        let (path, rest) = line.split_once(' ').unwrap_or((&line, ""));
        let (directory, name) = path.rsplit_once('/').unwrap_or(("", path));
        let is_made_up = name.len() == 8 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
        if is_made_up && directory.contains("containers/") {
            format!("{directory}/MADE-UP {rest}")
        } else {
            line
        }
    }
}

/// Replaces a time: all times are equal, except a missing one.
fn when(time: &str) -> &'static str {
    if time.starts_with("1970-01-01") { "the epoch" } else { "a time" }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const NORMALIZER: Normalizer = Normalizer { node_ip: Ipv4Addr::new(10, 1, 2, 3) };

    #[test]
    fn generated_names_are_replaced_in_texts() {
        let id = "0123456789abcdef".repeat(4);
        let uid = "01234567-89ab-cdef-0123-456789abcdef";
        let cases = [
            (format!("containerd://{id}"), "containerd://ID".to_owned()),
            (format!("web_shop_main-{id}.log"), "web_shop_main-ID.log".to_owned()),
            (format!("ferrolet.test/x@sha256:{id}"), format!("ferrolet.test/x@sha256:{id}")),
            (format!("pod=web_shop({uid})"), "pod=web_shop(UID)".to_owned()),
            (format!("shop_web_{}", &id[..32]), "shop_web_HASH".to_owned()),
            (format!("{id}0"), format!("{id}0")),
            ("10.1.2.3 and 10.1.2.30.".to_owned(), "NODE-IP and POD-IP.".to_owned()),
            ("127.0.0.1:1, v1.36.3".to_owned(), "127.0.0.1:1, v1.36.3".to_owned()),
            ("Started container main".to_owned(), "Started container main".to_owned()),
        ];
        for (input, plain) in cases {
            assert_eq!(NORMALIZER.text(&input), plain);
        }
    }

    #[test]
    fn chosen_file_names_are_kept() {
        let file = |line| NORMALIZER.file(line);
        assert_eq!(file("containers/main/1a2b3c4d f 644 "), "containers/main/MADE-UP f 644 ");
        assert_eq!(file("main/0.log f 640 "), "main/0.log f 640 ");
        assert_eq!(file("main d 755 "), "main d 755 ");
    }

    #[test]
    fn times_in_objects_become_placeholders() {
        let input = json!({
            "metadata": { "resourceVersion": "7", "managedFields": [{}], "name": "web" },
            "podIP": "10.9.0.1",
            "startTime": "2026-01-01T00:00:00Z",
            "startedAt": "1970-01-01T00:00:00Z",
            "conditions": [{ "type": "Ready" }, { "type": "Initialized", "lastProbeTime": null }],
        });
        let plain = json!({
            "metadata": { "name": "web" },
            "podIP": "POD-IP",
            "startTime": "a time",
            "startedAt": "the epoch",
            "conditions": [{ "type": "Ready" }, { "type": "Initialized", "lastProbeTime": null }],
        });
        assert_eq!(NORMALIZER.object(&input), plain);
    }
}
