//! Makes the container runtime match a pod's specification.
//!
//! Inputs: a pod, and its status as observed. Outputs: calls to the runtime port, events, and for
//! the caller what is left to do and when.
//!
//! ```text
//!  pod + status ──> decide::pod_actions ──> kill pod │ kill containers ──> sandbox ──> containers
//!                                                                       (image, back-off, create, start)
//! ```
//!
//! Invariants:
//! - what to do is decided on one observation, before anything is done;
//! - an instance that runs as specified is kept: starting the agent again changes nothing;
//! - a failure of one container does not keep the others from starting.

mod act;
mod container;
pub mod decide;
mod error;
mod image;
mod kill;
mod layout;
mod sandbox;

pub use act::{PodRuntime, RuntimeParts};
pub use error::{StartError, SyncError};
pub use layout::LogLayout;
