//! The size of a machine, and its start.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, ensure};
use guest::{INIT, MODULES, PORT, PROGRAM};
use testbed::Cache;

use crate::Root;
use crate::modules::Modules;

/// The parts of a machine.
#[derive(Debug, Clone)]
pub struct Machine {
    /// Its memory, which also holds its files.
    pub mebibytes: u32,
    /// The number of its CPUs.
    pub processors: u32,
    /// The kernel modules it needs, beyond those for the connection to its holder.
    pub modules: Vec<&'static str>,
    /// The program that is pid 1; the guest's own without it.
    pub init: Option<String>,
    /// Further kernel parameters, separated by blanks.
    pub parameters: &'static str,
}

/// The modules of the connection between holder and guest.
const PORT_MODULES: [&str; 2] = ["virtio_pci", "virtio_console"];

/// The parts of a machine that the cache holds.
#[derive(Debug)]
struct Parts {
    directory: PathBuf,
}

impl Parts {
    fn find() -> Result<Self> {
        let directory = Cache::from_env()?.parts().vm();
        let parts = Self { directory };
        for path in [parts.guest(), parts.kernel(), parts.modules()] {
            ensure!(path.exists(), "{} is missing: run `make testbed`", path.display());
        }
        Ok(parts)
    }

    fn guest(&self) -> PathBuf {
        self.directory.join("guest")
    }

    fn kernel(&self) -> PathBuf {
        self.directory.join("kernel/vmlinuz")
    }

    fn modules(&self) -> PathBuf {
        self.directory.join("kernel/modules")
    }
}

impl Machine {
    /// Starts the machine with these files, which are put into an archive; its console is its output, and its serial
    /// port is `socket`.
    pub(crate) fn start(&self, mut root: Root, archive: &Path, socket: &Path) -> Result<Child> {
        let parts = Parts::find()?;
        root.copy("/init", &parts.guest());
        root.link(PROGRAM, "init");
        for place in ["/dev", "/proc", "/root", "/run", "/sys", "/tmp", "/var/lib", "/var/log"] {
            root.directory(place);
        }
        root.link("/var/run", "../run");
        self.put_modules(&mut root, &parts)?;
        root.write(archive)?;
        let mut command = self.command(&parts.kernel(), archive, socket)?;
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        command.spawn().with_context(|| format!("run {command:?}"))
    }

    fn put_modules(&self, root: &mut Root, parts: &Parts) -> Result<()> {
        let wanted: Vec<&str> =
            PORT_MODULES.into_iter().chain(self.modules.iter().copied()).collect();
        let mut list = String::new();
        for file in Modules::below(&parts.modules())?.in_order(&wanted)? {
            let name = file.file_name().context("a module has a name")?.to_string_lossy();
            let place = format!("/lib/modules/{name}");
            root.copy(&place, &file);
            list.push_str(&place);
            list.push('\n');
        }
        root.text(MODULES, list);
        Ok(())
    }

    /// An emulated CPU is slow, but available everywhere and the same everywhere.
    fn command(&self, kernel: &Path, archive: &Path, socket: &Path) -> Result<Command> {
        let init = self.init.as_ref().map(|init| format!(" {INIT}={init}")).unwrap_or_default();
        let mut command = Command::new(testbed::program()?);
        command
            .args(["follow", &std::process::id().to_string(), "--", "qemu-system-x86_64"])
            .args(["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none"])
            .args(["-nic", "none", "-machine", "q35", "-cpu", "max"])
            .args(["-accel", "tcg,thread=multi,tb-size=256"])
            .args(["-smp", &self.processors.to_string(), "-m", &format!("{}M", self.mebibytes)])
            .args(["-chardev", "stdio,id=console,signal=off", "-serial", "chardev:console"])
            .arg("-chardev")
            .arg(format!("socket,id=guest,path={}", socket.display()))
            .args(["-device", "virtio-serial", "-device"])
            .arg(format!("virtserialport,chardev=guest,name={PORT}"))
            .arg("-kernel")
            .arg(fs::canonicalize(kernel).context("find the kernel")?)
            .arg("-initrd")
            .arg(archive)
            .arg("-append")
            // On a busy host the kernel's check of the timer fails, and it would panic.
            .arg(format!(
                "console=ttyS0 quiet panic=-1 mitigations=off tsc=reliable no_timer_check{init} {}",
                self.parameters
            ));
        Ok(command)
    }
}
