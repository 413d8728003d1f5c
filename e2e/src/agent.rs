//! The programs that can be the agent of a node.

use std::path::Path;

use anyhow::{Result, ensure};
use testbed::{Cache, Command};

use crate::node::program;

/// An agent sets kernel parameters of the whole machine at its start. This script gives it files of its own in their
/// place, below the directory in the first argument. The agent's other mounts are volumes, which the runtime must see.
pub const KEEP_OFF_THE_KERNEL: &str = r#"
set -e
own=$1; shift
mount --make-rprivate /proc
for name in vm/overcommit_memory vm/panic_on_oom kernel/panic kernel/panic_on_oops \
            kernel/keys/root_maxkeys kernel/keys/root_maxbytes; do
    copy=$own/sysctl-$(echo "$name" | tr / -)
    cat "/proc/sys/$name" > "$copy"
    mount --bind "$copy" "/proc/sys/$name"
done
exec "$@"
"#;

/// The program that is the agent of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Agent {
    /// Ours.
    #[default]
    Ferrolet,
    /// The upstream kubelet: tests require the same of it as of our agent.
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

    /// The command, without its flags. Files that it would otherwise leave on the machine go below the directory.
    pub fn command(self, own: &Path) -> Result<Command> {
        match self {
            Self::Ferrolet => {
                Ok(Command::new(program("ferrolet")?.display().to_string()).arg("run"))
            }
            Self::Upstream => {
                let kubelet = Cache::from_env()?.parts().program("kubelet");
                ensure!(kubelet.exists(), "{} is missing: run `make testbed`", kubelet.display());
                Ok(Command::new("unshare")
                    .args(["-m", "--propagation", "unchanged"])
                    .args(["sh", "-c", KEEP_OFF_THE_KERNEL, "sh"])
                    .arg(own.display().to_string())
                    .arg(kubelet.display().to_string()))
            }
        }
    }
}
