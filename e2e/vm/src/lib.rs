//! A virtual machine with cgroup v2, in which tests run a node's programs.
//!
//! **In**: the kernel and the guest's program that `make testbed` put into the cache, a [`Root`] with everything else,
//! and a [`Machine`] with its size. **Out**: a [`Vm`] that serves requests.
//!
//! ```text
//! holder (a test)  ── socket: requests, answers ──>  virtual serial port ──> guest serve
//!   └ qemu: an emulated processor, no disk, no network; the root is the initial one of the kernel
//! ```
//!
//! **Invariants**
//! - The machine ends with the thread that holds it: it is killed with it, and dropping a [`Vm`] kills it.
//! - It reaches nothing outside: it has no network and no file of the host.
//! - Every request has a timeout; output of the machine is kept up to a size.
#![allow(
    clippy::disallowed_methods,
    reason = "a test tool: it works on real files, processes and time"
)]

mod console;
mod cpio;
mod machine;
mod modules;
mod root;
mod systemd;
mod vm;

pub use machine::Machine;
pub use root::Root;
pub use systemd::{put_logind, put_systemd};
pub use vm::{Ended, Vm};
