//! The configuration as the upstream kubelet interprets it, compared with the kubelet itself.
//!
//! Every case under `cases/` is a configuration file, flags, drop-ins, or some of them. The kubelet is started with it
//! without a cluster, in an instance of the testbed with an in-memory runtime, and `ferrolet config check` gets the
//! same input. Needs root and the parts that `make testbed` builds.
#![allow(
    clippy::disallowed_methods,
    reason = "tests on the real thing: real files, processes and time"
)]

mod accepted;
mod blame;
mod case;
mod certificates;
mod help;
mod keyring;
mod refused;
mod upstream;
