//! What is wrong or odd in a configuration, each with the path of its field.

use std::fmt;
use std::path::PathBuf;

use serde_json::Value;

/// A value that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// Path of the field in the file, such as `authentication.webhook.cacheTTL`.
    pub field: String,
    /// What is wrong with it.
    pub problem: String,
    /// Who says so: a file, or a flag with its hyphens. None when nobody does, and something is
    /// missing.
    pub source: Option<String>,
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(source) = &self.source {
            write!(f, "{source}: ")?;
        }
        // What is wrong with a flag itself has no other name, and a file as a whole has none.
        if self.source.as_deref() != Some(&self.field) && !self.field.is_empty() {
            write!(f, "{}: ", self.field)?;
        }
        f.write_str(&self.problem)
    }
}

/// All values that cannot be used, so that they can be mended in one go.
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

/// Something odd that does not stop the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Warning {
    /// The field does not exist; it is left out.
    UnknownField {
        /// Its path.
        field: String,
    },
    /// The field of a drop-in does not exist; it is left out.
    UnknownDropInField {
        /// The drop-in: there may be many.
        file: PathBuf,
        /// Its path.
        field: String,
    },
    /// The field is written more than once; the last one counts.
    DuplicateField {
        /// Its path.
        field: String,
    },
    /// The file holds more than one document; the first one counts.
    FurtherDocuments,
    /// The flag is on its way out.
    DeprecatedFlag {
        /// Its name.
        flag: &'static str,
        /// What to do instead.
        advice: String,
    },
    /// The field is accepted, but the value will not do what it seems to say.
    Doubtful {
        /// Its path.
        field: String,
        /// What it does instead.
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

/// Errors and warnings as they are collected.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Findings {
    /// What makes the configuration unusable.
    pub errors: Vec<FieldError>,
    /// What an operator should look at.
    pub warnings: Vec<Warning>,
}

impl Findings {
    /// Notes a value that cannot be used.
    pub(crate) fn error(&mut self, field: impl fmt::Display, problem: impl fmt::Display) {
        self.errors.push(FieldError {
            field: field.to_string(),
            problem: problem.to_string(),
            source: None,
        });
    }

    /// Notes what is wrong with a flag that stands for no field.
    pub(crate) fn flag_error(&mut self, flag: &str, problem: impl fmt::Display) {
        self.errors.push(FieldError {
            field: flag.to_owned(),
            problem: problem.to_string(),
            source: Some(flag.to_owned()),
        });
    }

    /// Notes a value of the wrong kind.
    pub(crate) fn wrong_type(&mut self, at: &At<'_>, expected: &str, found: &Value) {
        self.error(at, format_args!("expected {expected}, found {}", kind(found)));
    }

    /// Notes a field nobody knows.
    pub(crate) fn unknown(&mut self, at: &At<'_>) {
        self.warnings.push(Warning::UnknownField { field: at.to_string() });
    }

    /// Notes a value that is accepted but should be looked at.
    pub(crate) fn doubt(&mut self, field: impl fmt::Display, problem: impl fmt::Display) {
        self.warnings
            .push(Warning::Doubtful { field: field.to_string(), problem: problem.to_string() });
    }
}

/// Names the kind of a node. Texts are not shown, since some of them are secrets.
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

/// Where in the document we are.
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
