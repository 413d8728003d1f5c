//! Texts in the format of Go.

use std::fmt::Write as _;

use crate::ports::files::FileError;

/// A text quoted as Go's `%q` does, which programs that parse it expect.
pub fn quoted(text: &str) -> String {
    let mut quoted = "\"".to_owned();
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            '\x07' => quoted.push_str("\\a"),
            '\x08' => quoted.push_str("\\b"),
            '\x0c' => quoted.push_str("\\f"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            '\x0b' => quoted.push_str("\\v"),
            c if is_printable(c) => quoted.push(c),
            c => {
                let code = u32::from(c);
                let written = match code {
                    0..0x80 => write!(quoted, "\\x{code:02x}"),
                    0x80..0x1_0000 => write!(quoted, "\\u{code:04x}"),
                    _ => write!(quoted, "\\U{code:08x}"),
                };
                written.expect("writing to a string does not fail");
            }
        }
    }
    quoted.push('"');
    quoted
}

/// Whether it is printed unescaped. After a letter, the standard library escapes unprintable characters
/// but not accents.
fn is_printable(c: char) -> bool {
    c == '\'' || format!("a{c}").escape_debug().count() == 2
}

/// The text of a file error, as Go formats it.
pub fn file_error(error: &FileError) -> String {
    let operation = match error.operation {
        "read" => "open",
        "create directory" => "mkdir",
        other => other,
    };
    let why = error.source.to_string();
    let why = why.split(" (os error").next().unwrap_or_default();
    let mut rest = why.chars();
    let first = rest.next().map(|first| first.to_ascii_lowercase());
    let why: String = first.into_iter().chain(rest).collect();
    format!("{operation} {}: {why}", error.path.display())
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[test]
    fn file_errors_are_formatted_as_in_go() {
        let error = |operation, number| {
            let source = io::Error::from_raw_os_error(number);
            file_error(&FileError { operation, path: "/a/b".into(), source })
        };
        assert_eq!(error("read", 2), "open /a/b: no such file or directory");
        assert_eq!(error("create directory", 20), "mkdir /a/b: not a directory");
        assert_eq!(error("write", 28), "write /a/b: no space left on device");
    }

    #[test]
    fn texts_are_quoted_as_in_go() {
        let rows = [
            ("it's", r#""it's""#),
            ("ü\u{301}", "\"ü\u{301}\""),
            ("\u{1}\u{7f}\u{200b}\u{e0001}", r#""\x01\x7f\u200b\U000e0001""#),
            ("tab\t\u{7}", r#""tab\t\a""#),
        ];
        for (text, expected) in rows {
            assert_eq!(quoted(text), expected);
        }
    }
}
