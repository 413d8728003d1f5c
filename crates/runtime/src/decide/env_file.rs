//! Variables that come from files of volumes (`fileKeyRef`).

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use k8s_openapi::api::core::v1::{Container, FileKeySelector};

use super::ConfigError;

/// Upstream's reader fails on longer lines.
const LONGEST_LINE: usize = 64 * 1024 - 1;

/// An env file in a volume.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct EnvFile {
    /// The volume, by its name in the pod.
    pub volume: String,
    /// The path in the volume.
    pub path: String,
}

impl EnvFile {
    fn of(selector: &FileKeySelector) -> Self {
        Self { volume: selector.volume_name.clone(), path: selector.path.clone() }
    }
}

/// The result of reading an env file.
#[derive(Clone, PartialEq, Eq)]
pub enum EnvFileRead {
    /// Its volume is not mounted.
    NoVolume,
    /// It cannot be read.
    Failed,
    /// It was read.
    Read {
        /// Its path on the host.
        path: PathBuf,
        /// Its content. Never printed.
        content: Vec<u8>,
    },
}

impl std::fmt::Debug for EnvFileRead {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoVolume => f.write_str("NoVolume"),
            Self::Failed => f.write_str("Failed"),
            Self::Read { path, content } => {
                write!(f, "Read({}, {} bytes)", path.display(), content.len())
            }
        }
    }
}

/// The env files of a container.
pub fn env_files(container: &Container) -> BTreeSet<EnvFile> {
    let sources = container.env.iter().flatten().filter_map(|one| one.value_from.as_ref());
    sources.filter_map(|source| source.file_key_ref.as_ref()).map(EnvFile::of).collect()
}

/// The value of a variable; `None` for an optional key that is missing.
pub(super) fn file_value(
    selector: &FileKeySelector,
    files: &BTreeMap<EnvFile, EnvFileRead>,
) -> Result<Option<String>, ConfigError> {
    let (path, content) = match files.get(&EnvFile::of(selector)) {
        Some(EnvFileRead::Read { path, content }) => (path, content),
        Some(EnvFileRead::Failed) => return Err(ConfigError::EnvFile),
        Some(EnvFileRead::NoVolume) | None => {
            return Err(ConfigError::NoVolume(selector.volume_name.clone()));
        }
    };
    match env_value(content, &selector.key) {
        Err(_) => Err(ConfigError::EnvFile),
        Ok(Some(value)) => Ok(Some(value)),
        Ok(None) if selector.optional == Some(true) => Ok(None),
        Ok(None) => Err(ConfigError::NoEnvKey {
            key: selector.key.clone(),
            path: path.display().to_string(),
        }),
    }
}

/// Why a file does not define variables. The texts are upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EnvFileError {
    /// A line is wrong.
    #[error("invalid environment variable format at line {line}: {problem}")]
    Line {
        /// Its number, from 1.
        line: usize,
        /// The problem.
        problem: &'static str,
    },
    /// A value does not end.
    #[error("invalid environment variable format starting at line {0}: unclosed single quote")]
    Unclosed(usize),
    /// A line is too long.
    #[error("line {0} is too long")]
    LongLine(usize),
    /// A value is not UTF-8.
    #[error("the value that starts at line {0} is not text")]
    NotText(usize),
}

/// The value of a variable in a file of lines `NAME='value'`, where a value may span lines; `None` if it is missing or
/// empty. The lines after the variable are not checked.
pub fn env_value(content: &[u8], key: &str) -> Result<Option<String>, EnvFileError> {
    let mut lines = lines(content);
    while let Some((number, line)) = lines.next().transpose()? {
        let wrong = |problem| EnvFileError::Line { line: number, problem };
        let line = unindented(line);
        if line.is_empty() || line.starts_with(b"#") {
            continue;
        }
        let equals = line.iter().position(|byte| *byte == b'=');
        let (name, rest) = line.split_at(equals.ok_or_else(|| wrong("missing '='"))?);
        if name.iter().all(|byte| is_blank(*byte)) {
            return Err(wrong("empty variable name"));
        }
        if name.last().is_some_and(|byte| is_blank(*byte)) {
            return Err(wrong("whitespace before '=' is not allowed"));
        }
        let is_key = name == key.as_bytes();
        let rest = &rest[1..];
        if rest.first().is_some_and(|byte| is_blank(*byte)) {
            // As in a shell, the variable is empty.
            if is_key {
                return Ok(None);
            }
            continue;
        }
        let quoted = rest.strip_prefix(b"'");
        let quoted = quoted.ok_or_else(|| wrong("value must be enclosed in single quotes"))?;
        let value = value(quoted, number, &mut lines)?;
        if is_key {
            let text = String::from_utf8(value).map_err(|_| EnvFileError::NotText(number))?;
            return Ok(Some(text).filter(|text| !text.is_empty()));
        }
    }
    Ok(None)
}

/// The value up to its closing quote, from the rest of its first line.
fn value<'a>(
    first: &'a [u8],
    start: usize,
    lines: &mut impl Iterator<Item = Result<(usize, &'a [u8]), EnvFileError>>,
) -> Result<Vec<u8>, EnvFileError> {
    let (mut number, mut rest, mut value) = (start, first, Vec::new());
    loop {
        if let Some(end) = rest.iter().position(|byte| *byte == b'\'') {
            value.extend_from_slice(&rest[..end]);
            let after = unindented(&rest[end + 1..]);
            if !after.is_empty() && !after.starts_with(b"#") {
                let problem = "unexpected content after closing quote";
                return Err(EnvFileError::Line { line: number, problem });
            }
            return Ok(value);
        }
        value.extend_from_slice(rest);
        value.push(b'\n');
        (number, rest) = lines.next().transpose()?.ok_or(EnvFileError::Unclosed(start))?;
    }
}

/// The lines of a file with their numbers, without line ends.
fn lines(content: &[u8]) -> impl Iterator<Item = Result<(usize, &[u8]), EnvFileError>> {
    let content = content.strip_suffix(b"\n").unwrap_or(content);
    content.split(|byte| *byte == b'\n').enumerate().map(|(at, line)| {
        if line.len() > LONGEST_LINE {
            return Err(EnvFileError::LongLine(at + 1));
        }
        Ok((at + 1, line.strip_suffix(b"\r").unwrap_or(line)))
    })
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

fn unindented(line: &[u8]) -> &[u8] {
    let start = line.iter().position(|byte| !is_blank(*byte)).unwrap_or(line.len());
    &line[start..]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(content: &str) -> Result<Option<String>, String> {
        env_value(content.as_bytes(), "KEY").map_err(|error| error.to_string())
    }

    // behaviour: CON-90
    #[test]
    fn env_file_values_are_single_quoted() {
        let long = format!("KEY='{}'", "x".repeat(LONGEST_LINE - 6));
        let rows = [
            ("KEY='v'", Some("v")),
            ("  \tKEY='v' # note\r\n", Some("v")),
            ("# KEY='no'\n\nA='b'\nKEY='v'\nwhat follows is not read", Some("v")),
            ("KEY='first'\nKEY='second'", Some("first")),
            ("KEY='a\nb\n'", Some("a\nb\n")),
            ("A='x\nKEY=y'\nKEY='v'", Some("v")),
            ("KEY='\"$A\" \\n # x'", Some("\"$A\" \\n # x")),
            ("KEY='' ", None),
            ("KEY= 'v'", None),
            ("A= x\nKEY='v'", Some("v")),
            ("A='b'", None),
            ("", None),
            (&long, Some(&long[5..long.len() - 1])),
        ];
        for (content, expected) in rows {
            assert_eq!(found(content), Ok(expected.map(str::to_owned)), "{content}");
        }
    }

    // behaviour: CON-90
    #[test]
    fn malformed_env_file_lines_are_rejected() {
        let long = format!("KEY='{}'", "x".repeat(LONGEST_LINE));
        let at = |line: usize, problem: &str| {
            format!("invalid environment variable format at line {line}: {problem}")
        };
        let rows = [
            ("A='b'\nKEY", at(2, "missing '='")),
            (" ='v'", at(1, "empty variable name")),
            ("KEY ='v'", at(1, "whitespace before '=' is not allowed")),
            ("KEY=", at(1, "value must be enclosed in single quotes")),
            ("KEY=\"v\"", at(1, "value must be enclosed in single quotes")),
            ("KEY='a'b", at(1, "unexpected content after closing quote")),
            ("A='x\ny' z\nKEY='v'", at(2, "unexpected content after closing quote")),
            (
                "\nKEY='v",
                "invalid environment variable format starting at line 2: unclosed single quote"
                    .to_owned(),
            ),
            (&long, "line 1 is too long".to_owned()),
        ];
        for (content, expected) in rows {
            assert_eq!(found(content), Err(expected), "{content}");
        }
        let error = env_value(b"KEY='\xff'", "KEY").unwrap_err();
        assert_eq!(error, EnvFileError::NotText(1));
    }

    // behaviour: CON-90
    #[test]
    fn missing_files_and_keys_are_reported() {
        let selector = |optional| FileKeySelector {
            volume_name: "config".to_owned(),
            path: "app.env".to_owned(),
            key: "KEY".to_owned(),
            optional: Some(optional),
        };
        let read = |content: &str| EnvFileRead::Read {
            path: "/pods/u/config/app.env".into(),
            content: content.as_bytes().to_vec(),
        };
        let no_volume = "cannot find the volume \"config\" referenced by FileKeyRef";
        let no_key =
            "environment variable key \"KEY\" not found in file \"/pods/u/config/app.env\"";
        let rows = [
            (None, true, Err(no_volume)),
            (Some(EnvFileRead::NoVolume), true, Err(no_volume)),
            (Some(EnvFileRead::Failed), true, Err("couldn't parse env file")),
            (Some(read("KEY")), true, Err("couldn't parse env file")),
            (Some(read("A='b'")), true, Ok(None)),
            (Some(read("A='b'")), false, Err(no_key)),
            (Some(read("KEY='v'")), false, Ok(Some("v"))),
        ];
        for (file, optional, expected) in rows {
            let selector = selector(optional);
            let key = EnvFile { volume: "config".to_owned(), path: "app.env".to_owned() };
            let files = file.clone().map(|file| (key, file)).into_iter().collect();
            let value = file_value(&selector, &files).map_err(|error| error.to_string());
            let value = value.as_ref().map(|value| value.as_deref()).map_err(String::as_str);
            assert_eq!(value, expected, "{file:?}");
        }
    }
}
