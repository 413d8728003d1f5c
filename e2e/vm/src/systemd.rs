//! A machine whose pid 1 is the host's systemd.

use std::path::Path;

use anyhow::{Result, ensure};

use crate::Root;
use guest::PROGRAM;

const SYSTEMD: &str = "/lib/systemd/systemd";
/// What newer versions start services with.
const EXECUTOR: &str = "/lib/systemd/systemd-executor";
const SYSTEMCTL: &str = "/bin/systemctl";

/// What systemd is to reach: the guest's program, and nothing of what a whole system has.
const TARGET: &str = "[Unit]\nDescription=The machine of a test\nWants=guest.service\n";

/// Whatever the test starts is in this unit's cgroup, and outlives none but the machine.
fn service() -> String {
    format!(
        "[Unit]\nDescription=What does in the machine what the test asks for\nDefaultDependencies=no\n\n\
         [Service]\nExecStart={PROGRAM} serve\nDelegate=yes\nOOMPolicy=continue\nKillMode=process\n\
         TasksMax=infinity\nStandardOutput=file:/dev/console\nStandardError=file:/dev/console\n"
    )
}

/// Puts systemd into a machine's files; answers the program that is to be pid 1.
pub fn put_systemd(root: &mut Root) -> Result<String> {
    ensure!(Path::new(SYSTEMD).exists(), "{SYSTEMD} is missing: run `make testbed`");
    for program in [SYSTEMD, EXECUTOR, SYSTEMCTL].map(Path::new) {
        if program.exists() {
            root.program(&program.to_string_lossy(), program)?;
        }
    }
    root.text("/etc/systemd/system/default.target", TARGET);
    root.text("/etc/systemd/system/guest.service", service());
    root.text("/etc/machine-id", "f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0f0\n");
    root.text("/etc/os-release", "ID=test\n");
    root.link("/usr/lib/systemd", "../../lib/systemd");
    Ok(SYSTEMD.to_owned())
}
