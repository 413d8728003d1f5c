//! An isolated instance of real containerd, for tests and for `make run`, and of a real control plane.
//!
//! **In**: the parts and image archives that `make testbed` put into the cache, and [`Options`]. **Out**: an
//! [`Instance`]: a small node with containerd running, in which programs are started, signalled and awaited; and in it,
//! where a test needs one, a [`ControlPlane`].
//!
//! ```text
//! holder (a test, `testbed run`)      host namespaces; holds an Instance
//!   │ pipe: its end ends everything
//! supervise                           host namespaces, own session; owns slot, cgroups, veth, directory
//!   │ pipe: its end ends pid 1
//! init (pid 1)                        own mount, PID, network and cgroup namespaces
//!   └ containerd, shims, containers, etcd, kube-apiserver, whatever the holder spawns through init's socket
//! ```
//!
//! **Access.** The instance's directory has the same path inside and outside, so sockets, certificates and kubeconfigs
//! in it work in both. Ports on the node's address ([`Instance::node_ip`], on `eth0`) are reached from the host, over
//! the link to the instance: so a test calls the API server from its own process. Ports on 127.0.0.1 are reachable only
//! inside; [`Instance::run`] runs a program there. Files are read through the root of pid 1 ([`Instance::read_file`]),
//! without starting a process.
//!
//! **Invariants**
//! - Nothing stays, whichever process dies: the holder's death closes the supervisor's pipe, the supervisor's death
//!   closes pid 1's pipe, pid 1's death kills its PID namespace. The next start removes what a supervisor killed by
//!   force leaves behind (cgroups, directory).
//! - Instances are isolated. A slot number gives each its directory, cgroup name, host link, node address and pod
//!   subnet; ports, `/run`, `/var/lib`, `/var/log` and cgroup roots are private.
//! - A container runtime installed on the host is never touched.
//!
//! Resources that a kernel has only once are shared: devices (loop devices too), modules, and kernel settings other
//! than those a node agent changes when it starts. A test that uses them cleans up itself.
#![allow(
    clippy::disallowed_methods,
    reason = "a test tool: it works on real files, processes and time"
)]

mod cgroup;
mod children;
mod containerd;
mod control_plane;
mod deadline;
mod enter;
mod error;
mod files;
mod follow;
mod hold;
mod host;
mod init;
mod instance;
mod mountinfo;
mod mounts;
mod network;
mod paths;
mod process;
mod protocol;
mod run;
mod slot;
mod snapshot;
mod supervise;
mod supervisor;
mod sweep;
pub mod wait;
mod wire;

pub use containerd::ContainerdError;
pub use control_plane::{
    Component, ControlPlane, ControlPlaneError, ControlPlaneOptions, PkiError, User,
};
pub use enter::{EnterError, enter};
pub use error::{Error, PathError};
pub use follow::{FollowError, follow};
pub use host::CommandError;
pub use init::init;
pub use instance::{Instance, Options, Runtime};
pub use network::{Addresses, NetworkError};
pub use paths::{Cache, CacheError, InstanceDir, Parts};
pub use process::{Command, Process, ProcessError};
pub use protocol::Signal;
pub use run::run;
pub use snapshot::{Snapshot, SnapshotError};
pub use supervise::supervise;
pub use supervisor::{SupervisorError, program};

/// The environment variable of everything that runs inside an instance: its slot number.
pub const MARKER: &str = "FERROLET_TESTBED_INSTANCE";
