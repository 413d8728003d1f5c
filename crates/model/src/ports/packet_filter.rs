//! The kernel's packet filter, as `iptables` shows it: chains and rules of tables.

use std::fmt::{self, Debug};
use std::time::Duration;

use async_trait::async_trait;

/// An IP family; each has its own tables.
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

/// A table that the agent needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Table {
    /// `filter`: which packets pass.
    Filter,
    /// `mangle`: changes of packets.
    Mangle,
    /// `nat`: address translation.
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

/// The position of a new rule in its chain.
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
    /// Its position in the chain.
    pub place: Place,
    /// The arguments of `iptables`. No argument contains a quote.
    pub words: &'static [&'static str],
}

/// A chain or rule to create.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Addition {
    /// A chain without rules.
    Chain(FilterChain),
    /// A rule, in an existing chain or one that is created before it.
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

/// Why an operation failed.
#[derive(Debug, thiserror::Error)]
pub enum FilterError {
    /// The program does not exist.
    #[error("{program} is not installed")]
    NoProgram {
        /// Its name.
        program: &'static str,
    },
    /// It timed out.
    #[error("{program} takes longer than {limit:?}")]
    TooSlow {
        /// Its name.
        program: &'static str,
        /// The timeout.
        limit: Duration,
    },
    /// It failed.
    #[error("{program}: {why}")]
    Failed {
        /// Its name.
        program: &'static str,
        /// Its output.
        why: String,
    },
}

/// The packet filter of the host. Others change it, too, at any time.
#[async_trait]
pub trait PacketFilter: Debug + Send + Sync {
    /// Whether a chain exists.
    async fn has_chain(&self, family: Family, chain: FilterChain) -> Result<bool, FilterError>;

    /// Whether a rule exists, in an existing chain and with an existing target.
    async fn has_rule(&self, family: Family, rule: &FilterRule) -> Result<bool, FilterError>;

    /// Creates chains and rules, all or none per table. An existing chain is an error, and its rules
    /// stay.
    async fn add(&self, family: Family, additions: &[Addition]) -> Result<(), FilterError>;
}
