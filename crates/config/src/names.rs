//! The rules for names and values of labels and taints.

const MAX_NAME: usize = 63;
const MAX_PREFIX: usize = 253;

/// What is wrong with the key of a label or taint, if anything: `[prefix/]name`.
pub(crate) fn key_problem(key: &str) -> Option<&'static str> {
    let (prefix, name) = match key.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, key),
    };
    if prefix.is_some_and(|prefix| !is_dns_subdomain(prefix)) {
        return Some("the part before the slash must be a DNS subdomain");
    }
    if name.is_empty() || !is_label_text(name) {
        return Some(
            "the name must be 1 to 63 letters, digits, '-', '_' or '.', with a letter or digit at both ends",
        );
    }
    None
}

/// What is wrong with the value of a label or taint, if anything.
pub(crate) fn value_problem(value: &str) -> Option<&'static str> {
    (!value.is_empty() && !is_label_text(value)).then_some(
        "the value must be at most 63 letters, digits, '-', '_' or '.', with a letter or digit at both ends",
    )
}

fn is_label_text(text: &str) -> bool {
    text.len() <= MAX_NAME
        && text.starts_with(|c: char| c.is_ascii_alphanumeric())
        && text.ends_with(|c: char| c.is_ascii_alphanumeric())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

fn is_dns_subdomain(text: &str) -> bool {
    let is_alphanumeric = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.len() <= MAX_PREFIX
        && text.split('.').all(|label| {
            label.starts_with(is_alphanumeric)
                && label.ends_with(is_alphanumeric)
                && label.chars().all(|c| is_alphanumeric(c) || c == '-')
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_names_with_an_optional_prefix() {
        for key in ["a", "a.b_c-D9", "example.com/role", "node.kubernetes.io/instance-type"] {
            assert_eq!(key_problem(key), None, "{key}");
        }
        for key in ["", "-a", "a-", "a b", "/a", "a/", "Example.com/a", "a/b/c", "ex..com/a"] {
            assert!(key_problem(key).is_some(), "{key}");
        }
        assert!(key_problem(&"a".repeat(64)).is_some());
    }

    #[test]
    fn values_may_be_empty() {
        for value in ["", "a", "1.2-3_4"] {
            assert_eq!(value_problem(value), None, "{value}");
        }
        for value in ["a b", ".a", "a/b", "\u{e4}"] {
            assert!(value_problem(value).is_some(), "{value}");
        }
    }
}
