//! The hash that compares a running container with its definition.
//!
//! It is stored on the container in the runtime, so it must be the same in every version of the
//! agent, and the same as the kubelet's: replacing the agent must not restart all containers.

use std::fmt::Write as _;

use crate::fnv::fnv1a_32;

/// The hash of a container's definition. Only its name and image are included: a change of other fields
/// does not restart a running container.
///
/// The kubelet hashes a dump of the bytes of a JSON object, so this does too: FNV-1a 32 over
/// `([]uint8)[123 34 …]`.
pub fn definition_hash(name: &str, image: &str) -> u32 {
    let mut json = String::from(r#"{"image":"#);
    push_go_json_string(&mut json, image);
    json.push_str(r#","name":"#);
    push_go_json_string(&mut json, name);
    json.push('}');

    let bytes: Vec<String> = json.bytes().map(|byte| byte.to_string()).collect();
    fnv1a_32(format!("([]uint8)[{}]", bytes.join(" ")).as_bytes())
}

/// [`definition_hash`] as it is stored on the container.
pub fn definition_hash_hex(name: &str, image: &str) -> String {
    format!("{:x}", definition_hash(name, image))
}

/// A JSON string as written by Go's encoder, which also escapes characters that are special in HTML and
/// JavaScript.
fn push_go_json_string(out: &mut String, text: &str) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\0'..='\u{1f}' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                write!(out, "\\u{:04x}", u32::from(c)).expect("writing to a string cannot fail");
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::{definition_hash, definition_hash_hex, push_go_json_string};

    #[test]
    fn hash_equals_that_of_the_kubelet() {
        assert_eq!(definition_hash_hex("test_container", "foo/image:v1"), "8e45cbd0");
    }

    #[test]
    fn hash_depends_on_name_and_image() {
        let hash = definition_hash("a", "b");
        assert_ne!(hash, definition_hash("a", "c"));
        assert_ne!(hash, definition_hash("c", "b"));
        assert_ne!(hash, definition_hash("b", "a"));
    }

    #[test]
    fn json_is_escaped_like_go() {
        let cases = [
            ("plain:v1", r#""plain:v1""#),
            ("<a>&b", r#""\u003ca\u003e\u0026b""#),
            ("line\u{2028}paragraph\u{2029}", r#""line\u2028paragraph\u2029""#),
            ("\"\\\n\r\t\u{8}\u{c}", r#""\"\\\n\r\t\b\f""#),
            ("\u{1}\u{1f}\u{7f}", "\"\\u0001\\u001f\u{7f}\""),
            ("größe", r#""größe""#),
        ];
        for (text, expected) in cases {
            let mut out = String::new();
            push_go_json_string(&mut out, text);
            assert_eq!(out, expected, "{text:?}");
        }
    }
}
