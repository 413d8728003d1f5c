//! Parses the arguments.

use thiserror::Error;

use super::set::FlagSet;
use super::{Flag, Syntax, known, table, value};

/// Why a command line is invalid.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FlagError {
    /// The flag is unknown.
    #[error("unknown flag {flag}")]
    Unknown {
        /// The flag as it was written on the command line.
        flag: String,
    },
    /// The flag no longer exists.
    #[error("flag --{flag} was removed from Kubernetes: {instead}")]
    Removed {
        /// Its name.
        flag: String,
        /// The alternative.
        instead: &'static str,
    },
    /// The flag needs a value.
    #[error("flag {flag} needs a value")]
    NoValue {
        /// The flag as it was written on the command line.
        flag: String,
    },
    /// The value has the wrong syntax.
    #[error("flag --{flag} cannot be {value:?}: {problem}")]
    BadValue {
        /// Its name.
        flag: &'static str,
        /// The value.
        value: String,
        /// The error.
        problem: String,
    },
    /// An argument is not a flag, for example `true` in `--flag true`.
    #[error("unexpected argument {argument:?}")]
    Positional {
        /// The argument.
        argument: String,
    },
}

impl FlagSet {
    /// Parses the arguments after the name of the program.
    pub fn parse<I>(args: I) -> Result<Self, FlagError>
    where
        I: IntoIterator<Item: Into<String>>,
    {
        Self::parse_with(known(), args)
    }

    /// Parses the arguments of a program with other flags, which are sorted by name.
    pub fn parse_with<I>(flags: &'static [Flag], args: I) -> Result<Self, FlagError>
    where
        I: IntoIterator<Item: Into<String>>,
    {
        let mut set = Self { flags, given: Vec::new() };
        let mut args = args.into_iter().map(Into::into);
        while let Some(argument) = args.next() {
            if argument == "--" {
                return match args.next() {
                    Some(argument) => Err(FlagError::Positional { argument }),
                    None => Ok(set),
                };
            }
            if let Some(flag) = argument.strip_prefix("--") {
                set.long(flag, &mut args)?;
            } else if argument.len() > 1 && argument.starts_with('-') {
                set.short(&argument[1..], &mut args)?;
            } else {
                return Err(FlagError::Positional { argument });
            }
        }
        Ok(set)
    }

    fn long(
        &mut self,
        text: &str,
        rest: &mut impl Iterator<Item = String>,
    ) -> Result<(), FlagError> {
        let (name, value) = match text.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (text, None),
        };
        let name = name.replace('_', "-");
        let Some(flag) = self.find(&name) else {
            return Err(match table::REMOVED.iter().find(|(removed, _)| *removed == name) {
                Some((_, instead)) => FlagError::Removed { flag: name, instead },
                None => FlagError::Unknown { flag: format!("--{name}") },
            });
        };
        let value = match value {
            Some(value) => value,
            None if flag.syntax.is_switch() => "true".to_owned(),
            None => rest.next().ok_or_else(|| FlagError::NoValue { flag: format!("--{name}") })?,
        };
        self.add(flag, value)
    }

    fn short(
        &mut self,
        letters: &str,
        rest: &mut impl Iterator<Item = String>,
    ) -> Result<(), FlagError> {
        for (index, letter) in letters.char_indices() {
            let flag = self
                .shorthand(letter)
                .ok_or_else(|| FlagError::Unknown { flag: format!("-{letter}") })?;
            let behind = &letters[index + letter.len_utf8()..];
            if let Some(value) = behind.strip_prefix('=') {
                return self.add(flag, value.to_owned());
            }
            if !flag.syntax.is_switch() {
                let value = if behind.is_empty() { rest.next() } else { Some(behind.to_owned()) };
                let value =
                    value.ok_or_else(|| FlagError::NoValue { flag: format!("-{letter}") })?;
                return self.add(flag, value);
            }
            self.add(flag, "true".to_owned())?;
        }
        Ok(())
    }

    /// The flag of a letter.
    fn shorthand(&self, letter: char) -> Option<&'static Flag> {
        match letter {
            'h' => self.find("help"),
            'v' => self.find("v"),
            _ => None,
        }
    }

    fn add(&mut self, flag: &'static Flag, value: String) -> Result<(), FlagError> {
        match value::join(flag.syntax, &[&value]) {
            Ok(_) => {
                self.given.push((flag, value));
                Ok(())
            }
            Err(problem) => {
                // Headers may hold secrets.
                let secret = flag.syntax == Syntax::Headers;
                let value = if secret { "<masked>".to_owned() } else { value };
                Err(FlagError::BadValue { flag: flag.name, value, problem })
            }
        }
    }
}
