//! The command line, with the syntax of pflag.
//!
//! - `--name=value` or `--name value`; `-v=2`, `-v 2` or `-v2`;
//! - a boolean flag is `--name` or `--name=false`, never `--name false`;
//! - `_` equals `-` in a name;
//! - a list or map given once replaces that of the file; given again, it is appended.
//!
//! [`FlagSet::parse`] reads the arguments; [`FlagSet::apply`] sets the fields of a configuration.
//! Flags without a field are read by name.

mod node_labels;
mod parse;
mod set;
mod table;
mod value;

pub use node_labels::node_label_problems;
pub use parse::FlagError;
pub use set::FlagSet;
pub use value::integer;
pub(crate) use value::parse_bool;

/// The syntax of a flag's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
    /// A boolean; the value may be left out.
    Bool,
    /// Like [`Syntax::Bool`], or `raw`.
    Version,
    /// A whole number.
    Integer,
    /// A number, with or without a fraction.
    Number,
    /// A number of decimal digits.
    Digits,
    /// A duration.
    Duration,
    /// Any text.
    Text,
    /// An IP address; an empty one changes nothing.
    Address,
    /// Texts with commas.
    List,
    /// `key=value` with commas.
    Pairs,
    /// A single `key=value`, which may hold commas.
    OnePair,
    /// `signal<value` with commas.
    Thresholds,
    /// `name=bool` with commas.
    Gates,
    /// `name:value` with commas; a name may be repeated.
    Headers,
    /// `key[=value]` with commas.
    Labels,
    /// `node:type=amount,...`
    ReservedMemory,
    /// `key=value:Effect` with commas.
    Taints,
    /// `pattern=number` with commas.
    Modules,
}

/// What a flag sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// A field of the configuration.
    Field {
        /// Its path.
        path: &'static str,
        /// Whether the field should be set in the file instead.
        deprecated: bool,
    },
    /// A setting without a field.
    Own {
        /// Its default.
        default: &'static str,
        /// The alternative, if it is deprecated.
        deprecated: Option<&'static str>,
    },
    /// Nothing; it is accepted for compatibility.
    Ignored,
}

/// A known flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Flag {
    /// Its name, without hyphens in front.
    pub name: &'static str,
    /// How its value is written.
    pub syntax: Syntax,
    /// What it sets.
    pub target: Target,
}

impl Flag {
    /// The alternative to this flag, if it is deprecated.
    pub fn advice(&self) -> Option<String> {
        match self.target {
            Target::Field { path, deprecated: true } => {
                Some(format!("set {path} in the file given by --config"))
            }
            Target::Field { .. } => None,
            Target::Own { deprecated, .. } => deprecated.map(str::to_owned),
            Target::Ignored => Some("it has no effect".to_owned()),
        }
    }
}

/// Every flag, by name.
pub fn known() -> &'static [Flag] {
    table::FLAGS
}

/// The flag of that name, with hyphens.
pub fn find(name: &str) -> Option<&'static Flag> {
    find_among(known(), name)
}

/// The flag of that name in a list sorted by name.
fn find_among(flags: &'static [Flag], name: &str) -> Option<&'static Flag> {
    flags.binary_search_by(|flag| flag.name.cmp(name)).ok().map(|index| &flags[index])
}

impl Syntax {
    /// Whether the flag can stand without a value, and never takes the next argument for one.
    pub fn is_switch(self) -> bool {
        matches!(self, Self::Bool | Self::Version)
    }
}
