//! How large the environment, the command and the arguments of a container may become.
//!
//! `$(NAME)` and the prefixes of `envFrom` multiply text, so the size of a manifest does not bound the size
//! of its containers. The kernel takes no string of more than 128 KiB anyway.

use super::ConfigError;

/// The most bytes of one name, value or argument.
pub const MOST_OF_STRING: usize = 128 * 1024;

/// The most bytes of all names, values and arguments of a container.
pub const MOST_OF_STRINGS: usize = 16 * 1024 * 1024;

/// How much of a name an error repeats.
const MOST_OF_NAME: usize = 256;

/// One string of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ContainerString<'a> {
    /// The environment variable of this name.
    Variable(&'a str),
    /// A word of the command.
    Command(usize),
    /// An argument.
    Argument(usize),
}

/// What the strings of a container take together.
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

    /// What is left when the container has this environment.
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

/// Replaces `$(NAME)` by the variable's value. `$$` stands for `$`, so `$$(NAME)` stays text; a
/// reference that cannot be resolved stays as written. Nothing if the result is longer than a string may
/// be; no more than that is ever built.
pub(super) fn expand<'v>(text: &str, value: impl Fn(&str) -> Option<&'v str>) -> Option<String> {
    let mut expanded = Bounded(String::with_capacity(text.len().min(MOST_OF_STRING)));
    // Without it, every `$(` that is never closed would search the whole rest.
    let last_close = text.rfind(')');
    let mut rest = text;
    while let Some(dollar) = rest.find('$') {
        expanded.push(&rest[..dollar])?;
        let after = &rest[dollar + 1..];
        if let Some(tail) = after.strip_prefix('$') {
            expanded.push("$")?;
            rest = tail;
        } else if last_close.is_some_and(|close| close >= text.len() - after.len())
            && let Some((name, tail)) = reference(after)
        {
            match value(name) {
                Some(value) => expanded.push(value)?,
                None => expanded.push(&rest[dollar..dollar + name.len() + 3])?,
            }
            rest = tail;
        } else {
            expanded.push("$")?;
            rest = after;
        }
    }
    expanded.push(rest)?;
    Some(expanded.0)
}

/// A text that stays within the limit of a string.
struct Bounded(String);

impl Bounded {
    fn push(&mut self, text: &str) -> Option<()> {
        if text.len() > MOST_OF_STRING - self.0.len() {
            return None;
        }
        self.0.push_str(text);
        Some(())
    }
}

/// The name in `(NAME)…` and what comes after it.
fn reference(text: &str) -> Option<(&str, &str)> {
    text.strip_prefix('(')?.split_once(')')
}
