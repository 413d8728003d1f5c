//! The programs that can be the agent of a node.

use anyhow::{Context, Result};
use testbed::{Cache, Command};

use crate::node::program;

/// Which program is the agent of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Agent {
    /// Ours.
    #[default]
    Ferrolet,
    /// The upstream kubelet: what a test asks of our agent it must ask of this one, too.
    Upstream,
}

impl Agent {
    /// The name of its logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ferrolet => "ferrolet",
            Self::Upstream => "kubelet",
        }
    }

    /// How it is called, before its flags.
    pub(crate) fn command(self) -> Result<Command> {
        match self {
            Self::Ferrolet => {
                Ok(Command::new(program("ferrolet")?.display().to_string()).arg("run"))
            }
            Self::Upstream => {
                let kubelet = Cache::from_env()?.parts().program("kubelet");
                Ok(Command::new(kubelet.to_str().context("a path of text")?))
            }
        }
    }
}
