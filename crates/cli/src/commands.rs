//! The commands: those that query a running agent, and those that work without one.
//!
//! Each command is a function of its arguments and its output, with a thin `run` that passes the real ones.

pub mod agent;
mod colours;
pub(crate) mod completion;
pub(crate) mod config_check;
pub mod describe;
pub mod display;
pub mod events;
pub mod evict_plan;
pub mod exec;
pub mod gc;
pub mod get_node;
pub mod get_pods;
pub mod image_why;
pub mod logs;
mod marked_yaml;
pub mod node_clean;
pub mod output;
pub(crate) mod pod_gc;
mod pod_gc_why;
pub mod pods_table;
pub mod port_forward;
mod pulling;
mod refused;
pub mod screen;
pub(crate) mod select;
mod stream;
pub mod table;
mod terminal;
#[cfg(test)]
mod test_pods;
mod waiting_volumes;
pub mod watch_pods;
mod websocket;
pub mod why;

use std::path::PathBuf;

use anyhow::{Context, Result};

use self::agent::AgentClient;

/// The command line is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(crate) struct UsageError(pub(crate) String);

/// The location of the agent's files.
#[derive(Debug, Clone, clap::Args)]
pub struct Place {
    /// The agent's root directory (--root-dir).
    #[arg(long, value_name = "DIR", default_value = "/var/lib/kubelet")]
    pub root_dir: PathBuf,
}

impl Place {
    fn agent(&self) -> AgentClient {
        AgentClient::new(&self.root_dir)
    }
}

/// Runs a command to its end.
pub(crate) fn block_on(command: impl Future<Output = Result<()>>) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("start the async runtime")?;
    runtime.block_on(command)
}
