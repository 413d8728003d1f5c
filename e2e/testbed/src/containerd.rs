//! containerd inside an instance: configuration, start, readiness and images.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use serde_json::json;

use crate::deadline::Deadline;
use crate::error::{AtPath, PathError};
use crate::mounts::{CONTAINERD_ROOT, CONTAINERD_STATE};
use crate::network::Addresses;
use crate::paths::{CacheError, InstanceDir, Parts};
use crate::process::{Command, Init, Process, ProcessError};

const START: Duration = Duration::from_mins(1);
const QUESTION: Duration = Duration::from_secs(10);
const CTR: Duration = Duration::from_mins(1);
/// The namespace in which the CRI plugin keeps its containers and images.
const CRI_NAMESPACE: &str = "k8s.io";
/// How many lines of containerd's log an error has.
const LOG_LINES: usize = 30;

/// Why containerd does not run.
#[derive(Debug, thiserror::Error)]
pub enum ContainerdError {
    #[error("cannot write its configuration")]
    Configure(#[source] PathError),
    #[error("cannot make its disk")]
    Disk(#[source] PathError),
    #[error("cannot make its disk: {program}: {stderr}")]
    MakeDisk { program: &'static str, stderr: String },
    #[error("cannot start it")]
    Start(#[source] ProcessError),
    #[error("its state is unknown")]
    Ask(#[source] ProcessError),
    #[error("it ended at once; the end of its log:\n{log}")]
    Ended { log: String },
    #[error("it did not answer in {} s ({answer}); the end of its log:\n{log}", START.as_secs())]
    Silent { answer: String, log: String },
    #[error("there are no images to import")]
    Images(#[source] CacheError),
    #[error("importing {} failed: {stderr}", archive.display())]
    Import { archive: PathBuf, stderr: String },
}

/// The inputs for starting containerd in an instance.
#[derive(Debug)]
pub(crate) struct Containerd<'a> {
    pub(crate) addresses: Addresses,
    pub(crate) dir: &'a InstanceDir,
    pub(crate) parts: &'a Parts,
    pub(crate) init: &'a Init,
}

impl Containerd<'_> {
    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Puts containerd's data on its own disk: a file that is mounted only in the instance. The kernel releases it with
    /// the last mount.
    pub(crate) fn make_disk(&self, bytes: u64) -> Result<(), ContainerdError> {
        let image = self.path("containerd.img");
        let made = fs::File::create(&image).and_then(|file| file.set_len(bytes));
        made.at("make", &image).map_err(ContainerdError::Disk)?;
        let image = text(&image);
        let steps: [(&'static str, &[&str]); 2] = [
            ("mkfs.ext4", &["-q", "-F", "-m", "0", "-O", "^has_journal", &image]),
            ("mount", &["-o", "loop", &image, CONTAINERD_ROOT]),
        ];
        for (program, args) in steps {
            let command = Command::new(program).args(args.iter().copied());
            let output = self.init.run(&command, CTR).map_err(ContainerdError::Ask)?;
            if !output.status.success() {
                let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                return Err(ContainerdError::MakeDisk { program, stderr });
            }
        }
        Ok(())
    }

    /// Writes the configuration; `extra` is TOML that is appended.
    pub(crate) fn configure(&self, extra: &str) -> Result<(), ContainerdError> {
        let config = self.path("containerd.toml");
        let write = || {
            for directory in [self.path("cni"), self.dir.logs()] {
                fs::create_dir_all(&directory).at("make", &directory)?;
            }
            fs::write(&config, self.config(extra)).at("write", &config)
        };
        write().map_err(ContainerdError::Configure)
    }

    /// Writes the configuration of the pod network. It is written in place: containerd does not notice a file that is
    /// moved there.
    pub(crate) fn configure_network(&self) -> Result<(), ContainerdError> {
        let config = self.path("cni").join("10-testbed.conflist");
        let written = fs::write(&config, self.network_config()).at("write", &config);
        written.map_err(ContainerdError::Configure)
    }

    /// Everything with a default on the host is a path in the instance, or off. Lowering an OOM score takes
    /// `CAP_SYS_RESOURCE`, so scores are kept within bounds. A crash of the machine ends the instance, so its database
    /// need not be synced to disk.
    fn config(&self, extra: &str) -> String {
        format!(
            r#"version = 3
root = "{CONTAINERD_ROOT}"
state = "{CONTAINERD_STATE}"
imports = []
disabled_plugins = [
  "io.containerd.differ.v1.erofs",
  "io.containerd.image-verifier.v1.bindir",
  "io.containerd.internal.v1.opt",
  "io.containerd.internal.v1.tracing",
  "io.containerd.mount-handler.v1.erofs",
  "io.containerd.snapshotter.v1.blockfile",
  "io.containerd.snapshotter.v1.erofs",
  "io.containerd.snapshotter.v1.native",
  "io.containerd.tracing.processor.v1.otlp",
]

[grpc]
  address = {grpc}

[ttrpc]
  address = {ttrpc}

[plugins."io.containerd.metadata.v1.bolt"]
  no_sync = true

[plugins."io.containerd.nri.v1.nri"]
  disable = true

[plugins."io.containerd.cri.v1.images"]
  snapshotter = "overlayfs"
  [plugins."io.containerd.cri.v1.images".pinned_images]
    sandbox = "ferrolet.test/pause:1"

[plugins."io.containerd.cri.v1.runtime"]
  restrict_oom_score_adj = true
  enable_unprivileged_ports = true
  enable_unprivileged_icmp = true
  cdi_spec_dirs = []
  [plugins."io.containerd.cri.v1.runtime".cni]
    bin_dirs = [{cni_bin}]
    conf_dir = {cni_conf}
  [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.cri.v1.runtime".containerd.runtimes.runc.options]
      BinaryName = {runc}
      SystemdCgroup = false

{extra}
"#,
            grpc = quoted(&self.dir.containerd_socket()),
            ttrpc = quoted(&self.dir.ttrpc_socket()),
            cni_bin = quoted(&self.parts.cni()),
            cni_conf = quoted(&self.path("cni")),
            runc = quoted(&self.parts.program("runc")),
        )
    }

    fn network_config(&self) -> String {
        let pods = self.addresses.pods().to_string();
        let ipam = json!({
            "type": "host-local",
            "dataDir": self.path("ipam"),
            "ranges": [[{ "subnet": pods }]],
            "routes": [{ "dst": "0.0.0.0/0" }],
        });
        let bridge = json!({
            "type": "bridge",
            "bridge": "cni0",
            "isGateway": true,
            "ipMasq": false,
            "hairpinMode": true,
            "ipam": ipam,
        });
        let portmap = json!({ "type": "portmap", "capabilities": { "portMappings": true } });
        let list = json!({
            "cniVersion": "1.0.0",
            "name": "testbed",
            "plugins": [bridge, portmap],
        });
        list.to_string()
    }

    /// Starts containerd and waits until it answers.
    pub(crate) fn start(&self) -> Result<Process, ContainerdError> {
        // containerd searches its shim in PATH; one of another version would be incompatible.
        let path =
            format!("{}:{}", self.parts.bin().display(), std::env::var("PATH").unwrap_or_default());
        let command = Command::new(text(&self.parts.program("containerd")))
            .args(["--config", &text(&self.path("containerd.toml"))])
            .env("PATH", path);
        let log = self.dir.logs().join("containerd.log");
        let process = self.init.spawn(&command, &log).map_err(ContainerdError::Start)?;
        let mut answer = "it got no request".to_owned();
        let up = Deadline::after(START).poll(|| self.answers(&process, &mut answer).transpose());
        match up {
            Some(up) => up.map(|()| process),
            None => Err(ContainerdError::Silent { answer, log: tail(&process.log()) }),
        }
    }

    fn answers(
        &self,
        process: &Process,
        answer: &mut String,
    ) -> Result<Option<()>, ContainerdError> {
        if !process.is_alive().map_err(ContainerdError::Ask)? {
            return Err(ContainerdError::Ended { log: tail(&process.log()) });
        }
        // The socket is tried first: that is cheaper than a program that fails.
        if let Err(error) = std::os::unix::net::UnixStream::connect(self.dir.containerd_socket()) {
            *answer = error.to_string();
            return Ok(None);
        }
        let output = match self.ctr_within(&["version"], QUESTION) {
            Err(ProcessError::StillRunning { .. }) => {
                "it keeps its client waiting".clone_into(answer);
                return Ok(None);
            }
            other => other.map_err(ContainerdError::Ask)?,
        };
        String::from_utf8_lossy(&output.stderr).trim().clone_into(answer);
        Ok(output.status.success().then_some(()))
    }

    pub(crate) fn import_images(&self) -> Result<(), ContainerdError> {
        for archive in self.parts.images().map_err(ContainerdError::Images)? {
            let output =
                self.ctr(&["images", "import", &text(&archive)]).map_err(ContainerdError::Ask)?;
            if !output.status.success() {
                let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
                return Err(ContainerdError::Import { archive, stderr });
            }
        }
        Ok(())
    }

    /// Runs containerd's own client on the namespace of the CRI plugin.
    pub(crate) fn ctr(&self, args: &[&str]) -> Result<Output, ProcessError> {
        self.ctr_within(args, CTR)
    }

    fn ctr_within(&self, args: &[&str], time: Duration) -> Result<Output, ProcessError> {
        let command = Command::new(text(&self.parts.program("ctr")))
            .args(["--address", &text(&self.dir.containerd_socket())])
            .args(["--namespace", CRI_NAMESPACE])
            .args(args.iter().copied());
        self.init.run(&command, time)
    }
}

/// All paths are in the cache directory, whose name is plain text.
fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// A JSON string is a TOML string.
fn quoted(path: &Path) -> String {
    json!(text(path)).to_string()
}

fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
}
