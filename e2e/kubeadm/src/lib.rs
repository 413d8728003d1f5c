//! A cluster that upstream's kubeadm sets up, with ferrolet as the kubelet of both nodes: `make kubeadm`.
//!
//! - Input: kubeadm, the programs of a cluster and their images, which `make kubeadm` builds into the cache; the
//!   commands of `docs/install.md`.
//! - Output: a line for every step, passed or failed; the table of results in `docs/kubeadm`; the logs of all programs
//!   in the cache.
//! - Invariant: each node is an instance of the testbed, with separate namespaces and a separate containerd: however a
//!   run ends, nothing of it is left.
//!
//! Nothing of kubeadm is changed. A node has a small service manager in place of systemd (`node/systemctl`).
#![allow(
    clippy::disallowed_methods,
    reason = "a test tool: it works on real files, processes and time"
)]

pub mod add_ons;
pub mod cluster;
pub mod commands;
pub mod lifecycle;
pub mod node;
pub mod page;
pub mod pods;
pub mod replace;
pub mod settled;
pub mod steps;
