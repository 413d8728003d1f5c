//! What an API server does for a pod, for pods that come from a manifest.
//!
//! Purpose: a static pod never meets an API server, so its node does here what the server would do:
//! read the manifest, set defaults, check every field that a node acts on, and give the pod its
//! identity.
//!
//! Inputs: the bytes of a manifest in YAML or JSON, where they come from, the name of the node.
//! Outputs: pods that can run, with warnings; or everything that is wrong, with the paths of the
//! fields. [`read_manifest`] goes the whole way, in this order:
//!
//! ```text
//! bytes ─ decode ─> Pod ─ set_defaults ─> Pod ─ static_pod ─> Pod ─ validate ─> ready
//! ```
//!
//! Invariants:
//! - no input panics, and limits stop every one that would take more than seconds or megabytes;
//! - setting defaults twice is setting them once;
//! - equal content at an equal place on an equal node has an equal uid, and every edit changes it;
//! - all problems of a pod are reported together;
//! - no I/O, no clock: the same input gives the same output.
//!
//! Besides, for all pods: [`definition_hash`], which tells whether a running container is still the
//! one that is wanted, [`restart`] for whether an ended container runs again, [`qos_class`],
//! [`quantity`] for amounts, [`Allocation`] for what can be changed while a pod runs, [`resources`]
//! for what containers ask for and may use, [`image_name`] for image names, and [`objects`] for the
//! secrets and config maps that a pod refers to.

mod actual;
mod allocation;
pub mod annotations;
pub mod apparmor;
mod decode;
#[cfg(test)]
mod decode_tests;
mod defaults;
#[cfg(test)]
mod defaults_tests;
mod definition_hash;
pub mod downward;
mod ephemeral;
pub mod expansion;
mod field_error;
mod fnv;
mod identity;
#[cfg(test)]
mod identity_tests;
pub mod image_name;
mod manifest;
#[cfg(test)]
mod manifest_tests;
pub mod node_selector;
pub mod objects;
#[cfg(test)]
mod pod_strategy;
mod qos;
pub mod recursive_read_only;
mod references;
mod reported_resize;
pub mod resources;
pub mod restart;
#[cfg(test)]
mod restart_tests;
mod sandbox;
mod saved_allocation;
mod unsupported;
mod validate;
pub mod view;
mod volume_source;

pub use actual::{Actual, Sizes, actual};
pub use allocation::{Allocation, ContainerSizes, Size, bytes, thousandths};
pub use decode::{
    DecodeError, Decoded, Language, MAX_MANIFEST_BYTES, Warning, decode, decode_list,
};
pub use defaults::set_defaults;
pub use definition_hash::{definition_hash, definition_hash_hex};
pub use field_error::{ErrorKind, FieldError, FieldPath};
pub use identity::{Origin, is_content_uid, mark_seen, static_pod};
pub use manifest::{Manifest, ManifestError, Problems, read_manifest};
use model::names;
pub use model::quantity;
pub use qos::{QosClass, qos_class};
pub use reported_resize::{RESIZE_IN_PROGRESS, RESIZE_PENDING, ReportedResize, reported_resize};
pub use sandbox::{SandboxFit, live_beside_newest, sandbox_fit};
pub use saved_allocation::SavedAllocation;
pub use unsupported::unsupported;
pub use validate::validate;
pub use volume_source::names as volume_kinds;
