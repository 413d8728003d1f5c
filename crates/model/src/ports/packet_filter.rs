//! The kernel's packet filter, as `iptables` shows it: chains and rules of tables.

use std::fmt::{self, Debug};
use std::time::Duration;

use async_trait::async_trait;

/// A version of IP; each has tables of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl fmt::Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::V4 => "IPv4",
            Self::V6 => "IPv6",
        })
    }
}

/// A table. Those that the agent needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Table {
    /// Which packets pass.
    Filter,
    /// What is changed of packets.
    Mangle,
    /// Whose addresses are translated.
    Nat,
}

impl Table {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Filter => "filter",
            Self::Mangle => "mangle",
            Self::Nat => "nat",
        }
    }
}

/// A chain of rules in a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FilterChain {
    /// The table that it is in.
    pub table: Table,
    /// Its name there.
    pub name: &'static str,
}

impl fmt::Display for FilterChain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.table.name(), self.name)
    }
}

/// Where a new rule goes in its chain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Before all others.
    First,
    /// Behind them.
    Last,
}

/// A rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FilterRule {
    /// The chain that it is in.
    pub chain: FilterChain,
    /// Where in it.
    pub place: Place,
    /// What it says, in the words of `iptables`. None of them has a quote in it.
    pub words: &'static [&'static str],
}

/// Something that is to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Addition {
    /// A chain without rules.
    Chain(FilterChain),
    /// A rule, in a chain that is there or is made before it.
    Rule(FilterRule),
}

impl Addition {
    /// The table that it is in.
    pub fn table(&self) -> Table {
        match self {
            Self::Chain(chain) => chain.table,
            Self::Rule(rule) => rule.chain.table,
        }
    }
}

/// Why something was not seen or done.
#[derive(Debug, thiserror::Error)]
pub enum FilterError {
    /// There is no such program.
    #[error("there is no {program}")]
    NoProgram {
        /// Its name.
        program: &'static str,
    },
    /// It does not come to an end.
    #[error("{program} takes longer than {limit:?}")]
    TooSlow {
        /// Its name.
        program: &'static str,
        /// How long it may take.
        limit: Duration,
    },
    /// It failed.
    #[error("{program}: {why}")]
    Failed {
        /// Its name.
        program: &'static str,
        /// What it says.
        why: String,
    },
}

/// The packet filter of the host. Others change it, too, at any time.
#[async_trait]
pub trait PacketFilter: Debug + Send + Sync {
    /// Whether there is a chain.
    async fn has_chain(&self, family: Family, chain: FilterChain) -> Result<bool, FilterError>;

    /// Whether there is a rule, in a chain that is there and leading to one that is.
    async fn has_rule(&self, family: Family, rule: &FilterRule) -> Result<bool, FilterError>;

    /// Makes chains and rules, those of one table all or none. A chain that is there already is an error: what
    /// is in it stays.
    async fn add(&self, family: Family, additions: &[Addition]) -> Result<(), FilterError>;
}
