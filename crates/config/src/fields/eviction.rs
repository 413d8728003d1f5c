//! Eviction thresholds and shutdown periods.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use model::quantity::Quantity;
use serde::{Serialize, Serializer};
use serde_json::Value;
use thiserror::Error;

use crate::as_written::AsWritten;
use crate::finding::{At, Findings};
use crate::setting::{Setting, settings, words};

words! {
    /// The signals of evictions.
    pub enum EvictionSignal {
        /// Memory available on the node.
        MemoryAvailable = "memory.available",
        /// Space available on the disk of the agent.
        NodeFsAvailable = "nodefs.available",
        /// Inodes available on that disk.
        NodeFsInodesFree = "nodefs.inodesFree",
        /// Space available on the disk of the images.
        ImageFsAvailable = "imagefs.available",
        /// Inodes available on that disk.
        ImageFsInodesFree = "imagefs.inodesFree",
        /// Space available on the disk of the containers.
        ContainerFsAvailable = "containerfs.available",
        /// Inodes available on that disk.
        ContainerFsInodesFree = "containerfs.inodesFree",
        /// Memory available for pods.
        AllocatableMemoryAvailable = "allocatableMemory.available",
        /// Process ids available.
        PidAvailable = "pid.available",
    }
}

/// The thresholds of a configuration file without any.
pub fn default_hard_eviction() -> BTreeMap<EvictionSignal, Amount> {
    BTreeMap::from([
        (EvictionSignal::MemoryAvailable, Amount::Quantity(AsWritten::known("100Mi"))),
        (EvictionSignal::NodeFsAvailable, Amount::Percentage(Percentage::whole(10))),
        (EvictionSignal::NodeFsInodesFree, Amount::Percentage(Percentage::whole(5))),
        (EvictionSignal::ImageFsAvailable, Amount::Percentage(Percentage::whole(15))),
        (EvictionSignal::ImageFsInodesFree, Amount::Percentage(Percentage::whole(5))),
    ])
}

/// A percentage with its original text: `10%`, `7.5%`.
#[derive(Debug, Clone, PartialEq)]
pub struct Percentage {
    text: String,
    percent: f64,
}

impl Percentage {
    fn whole(percent: u8) -> Self {
        Self { text: format!("{percent}%"), percent: f64::from(percent) }
    }

    /// The number before the sign.
    pub const fn percent(&self) -> f64 {
        self.percent
    }

    /// The original text.
    pub fn as_str(&self) -> &str {
        &self.text
    }
}

/// An amount, or a percentage of the node's capacity.
#[derive(Debug, Clone, PartialEq)]
pub enum Amount {
    /// An amount.
    Quantity(AsWritten<Quantity>),
    /// A percentage.
    Percentage(Percentage),
}

impl Amount {
    /// The original text.
    pub fn as_str(&self) -> &str {
        match self {
            Self::Quantity(quantity) => quantity.as_str(),
            Self::Percentage(percentage) => percentage.as_str(),
        }
    }
}

/// Why a text is not an amount.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{text:?} is not {expected}")]
pub struct ParseAmountError {
    text: String,
    expected: &'static str,
}

impl FromStr for Percentage {
    type Err = ParseAmountError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.strip_suffix('%')
            .and_then(|number| number.parse().ok())
            .filter(|percent: &f64| percent.is_finite())
            .map(|percent| Self { text: text.to_owned(), percent })
            .ok_or_else(|| ParseAmountError {
                text: text.to_owned(),
                expected: "a percentage such as 10%",
            })
    }
}

impl FromStr for Amount {
    type Err = ParseAmountError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.ends_with('%') {
            return text.parse().map(Self::Percentage);
        }
        text.parse().map(Self::Quantity).map_err(|_| ParseAmountError {
            text: text.to_owned(),
            expected: "a quantity such as 100Mi or a percentage such as 10%",
        })
    }
}

macro_rules! written_as_text {
    ($($ty:ty),*) => {$(
        impl fmt::Display for $ty {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl Serialize for $ty {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl Setting for $ty {
            fn read(node: &Value, at: &At<'_>, findings: &mut Findings) -> Option<Self> {
                let text = String::read(node, at, findings)?;
                match text.parse() {
                    Ok(value) => Some(value),
                    Err(error) => {
                        findings.error(at, error);
                        None
                    }
                }
            }
        }
    )*};
}
written_as_text!(Percentage, Amount);

settings! {
    /// How long a shutdown of the machine waits for pods of some priority and above.
    pub struct ShutdownGracePeriodByPodPriority {
        /// The lowest priority this applies to.
        priority: i32 = "priority", absent(0);
        /// The time.
        shutdown_grace_period_seconds: i64 = "shutdownGracePeriodSeconds", absent(0);
    }
}
