//! Errors and warnings of a configuration, each with the path of its field.

use std::fmt;
use std::path::PathBuf;

use serde_json::Value;

/// An invalid value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// Path of the field in the file, such as `authentication.webhook.cacheTTL`.
    pub field: String,
    /// The error.
    pub problem: String,
    /// The source of the value: a file, or a flag with its hyphens. None if the value is
    /// missing.
    pub source: Option<String>,
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(source) = &self.source {
            write!(f, "{source}: ")?;
        }
        // An error of a flag itself has no field, and one of a whole file neither.
        if self.source.as_deref() != Some(&self.field) && !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        f.write_str(&self.problem)
    }
}

/// All invalid values, so that they can be corrected in one go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldErrors(pub Vec<FieldError>);

impl fmt::Display for FieldErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, error) in self.0.iter().enumerate() {
            if index > 0 {
                f.write_str("; ")?;
            }
            write!(f, "{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for FieldErrors {}

/// A problem that does not stop the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Warning {
    /// The field does not exist; it is ignored.
    UnknownField {
        /// Its path.
        field: String,
    },
    /// The field of a drop-in does not exist; it is ignored.
    UnknownDropInField {
        /// The drop-in: there may be several.
        file: PathBuf,
        /// Its path.
        field: String,
    },
    /// The field occurs more than once; the last one is used.
    DuplicateField {
        /// Its path.
        field: String,
    },
    /// The file has more than one document; the first one is used.
    FurtherDocuments,
    /// The flag is deprecated.
    DeprecatedFlag {
        /// Its name.
        flag: &'static str,
        /// The alternative.
        advice: String,
    },
    /// The field is accepted, but the value does not have the effect it suggests.
    Doubtful {
        /// Its path.
        field: String,
        /// The actual effect.
        problem: String,
    },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownField { field } => write!(f, "{field}: unknown field, ignored"),
            Self::UnknownDropInField { file, field } => {
                write!(f, "{}: {field}: unknown field, ignored", file.display())
            }
            Self::DuplicateField { field } => {
                write!(f, "{field}: written more than once, the last one counts")
            }
            Self::FurtherDocuments => {
                f.write_str("the file holds more than one document, the first one counts")
            }
            Self::DeprecatedFlag { flag, advice } => {
                write!(f, "--{flag}: the flag is deprecated, {advice}")
            }
            Self::Doubtful { field, problem } => write!(f, "{field}: {problem}"),
        }
    }
}

/// Collects errors and warnings.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// Errors: the configuration cannot be used.
    pub errors: Vec<FieldError>,
    /// Warnings for the operator.
    pub warnings: Vec<Warning>,
}

impl Findings {
    /// Adds an invalid value.
    pub(crate) fn error(&mut self, field: impl fmt::Display, problem: impl fmt::Display) {
        self.errors.push(FieldError {
            field: field.to_string(),
            problem: problem.to_string(),
            source: None,
        });
    }

    /// Adds an error of a flag without a field.
    pub(crate) fn flag_error(&mut self, flag: &str, problem: impl fmt::Display) {
        self.errors.push(FieldError {
            field: flag.to_owned(),
            problem: problem.to_string(),
            source: Some(flag.to_owned()),
        });
    }

    /// Adds a value of the wrong type.
    pub(crate) fn wrong_type(&mut self, at: &At<'_>, expected: &str, found: &Value) {
        self.error(at, format_args!("expected {expected}, found {}", kind(found)));
    }

    /// Adds an unknown field.
    pub(crate) fn unknown(&mut self, at: &At<'_>) {
        self.warnings.push(Warning::UnknownField { field: at.to_string() });
    }

    /// Adds a warning about an accepted value.
    pub(crate) fn doubt(&mut self, field: impl fmt::Display, problem: impl fmt::Display) {
        self.warnings
            .push(Warning::Doubtful { field: field.to_string(), problem: problem.to_string() });
    }
}

/// The type of a node. Strings are not shown, because some of them are secrets.
fn kind(node: &Value) -> String {
    match node {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => format!("the boolean {value}"),
        Value::Number(value) => format!("the number {value}"),
        Value::String(_) => "a string".to_owned(),
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}

/// A position in the document.
#[derive(Debug, Clone, Copy)]
pub(crate) struct At<'a> {
    parent: Option<&'a At<'a>>,
    step: Step<'a>,
}

#[derive(Debug, Clone, Copy)]
enum Step<'a> {
    Root,
    Field(&'a str),
    Index(usize),
}

impl At<'_> {
    pub(crate) const ROOT: At<'static> = At { parent: None, step: Step::Root };

    pub(crate) fn field<'a>(&'a self, name: &'a str) -> At<'a> {
        At { parent: Some(self), step: Step::Field(name) }
    }

    pub(crate) fn index(&self, index: usize) -> At<'_> {
        At { parent: Some(self), step: Step::Index(index) }
    }
}

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(parent) = self.parent {
            parent.fmt(f)?;
        }
        let first = self.parent.is_none_or(|parent| matches!(parent.step, Step::Root));
        match self.step {
            Step::Root => Ok(()),
            Step::Index(index) => write!(f, "[{index}]"),
            // Keys such as `memory.available` would read like two fields.
            Step::Field(name) if name.contains('.') => write!(f, "[{name}]"),
            Step::Field(name) if first => f.write_str(name),
            Step::Field(name) => write!(f, ".{name}"),
        }
    }
}
