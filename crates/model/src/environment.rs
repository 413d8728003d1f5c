//! Environment variables of a container.

use std::fmt;
use std::ops::Deref;

/// Environment variables, in order. Their values may come from secrets, so none is printed.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Environment(pub Vec<(String, String)>);

/// Printed instead of a possible secret.
#[derive(Clone, Copy)]
pub(crate) struct Redacted;

impl fmt::Debug for Redacted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[redacted]")
    }
}

impl fmt::Debug for Environment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.0.iter().map(|(name, _)| (name, Redacted))).finish()
    }
}

impl Deref for Environment {
    type Target = [(String, String)];

    fn deref(&self) -> &Self::Target {
        &self.0
    }
}

impl From<Vec<(String, String)>> for Environment {
    fn from(variables: Vec<(String, String)>) -> Self {
        Self(variables)
    }
}

impl FromIterator<(String, String)> for Environment {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(variables: I) -> Self {
        Self(variables.into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wanted::ContainerConfig;

    // behaviour: OBJ-42
    #[test]
    fn debug_output_has_no_variable_values() {
        let envs = Environment(vec![("PASSWORD".to_owned(), "hunter2".to_owned())]);
        assert_eq!(format!("{envs:?}"), r#"{"PASSWORD": [redacted]}"#);
        // Command and args may contain the value, too, by `$(PASSWORD)`.
        let config = ContainerConfig {
            command: vec!["login".to_owned(), "hunter2".to_owned()],
            args: vec!["--password=hunter2".to_owned()],
            envs,
            ..ContainerConfig::new("main", "image:1")
        };
        let text = format!("{config:?}");
        assert!(!text.contains("hunter2"), "{text}");
        assert!(text.contains("PASSWORD") && text.contains("image:1"), "{text}");
    }
}
