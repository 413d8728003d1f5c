//! Limits of the environment, command and arguments of a container.
//!
//! `$(NAME)` and the prefixes of `envFrom` multiply text, so the size of a manifest does not bound the size
//! of its containers. The kernel accepts no string of more than 128 KiB anyway.

pub use podspec::expansion::MOST_OF_STRING;
pub(super) use podspec::expansion::expand;

use super::ConfigError;

/// The maximum number of bytes of all names, values and arguments of a container.
pub const MOST_OF_STRINGS: usize = 16 * 1024 * 1024;

/// The maximum number of characters of a name in an error.
const MOST_OF_NAME: usize = 256;

/// One string of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContainerString<'a> {
    /// The environment variable with this name.
    Variable(&'a str),
    /// A word of the command.
    Command(usize),
    /// An argument.
    Argument(usize),
}

/// The total size of the strings of a container.
#[derive(Debug, Clone, Copy)]
pub struct StringBudget<'a> {
    container: &'a str,
    used: usize,
}

impl<'a> StringBudget<'a> {
    /// Nothing was used yet.
    pub fn new(container: &'a str) -> Self {
        Self { container, used: 0 }
    }

    /// The rest of the budget with this environment.
    pub fn after(container: &'a str, envs: &[(String, String)]) -> Self {
        let used = envs.iter().map(|(name, value)| name.len() + value.len()).sum();
        Self { container, used }
    }

    /// Uses this many bytes for a string.
    pub fn take(&mut self, bytes: usize, string: ContainerString<'_>) -> Result<(), ConfigError> {
        if bytes > MOST_OF_STRING {
            return Err(self.too_long(string));
        }
        if bytes > MOST_OF_STRINGS.saturating_sub(self.used) {
            let (container, string) = (self.container.to_owned(), string.to_string());
            return Err(ConfigError::TooMuchText { container, string });
        }
        self.used += bytes;
        Ok(())
    }

    /// Replaces `$(NAME)` in a string by the variable's value, within the limits.
    pub fn expand<'v>(
        &mut self,
        text: &str,
        string: ContainerString<'_>,
        value: impl Fn(&str) -> Option<&'v str>,
    ) -> Result<String, ConfigError> {
        let expanded = expand(text, value).ok_or_else(|| self.too_long(string))?;
        self.take(expanded.len(), string)?;
        Ok(expanded)
    }

    fn too_long(&self, string: ContainerString<'_>) -> ConfigError {
        let (container, string) = (self.container.to_owned(), string.to_string());
        ConfigError::LongString { container, string }
    }
}

impl std::fmt::Display for ContainerString<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match *self {
            Self::Variable(name) => {
                let shown = &name[..name.floor_char_boundary(MOST_OF_NAME)];
                let more = if shown.len() < name.len() { "..." } else { "" };
                write!(f, "environment variable {shown:?}{more}")
            }
            Self::Command(position) => write!(f, "command[{position}]"),
            Self::Argument(position) => write!(f, "args[{position}]"),
        }
    }
}
