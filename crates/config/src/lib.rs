//! The configuration of the agent: `KubeletConfiguration` of `kubelet.config.k8s.io/v1beta1`.
//!
//! Purpose: to read the file, complete it with defaults and check it, so that the rest of the agent
//! sees one object in which every field has its effective value.
//!
//! Inputs: a file in YAML or JSON, a directory of drop-ins, the flags of the command line. Outputs:
//! a [`KubeletConfiguration`] and warnings, or one error that names every wrong field with its path.
//!
//! ```text
//! file ──decode──▶ document ──complete──▶ configuration ──validate──▶ Loaded
//!                     ▲                     │       ▲
//!                     └──merge drop-ins─────┘       └── flags
//! ```
//!
//! Invariants:
//! - reading, completing and checking are three steps; an invalid field never hides another one;
//! - completing is idempotent: an encoded configuration decodes to the same configuration;
//! - drop-ins win over the file, flags over both; a zero of a flag counts, one of a file may mean unset;
//! - an unknown or repeated field of the main file is a warning, a value of the wrong type an error.
#![allow(
    clippy::disallowed_methods,
    reason = "configuration files are read here, before anything else runs"
)]

mod as_written;
mod cpu_list;
mod decode;
mod defaults;
mod dropins;
pub mod duration;
mod effective;
mod encode;
mod ferrolet;
mod fields;
mod finding;
pub mod flags;
pub mod gates;
mod load;
mod paths;
pub mod pod_gc;
mod setting;
mod source_files;
mod validate;

pub use as_written::{AsWritten, CanonicalQuantity};
pub use decode::{DecodeError, DocumentKind, KUBELET};
pub use duration::GoDuration;
pub use effective::RestartBackOff;
pub use ferrolet::{EventBookLimits, FERROLET, FerroletConfiguration, Observation, load_ferrolet};
pub use fields::*;
pub use finding::{FieldError, FieldErrors, Findings, Warning};
pub use load::{ConfigError, Loaded, load, load_sources, load_sources_for};
pub use setting::UnknownWord;
pub use validate::{CgroupVersion, validate, validate_cgroup_version};
