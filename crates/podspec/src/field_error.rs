//! Problems with fields of an object, in the API's words.

use std::fmt;

use serde_json::Value;

/// A path in an object: `spec.containers[0].resources.limits[cpu]`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct FieldPath(String);

impl FieldPath {
    /// The path of the object itself.
    pub fn root() -> Self {
        Self::default()
    }

    /// A field of the object at this path.
    #[must_use]
    pub fn child(&self, name: &str) -> Self {
        if self.0.is_empty() { Self(name.to_owned()) } else { Self(format!("{}.{name}", self.0)) }
    }

    /// An element of the list at this path.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }

    /// An entry of the map at this path.
    #[must_use]
    pub fn key(&self, key: &str) -> Self {
        Self(format!("{}[{key}]", self.0))
    }

    /// This path below another path.
    #[must_use]
    pub fn below(&self, base: &Self) -> Self {
        if self.0.is_empty() { base.clone() } else { base.child(&self.0) }
    }

    /// The path as text; empty for the object itself.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for FieldPath {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl fmt::Display for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The kind of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ErrorKind {
    /// It is missing or empty.
    Required,
    /// Its value is malformed or out of range.
    Invalid,
    /// Its value is none of the supported ones.
    NotSupported,
    /// Its value occurs twice where it must be unique.
    Duplicate,
    /// It may not be set here.
    Forbidden,
    /// It refers to something that does not exist.
    NotFound,
    /// Its text is too long.
    TooLong,
    /// Its list is too long.
    TooMany,
}

impl ErrorKind {
    fn text(self) -> &'static str {
        match self {
            Self::Required => "Required value",
            Self::Invalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Duplicate => "Duplicate value",
            Self::Forbidden => "Forbidden",
            Self::NotFound => "Not found",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
        }
    }
}

/// A problem with a field.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub struct FieldError {
    /// The field.
    pub path: FieldPath,
    /// The kind.
    pub kind: ErrorKind,
    /// The value, for kinds that show it.
    pub value: Option<Value>,
    /// Details; may be empty.
    pub detail: String,
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.kind.text())?;
        match &self.value {
            Some(Value::String(text)) => write!(f, ": {text:?}")?,
            Some(value) => write!(f, ": {value}")?,
            None => {}
        }
        if !self.detail.is_empty() {
            write!(f, ": {}", self.detail)?;
        }
        Ok(())
    }
}

/// The problems found so far. No check stops at the first one.
#[derive(Debug, Default)]
pub(crate) struct FieldErrors(Vec<FieldError>);

impl FieldErrors {
    pub(crate) fn required(&mut self, path: &FieldPath, detail: &str) {
        self.push(path, ErrorKind::Required, None, detail);
    }

    pub(crate) fn invalid(
        &mut self,
        path: &FieldPath,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) {
        self.push(path, ErrorKind::Invalid, Some(value.into()), detail);
    }

    /// One problem for each message about a value.
    pub(crate) fn invalid_each(
        &mut self,
        path: &FieldPath,
        value: impl Into<Value>,
        details: impl IntoIterator<Item = String>,
    ) {
        let value = value.into();
        for detail in details {
            self.invalid(path, value.clone(), detail);
        }
    }

    pub(crate) fn not_supported(&mut self, path: &FieldPath, value: &str, supported: &[&str]) {
        let words: Vec<String> = supported.iter().map(|word| format!("{word:?}")).collect();
        let detail = format!("supported values: {}", words.join(", "));
        self.push(path, ErrorKind::NotSupported, Some(value.into()), detail);
    }

    pub(crate) fn duplicate(&mut self, path: &FieldPath, value: impl Into<Value>) {
        self.push(path, ErrorKind::Duplicate, Some(value.into()), "");
    }

    pub(crate) fn forbidden(&mut self, path: &FieldPath, detail: impl Into<String>) {
        self.push(path, ErrorKind::Forbidden, None, detail);
    }

    pub(crate) fn not_found(
        &mut self,
        path: &FieldPath,
        value: impl Into<Value>,
        detail: impl Into<String>,
    ) {
        self.push(path, ErrorKind::NotFound, Some(value.into()), detail);
    }

    pub(crate) fn too_long(&mut self, path: &FieldPath, limit: usize) {
        self.push(path, ErrorKind::TooLong, None, format!("may not be more than {limit} bytes"));
    }

    pub(crate) fn too_many(&mut self, path: &FieldPath, count: usize, limit: usize) {
        let detail = format!("must have at most {limit} items");
        self.push(path, ErrorKind::TooMany, Some(count.into()), detail);
    }

    pub(crate) fn into_vec(self) -> Vec<FieldError> {
        self.0
    }

    fn push(
        &mut self,
        path: &FieldPath,
        kind: ErrorKind,
        value: Option<Value>,
        detail: impl Into<String>,
    ) {
        self.0.push(FieldError { path: path.clone(), kind, value, detail: detail.into() });
    }
}

#[cfg(test)]
mod tests {
    use super::{FieldErrors, FieldPath};

    fn texts(errors: FieldErrors) -> Vec<String> {
        errors.into_vec().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn paths_have_the_notation_of_the_api() {
        let path = FieldPath::root().child("spec").child("containers").index(2);
        assert_eq!(path.child("name").as_str(), "spec.containers[2].name");
        assert_eq!(path.child("limits").key("cpu").as_str(), "spec.containers[2].limits[cpu]");
    }

    #[test]
    fn problems_have_the_texts_of_the_api() {
        let mut errors = FieldErrors::default();
        let path = FieldPath::from("spec.restartPolicy");
        errors.required(&path, "");
        errors.invalid(&path, 70_000, "must be between 1 and 65535, inclusive");
        errors.invalid(&path, "a\"b", "no quotes");
        errors.not_supported(&path, "x", &["Always", "Never"]);
        errors.duplicate(&path, "x");
        errors.forbidden(&path, "not here");
        errors.not_found(&path, "x", "");
        errors.too_long(&path, 64);
        errors.too_many(&path, 21, 20);
        let expected = [
            "spec.restartPolicy: Required value",
            "spec.restartPolicy: Invalid value: 70000: must be between 1 and 65535, inclusive",
            r#"spec.restartPolicy: Invalid value: "a\"b": no quotes"#,
            r#"spec.restartPolicy: Unsupported value: "x": supported values: "Always", "Never""#,
            r#"spec.restartPolicy: Duplicate value: "x""#,
            "spec.restartPolicy: Forbidden: not here",
            r#"spec.restartPolicy: Not found: "x""#,
            "spec.restartPolicy: Too long: may not be more than 64 bytes",
            "spec.restartPolicy: Too many: 21: must have at most 20 items",
        ];
        assert_eq!(texts(errors), expected);
    }
}
