//! Prepares pods of manifests like an API server.
//!
//! Purpose: an API server never sees a static pod, so its node does the same work here:
//! decode the manifest, set defaults, validate every field that a node acts on, and assign the pod's
//! identity.
//!
//! Inputs: the bytes of a manifest in YAML or JSON, its origin, the name of the node.
//! Outputs: pods that can run, with warnings; or all problems, with the paths of the
//! fields. [`read_manifest`] does all steps, in this order:
//!
//! ```text
//! bytes ─ decode ─> Pod ─ set_defaults ─> Pod ─ static_pod ─> Pod ─ validate ─> ready
//! ```
//!
//! Invariants:
//! - no input panics, and limits stop every one that would take more than seconds or megabytes;
//! - setting defaults is idempotent;
//! - equal content at an equal origin on an equal node has an equal uid, and every edit changes it;
//! - all problems of a pod are reported together;
//! - no I/O, no clock: the same input yields the same output.
//!
//! Also, for all pods: [`definition_hash`], which shows whether a running container matches its
//! specification, [`restart`] for restart policies, [`qos_class`],
//! [`quantity`] for quantities, [`Allocation`] for resizable resources, [`resources`]
//! for requests and limits, [`image_name`] for image names, and [`objects`] for the
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
mod swap;
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
pub use swap::may_swap;
pub use unsupported::unsupported;
pub use validate::validate;
pub use volume_source::names as volume_kinds;
