//! The formats of names, keys and other texts in the API.
//!
//! Each function returns the errors of a text; the list of a valid text is empty. The errors
//! are the API's, with its regular expressions, though none is evaluated here.

const LABEL_MAX: usize = 63;
const SUBDOMAIN_MAX: usize = 253;
const PORT_NAME_MAX: usize = 15;

const LABEL_FORMAT: &str = "[a-z0-9]([-a-z0-9]*[a-z0-9])?";
const SUBDOMAIN_FORMAT: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const UNDERSCORE_FORMAT: &str =
    r"_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*";
const KEY_NAME_FORMAT: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";
const LABEL_VALUE_FORMAT: &str = "(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?";

const LABEL_RULE: &str = "a lowercase RFC 1123 label must consist of lower case alphanumeric \
    characters or '-', and must start and end with an alphanumeric character";
const SUBDOMAIN_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case \
    alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";
const UNDERSCORE_RULE: &str = "a lowercase RFC 1123 subdomain must consist of lower case \
    alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric \
    character";
const KEY_NAME_RULE: &str = "must consist of alphanumeric characters, '-', '_' or '.', and must \
    start and end with an alphanumeric character";
const LABEL_VALUE_RULE: &str = "a valid label must be an empty string or consist of alphanumeric \
    characters, '-', '_' or '.', and must start and end with an alphanumeric character";

fn by_format(rule: &str, examples: &[&str], format: &str) -> String {
    let examples: Vec<String> = examples.iter().map(|example| format!("'{example}', ")).collect();
    let examples = examples.join(" or ");
    if examples.is_empty() {
        format!("{rule} (regex used for validation is '{format}')")
    } else {
        format!("{rule} (e.g. {examples}regex used for validation is '{format}')")
    }
}

fn characters_at_most(limit: usize) -> String {
    format!("must be no more than {limit} characters")
}

fn bytes_at_most(limit: usize) -> String {
    format!("must be no more than {limit} bytes")
}

/// The error of a number outside an inclusive range.
pub fn between(low: i64, high: i64) -> String {
    format!("must be between {low} and {high}, inclusive")
}

/// Whether all bytes match `inner`, and the first and last also match `outer`.
fn enclosed(text: &str, outer: fn(u8) -> bool, inner: fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    match (bytes.first(), bytes.last()) {
        (Some(first), Some(last)) => {
            outer(*first) && outer(*last) && bytes.iter().all(|byte| inner(*byte))
        }
        _ => false,
    }
}

fn is_lower(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

fn is_label(text: &str) -> bool {
    enclosed(text, is_lower, |byte| is_lower(byte) || byte == b'-')
}

fn is_subdomain(text: &str) -> bool {
    text.split('.').all(is_label)
}

fn is_key_name(text: &str) -> bool {
    enclosed(
        text,
        |byte| byte.is_ascii_alphanumeric(),
        |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'),
    )
}

/// DNS label, as container and volume names are.
pub fn dns_label(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > LABEL_MAX {
        wrong.push(characters_at_most(LABEL_MAX));
    }
    if !is_label(text) {
        wrong.push(if is_subdomain(text) {
            "must not contain dots".to_owned()
        } else {
            by_format(LABEL_RULE, &["my-name", "123-abc"], LABEL_FORMAT)
        });
    }
    wrong
}

/// DNS subdomain, as pod names are.
pub fn dns_subdomain(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > SUBDOMAIN_MAX {
        wrong.push(characters_at_most(SUBDOMAIN_MAX));
    }
    if !is_subdomain(text) {
        wrong.push(by_format(SUBDOMAIN_RULE, &["example.com"], SUBDOMAIN_FORMAT));
    }
    wrong
}

/// DNS subdomain whose labels may have underscores, as search domains may.
pub fn dns_subdomain_with_underscore(text: &str) -> Vec<String> {
    let is_part = |part: &str| {
        enclosed(part.strip_prefix('_').unwrap_or(part), is_lower, |byte| {
            is_lower(byte) || matches!(byte, b'-' | b'_')
        })
    };
    let mut wrong = Vec::new();
    if text.len() > SUBDOMAIN_MAX {
        wrong.push(characters_at_most(SUBDOMAIN_MAX));
    }
    if !text.split('.').all(is_part) {
        wrong.push(by_format(UNDERSCORE_RULE, &["example.com"], UNDERSCORE_FORMAT));
    }
    wrong
}

/// Label key, also called qualified name: an optional DNS prefix, a slash, a name.
pub fn qualified_name(text: &str) -> Vec<String> {
    let examples = &["MyName", "my.name", "123-abc"];
    let mut wrong = Vec::new();
    let name = match text.split('/').collect::<Vec<_>>()[..] {
        [name] => name,
        [prefix, name] => {
            if prefix.is_empty() {
                wrong.push("prefix part must be non-empty".to_owned());
            } else {
                if prefix.len() > SUBDOMAIN_MAX {
                    wrong.push(format!("prefix part {}", bytes_at_most(SUBDOMAIN_MAX)));
                }
                if !is_subdomain(prefix) {
                    let rule = by_format(SUBDOMAIN_RULE, &["example.com"], SUBDOMAIN_FORMAT);
                    wrong.push(format!("prefix part {rule}"));
                }
            }
            name
        }
        _ => {
            let rule = by_format(KEY_NAME_RULE, examples, KEY_NAME_FORMAT);
            return vec![format!(
                "a valid label key {rule} with an optional DNS subdomain prefix and '/' \
                 (e.g. 'example.com/MyName')"
            )];
        }
    };
    if name.is_empty() {
        wrong.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_MAX {
        wrong.push(format!("name part {}", bytes_at_most(LABEL_MAX)));
    }
    if !is_key_name(name) {
        wrong.push(format!("name part {}", by_format(KEY_NAME_RULE, examples, KEY_NAME_FORMAT)));
    }
    wrong
}

/// Value of a label.
pub fn label_value(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > LABEL_MAX {
        wrong.push(bytes_at_most(LABEL_MAX));
    }
    if !text.is_empty() && !is_key_name(text) {
        let examples = &["MyValue", "my_value", "12345"];
        wrong.push(by_format(LABEL_VALUE_RULE, examples, LABEL_VALUE_FORMAT));
    }
    wrong
}

/// Name of a port.
pub fn port_name(text: &str) -> Vec<String> {
    let bytes = text.as_bytes();
    let mut wrong = Vec::new();
    if bytes.len() > PORT_NAME_MAX {
        wrong.push(characters_at_most(PORT_NAME_MAX));
    }
    if bytes.is_empty() || !bytes.iter().all(|byte| is_lower(*byte) || *byte == b'-') {
        wrong.push(
            "must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned(),
        );
    }
    if !bytes.iter().any(u8::is_ascii_lowercase) {
        wrong.push("must contain at least one letter (a-z)".to_owned());
    }
    if text.contains("--") {
        wrong.push("must not contain consecutive hyphens".to_owned());
    }
    if text.starts_with('-') || text.ends_with('-') {
        wrong.push("must not begin or end with a hyphen".to_owned());
    }
    wrong
}

/// Number of a port.
pub fn port_number(port: i32) -> Vec<String> {
    if (1..=65535).contains(&port) { Vec::new() } else { vec![between(1, 65535)] }
}

/// Name of an environment variable, also a prefix of such names.
pub fn env_name(text: &str) -> Vec<String> {
    let fits = |byte: u8| (byte.is_ascii_graphic() || byte == b' ') && byte != b'=';
    if text.is_empty() {
        vec!["environment variable name must be non-empty".to_owned()]
    } else if text.bytes().all(fits) {
        Vec::new()
    } else {
        vec![
            "a valid environment variable name must consist only of printable ASCII characters \
             other than '='"
                .to_owned(),
        ]
    }
}

/// Key in a config map or secret.
pub fn config_key(text: &str) -> Vec<String> {
    let mut wrong = Vec::new();
    if text.len() > SUBDOMAIN_MAX {
        wrong.push(characters_at_most(SUBDOMAIN_MAX));
    }
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    if text.is_empty() || !text.bytes().all(fits) {
        wrong.push(by_format(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            &["key.name", "KEY_NAME", "key-name"],
            "[-._a-zA-Z0-9]+",
        ));
    }
    match text {
        "." => wrong.push("must not be '.'".to_owned()),
        ".." => wrong.push("must not be '..'".to_owned()),
        _ if text.starts_with("..") => wrong.push("must not start with '..'".to_owned()),
        _ => {}
    }
    wrong
}

/// Name of an HTTP header.
pub fn header_name(text: &str) -> Vec<String> {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    if !text.is_empty() && text.bytes().all(fits) {
        return Vec::new();
    }
    vec![by_format(
        "a valid HTTP header must consist of alphanumeric characters or '-'",
        &["X-Header-Name"],
        "[-A-Za-z0-9]+",
    )]
}

/// Name of a kernel parameter, with dots or slashes.
pub fn is_sysctl_name(text: &str) -> bool {
    text.len() <= SUBDOMAIN_MAX
        && text.split(['.', '/']).all(|segment| {
            enclosed(segment, is_lower, |byte| is_lower(byte) || matches!(byte, b'-' | b'_'))
        })
}
