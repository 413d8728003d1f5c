//! Generated gRPC code, compiled once for everybody who speaks to the outside.
//!
//! Purpose: the messages, clients and servers of the protocols that a node agent speaks: [`runtime_v1`], the
//! container runtime interface (CRI v1), which it calls; [`podresources_v1`] and [`podresources_v1alpha1`], by
//! which it is asked.
//!
//! Inputs: `proto/`, our own definitions with upstream's names, numbers and types. They leave out
//! what serves Windows, and deprecated fields that upstream sends no more; an unknown field on the
//! wire is skipped.
//!
//! Outputs: one module per folder, written by `cargo run -p xtask --features proto -- proto` and
//! checked in, so that a normal build needs no generator.
//!
//! Invariants, held by the tests of this crate:
//! - every item of `proto/` exists upstream and is the same there, and nothing else is missing;
//! - the checked-in code was generated from the definitions beside it;
//! - no `Debug` output shows a registry credential.
//!
//! Neither side comes with a transport: whoever dials or listens asks for tonic's `channel` or
//! `server` feature itself. A server's methods answer `Unimplemented` until they are written, as an
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

/// Which resources pods have, asked of the node's agent.
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

/// The same as it was asked once: devices alone.
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
