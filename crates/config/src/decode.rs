//! Decodes the text of a file to a document: YAML or JSON of the right kind.

use std::cell::RefCell;
use std::fmt;
use std::path::{Path, PathBuf};

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::options::DuplicateKeyPolicy;
use thiserror::Error;

use crate::finding::{At, Findings, Warning};

/// The identity of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DocumentKind {
    /// The version of the format.
    pub api_version: &'static str,
    /// The kind of the document.
    pub kind: &'static str,
}

/// The kubelet's document.
pub const KUBELET: DocumentKind =
    DocumentKind { api_version: "kubelet.config.k8s.io/v1beta1", kind: "KubeletConfiguration" };

/// Limits far above any configuration, so that a hostile file cannot exhaust the memory.
const MAX_NODES: usize = 50_000;
const MAX_ALIASES: usize = 1_000;

/// Why a file is not a configuration document.
#[derive(Debug, Error)]
pub enum DecodeError {
    /// The file is empty.
    #[error("{} is empty", path.display())]
    Empty { path: PathBuf },
    /// It is neither YAML nor JSON.
    #[error("{} is neither YAML nor JSON", path.display())]
    Syntax {
        path: PathBuf,
        #[source]
        source: Box<serde_saphyr::Error>,
    },
    /// The document is a list or a scalar.
    #[error("{} does not contain an object", path.display())]
    NoObject { path: PathBuf },
    /// The document has another version or kind.
    #[error(
        "{} must have apiVersion {} and kind {}, found {found}",
        path.display(), expected.api_version, expected.kind
    )]
    OtherKind { path: PathBuf, expected: DocumentKind, found: String },
}

/// What a repeated key means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Duplicates {
    /// The last one counts.
    LastWins,
    /// The file is refused.
    Refused,
}

/// Reads a document and removes its version and kind; repeated keys are reported.
pub(crate) fn decode(
    text: &str,
    path: &Path,
    expected: DocumentKind,
    duplicates: Duplicates,
    findings: &mut Findings,
) -> Result<Map<String, Value>, DecodeError> {
    let path = || path.to_owned();
    if text.is_empty() {
        return Err(DecodeError::Empty { path: path() });
    }
    let (text, rest) = first_document(text);
    if first_document(rest).0.lines().any(is_content) {
        findings.warnings.push(Warning::FurtherDocuments);
    }
    let repeated = RefCell::new(Vec::new());
    let tree = parse(text, duplicates, &repeated)
        .map_err(|source| DecodeError::Syntax { path: path(), source: Box::new(source) })?;
    for field in repeated.into_inner() {
        findings.warnings.push(Warning::DuplicateField { field });
    }
    match tree {
        Value::Null => Err(DecodeError::Empty { path: path() }),
        Value::Object(mut document) => {
            let version = document.remove("apiVersion");
            let kind = document.remove("kind");
            if version.as_ref().and_then(Value::as_str) == Some(expected.api_version)
                && kind.as_ref().and_then(Value::as_str) == Some(expected.kind)
            {
                Ok(document)
            } else {
                Err(DecodeError::OtherKind {
                    path: path(),
                    expected,
                    found: identity(version.as_ref(), kind.as_ref()),
                })
            }
        }
        _ => Err(DecodeError::NoObject { path: path() }),
    }
}

/// Splits off everything after the first document, which is the only one that is used.
///
/// Three hyphens at the start of a line begin a document anywhere in YAML, even within
/// quotes, so that no parser is needed for this.
fn first_document(text: &str) -> (&str, &str) {
    let mut begun = false;
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        if begun && is_marker(line) {
            return text.split_at(offset);
        }
        begun |= is_content(line);
        offset += line.len();
    }
    (text, "")
}

fn is_marker(line: &str) -> bool {
    line.strip_prefix("---")
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(char::is_whitespace))
}

fn is_content(line: &str) -> bool {
    let text = if is_marker(line) { &line[3..] } else { line }.trim();
    !(text.is_empty() || text.starts_with(['#', '%']) || text == "...")
}

fn identity(version: Option<&Value>, kind: Option<&Value>) -> String {
    let show = |name: &str, node: Option<&Value>| match node {
        None => format!("no {name}"),
        Some(Value::String(text)) => format!("{name} {text}"),
        Some(other) => format!("{name} {other}"),
    };
    format!("{} and {}", show("apiVersion", version), show("kind", kind))
}

fn parse(
    text: &str,
    duplicates: Duplicates,
    repeated: &RefCell<Vec<String>>,
) -> Result<Value, serde_saphyr::Error> {
    let options = serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_nodes: MAX_NODES,
            max_aliases: MAX_ALIASES,
        },
        duplicate_keys: match duplicates {
            Duplicates::LastWins => DuplicateKeyPolicy::LastWins,
            Duplicates::Refused => DuplicateKeyPolicy::Error,
        },
        // As the YAML library of apimachinery: 0644 is 420.
        legacy_octal_numbers: true,
        with_snippet: false,
    };
    serde_saphyr::with_deserializer_from_str_with_options(text, options, |deserializer| {
        Tree { at: At::ROOT, repeated }.deserialize(deserializer)
    })
}

/// Builds a tree of values and reports repeated keys.
struct Tree<'a> {
    at: At<'a>,
    repeated: &'a RefCell<Vec<String>>,
}

impl<'de> DeserializeSeed<'de> for Tree<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tree<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        loop {
            let item = Tree { at: self.at.index(list.len()), repeated: self.repeated };
            match items.next_element_seed(item)? {
                Some(value) => list.push(value),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(name) = entries.next_key::<String>()? {
            let at = self.at.field(&name);
            if map.contains_key(&name) {
                self.repeated.borrow_mut().push(at.to_string());
            }
            let value = entries.next_value_seed(Tree { at, repeated: self.repeated })?;
            map.insert(name, value);
        }
        Ok(Value::Object(map))
    }
}
