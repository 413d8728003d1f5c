//! Credentials for image pulls, and records of which credentials pulled which image.
//!
//! ```text
//!  pull secrets of the pod  ─┐
//!  config.json of the node  ─┼─> keyring ─> credentials of a pull ─> runtime port ─> record on disk
//!  plugins (credential      ─┘                     │                                     │
//!  providers)                                      └──> may this pod use the present image? <┘
//! ```
//! Inputs: pods, secrets, files of the node, output of plugins, the images that the runtime has. Outputs: credentials,
//! and the answer whether a pod may use an image, through the port `ImageAccess` of `model`; records below
//! `<root-dir>/image_manager` in upstream's format.
//!
//! Invariants:
//! - no credential, token or output of a plugin is logged, printed or part of an error;
//! - an intent is on disk before its pull begins, and stays until the pull is recorded or has failed: an image that was
//!   being pulled when the agent was killed does not count as preloaded;
//! - what cannot be read or decided is a pull: the registry decides then;
//! - one task writes the records;
//! - a plugin is killed at its deadline, and equal requests share one run.

mod access;
pub mod decide;
mod metrics;
mod node_config;
mod providers;
mod pull_secrets;
mod read_providers;
mod records;

pub use access::{AccessParts, NodeImageAccess};
pub use metrics::AccessMetrics;
pub use node_config::NodeConfigDirectories;
pub use providers::{ProviderParts, ServiceAccounts};
pub use read_providers::{ProviderSettings, ProvidersError, read_providers};
pub use records::{PullRecords, RecordParts, RecordTask, pull_records};
