//! The command line, by the rules of pflag.
//!
//! - `--name=value` or `--name value`; `-v=2`, `-v 2` or `-v2`;
//! - a yes-or-no flag is `--name` or `--name=false`, never `--name false`;
//! - `_` equals `-` in a name;
//! - a list or map given once replaces what the file says; given again, it adds to itself.
//!
//! [`FlagSet::parse`] reads the arguments; [`FlagSet::apply`] sets the fields of a configuration.
//! Flags without a field are asked for by name.

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

/// How the value of a flag is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Syntax {
    /// Yes or no; the value may be left out.
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
    /// `name:value` with commas; a name may come again.
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
    /// Something that no field can say.
    Own {
        /// What it is when the flag is absent.
        default: &'static str,
        /// What to do instead, if it is on its way out.
        deprecated: Option<&'static str>,
    },
    /// Nothing; it is accepted because it once was.
    Ignored,
}

/// A flag that is known.
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
    /// What to do instead of giving this flag, if it is on its way out.
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

/// The flag of that name among others, which are in the order of their names.
fn find_among(flags: &'static [Flag], name: &str) -> Option<&'static Flag> {
    flags.binary_search_by(|flag| flag.name.cmp(name)).ok().map(|index| &flags[index])
}

impl Syntax {
    /// Whether the flag can stand without a value, and never takes the next argument for one.
    pub fn is_switch(self) -> bool {
        matches!(self, Self::Bool | Self::Version)
    }
}
