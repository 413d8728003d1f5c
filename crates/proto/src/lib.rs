//! Generated gRPC code, compiled once for all crates that use it.
//!
//! Purpose: the messages, clients and servers of the protocols of a node agent: [`runtime_v1`], the
//! container runtime interface (CRI v1), which it calls; [`podresources_v1`] and [`podresources_v1alpha1`], which
//! it serves.
//!
//! Inputs: `proto/`, our own definitions with upstream's names, numbers and types. They omit
//! Windows, and deprecated fields that upstream no longer sends; unknown fields on the
//! wire are skipped.
//!
//! Outputs: one module per folder, written by `cargo run -p xtask --features proto -- proto` and
//! checked in, so that a normal build needs no generator.
//!
//! Invariants, held by the tests of this crate:
//! - every item of `proto/` is the same upstream, and no other item is missing;
//! - the checked-in code was generated from the definitions beside it;
//! - no `Debug` output shows a registry credential.
//!
//! There is no transport: a crate that dials or listens enables tonic's `channel` or
//! `server` feature itself. A server's methods return `Unimplemented` by default, as an
//! older runtime would. Maps are ordered, so that equal messages have equal bytes.

/// The container runtime interface: pods, containers and images of a runtime on this machine.
#[allow(
    clippy::all,
    clippy::pedantic,
    clippy::let_underscore_must_use,
    deprecated,
    unreachable_pub,
    unused_qualifications,
    reason = "generated code"
)]
pub mod runtime_v1;

/// The PodResources API of the node agent.
#[allow(
    clippy::all,
    clippy::pedantic,
    clippy::let_underscore_must_use,
    deprecated,
    unreachable_pub,
    unused_qualifications,
    reason = "generated code"
)]
pub mod podresources_v1;

/// Its first version, with devices only.
#[allow(
    clippy::all,
    clippy::pedantic,
    clippy::let_underscore_must_use,
    deprecated,
    unreachable_pub,
    unused_qualifications,
    reason = "generated code"
)]
pub mod podresources_v1alpha1;

mod redacted;
