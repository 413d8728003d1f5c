//! Decodes a manifest to pods.
//!
//! The bytes are first decoded to a JSON value and then to a pod, so that YAML has the same meaning as elsewhere in
//! Kubernetes (`0644` is 420, `yes` is true) and type errors are reported with the
//! path of their field. Unknown fields are warnings: a manifest for a newer version still runs.

mod document;
mod node;
mod typed;

use std::fmt;

use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

use crate::field_error::FieldPath;

pub use document::MAX_MANIFEST_BYTES;

/// The content of a manifest.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    /// The pods as written: without defaults and not validated.
    pub pods: Vec<Pod>,
    /// Whether they were in a list.
    pub is_list: bool,
    /// The fields that were ignored.
    pub warnings: Vec<Warning>,
}

/// A part of a manifest that has no effect, reported to its author.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Warning {
    /// The API has no such field.
    UnknownField(FieldPath),
    /// Only the first YAML document of a file is read; the next one starts on this line.
    FurtherDocuments {
        /// Counted from 1.
        line: u64,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownField(path) => write!(f, "{path}: unknown field, ignored"),
            Self::FurtherDocuments { line } => {
                write!(f, "line {line}: only the first document of a manifest is read")
            }
        }
    }
}

/// The format of a manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// Recognized by an opening brace.
    Json,
    /// Everything else.
    Yaml,
}

impl fmt::Display for Language {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Json => "JSON",
            Self::Yaml => "YAML",
        })
    }
}

/// Why a manifest contains no pod.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// It has too many bytes.
    #[error("manifest is longer than {MAX_MANIFEST_BYTES} bytes")]
    TooLong,
    /// It is not UTF-8.
    #[error("line {line}: manifest is not UTF-8 text")]
    NotText {
        /// Counted from 1.
        line: usize,
    },
    /// It is empty.
    #[error("manifest is empty")]
    Empty,
    /// It has a syntax error.
    #[error("line {line}, column {column}: {language}: {problem}")]
    Syntax {
        /// The expected format.
        language: Language,
        /// Counted from 1.
        line: u64,
        /// Counted from 1.
        column: u64,
        /// The message of the parser.
        problem: String,
    },
    /// It has more nesting, nodes or repetition than any pod: by accident or as an attack.
    #[error("line {line}, column {column}: manifest is too complex: {problem}")]
    TooComplex {
        /// Counted from 1.
        line: u64,
        /// Counted from 1.
        column: u64,
        /// The exceeded limit.
        problem: String,
    },
    /// It is another object than the expected one.
    #[error("expected {expected}, found {found}")]
    WrongKind {
        /// The expected object.
        expected: &'static str,
        /// The object in the manifest.
        found: String,
    },
    /// A field has a value of the wrong type.
    #[error("{path}: {problem}")]
    Type {
        /// The field.
        path: FieldPath,
        /// The actual and the expected type.
        problem: String,
    },
}

/// Decodes the one pod of a manifest in YAML or JSON.
pub fn decode(bytes: &[u8]) -> Result<Decoded, DecodeError> {
    let (value, mut warnings) = read(bytes, document::MAX_POD_NODES)?;
    expect_kind(&value, "v1 Pod", |kind| kind == "Pod")?;
    let pod = typed::pod(value, &FieldPath::root(), &mut warnings)?;
    Ok(Decoded { pods: vec![pod], is_list: false, warnings })
}

/// Decodes the pod or the list of pods that a URL serves.
pub fn decode_list(bytes: &[u8]) -> Result<Decoded, DecodeError> {
    let (mut value, mut warnings) = read(bytes, document::MAX_LIST_NODES)?;
    let is_list = value.get("kind").and_then(Value::as_str) == Some("PodList");
    expect_kind(&value, "v1 Pod or v1 PodList", |kind| kind == "Pod" || kind == "PodList")?;
    if !is_list {
        let pod = typed::pod(value, &FieldPath::root(), &mut warnings)?;
        return Ok(Decoded { pods: vec![pod], is_list, warnings });
    }
    let items = value.get_mut("items").map(Value::take).unwrap_or_default();
    let items = match items {
        Value::Array(items) => items,
        Value::Null => Vec::new(),
        _ => {
            return Err(DecodeError::Type {
                path: FieldPath::from("items"),
                problem: "expected a list of pods".to_owned(),
            });
        }
    };
    let mut pods = Vec::with_capacity(items.len());
    for (index, item) in items.into_iter().enumerate() {
        pods.push(typed::pod(item, &item_path(index), &mut warnings)?);
    }
    Ok(Decoded { pods, is_list, warnings })
}

/// The path of a pod in a list.
pub(crate) fn item_path(index: usize) -> FieldPath {
    FieldPath::from("items").index(index)
}

fn read(bytes: &[u8], max_nodes: usize) -> Result<(Value, Vec<Warning>), DecodeError> {
    let document = document::read(bytes, max_nodes)?;
    let warnings = document.next_at.map(|line| Warning::FurtherDocuments { line });
    Ok((document.value, warnings.into_iter().collect()))
}

fn expect_kind(
    value: &Value,
    expected: &'static str,
    is_expected: impl Fn(&str) -> bool,
) -> Result<(), DecodeError> {
    let Value::Object(object) = value else {
        let found = match value {
            Value::Null => return Err(DecodeError::Empty),
            Value::Array(_) => "a list",
            Value::String(_) => "a text",
            _ => "a plain value",
        };
        return Err(DecodeError::WrongKind { expected, found: found.to_owned() });
    };
    let word = |name: &str| object.get(name).and_then(Value::as_str).filter(|w| !w.is_empty());
    let found = match (word("apiVersion"), word("kind")) {
        (Some("v1"), Some(kind)) if is_expected(kind) => return Ok(()),
        (Some(version), Some(kind)) => format!("{version} {kind}"),
        (Some(version), None) => format!("apiVersion {version} and no kind"),
        (None, Some(kind)) => format!("kind {kind} and no apiVersion"),
        (None, None) => "neither apiVersion nor kind".to_owned(),
    };
    Err(DecodeError::WrongKind { expected, found })
}
