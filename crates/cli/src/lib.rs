//! The program `ferrolet`: its command line and its commands.
//!
//! Inputs: the arguments of the process. Outputs: the node agent or the Pod GC controller, which run until they are
//! stopped, or the text of a command on standard output, notes and errors on standard error, and an exit code.
//!
//! Invariants:
//! - under the name `kubelet`, and after `run`, the arguments are the kubelet's flags, with the kubelet's syntax;
//! - a command queries a running agent through the agent's socket;
//! - `node clean` first takes the lock of the agent's root directory, and records each removal in the agent's journal;
//! - a command writes to the writer that its caller passes, so that tests can read its output.

mod command_line;
pub mod commands;
mod run_help;

pub use command_line::main;
