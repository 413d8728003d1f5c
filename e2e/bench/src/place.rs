//! The place of a scenario: an instance of the testbed with containerd, or with a new hollow runtime for each turn, and
//! a proxy in front of it that only counts.

use std::io::{BufRead as _, BufReader, ErrorKind, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;
use std::{fs, io};

use anyhow::{Context, Result, ensure};
use testbed::wait;
use testbed::{Command, Instance, Options, Process};
use testkit::proxy::{Proxy, serve};
use testkit::socket::bind;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;

use crate::agent::{Directories, Programs};
use crate::plan::On;
use crate::runtime::Direct;

/// The call that begins the start of a container.
pub const CREATE: &str = "CreateContainer";
/// The call after which a container runs.
pub const START: &str = "StartContainer";

/// The timeout of short operations.
const MOMENT: Duration = Duration::from_mins(1);

/// The instance of all scenarios.
#[derive(Debug)]
pub struct Place {
    instance: Instance,
    on: On,
    programs: Programs,
    /// The runtime of proxies and clients.
    tasks: Runtime,
}

/// An empty runtime, and a proxy in front of it that only counts.
#[derive(Debug)]
pub struct Stage<'a> {
    /// Its place.
    pub place: &'a Place,
    /// The proxy.
    pub proxy: Proxy,
    /// The runtime behind the proxy.
    pub runtime: Direct,
    /// The agent's directories, empty.
    pub directories: Directories,
    /// The socket of the agent's runtime.
    pub socket: PathBuf,
    serving: JoinHandle<Result<()>>,
    hollow: Option<Process>,
}

impl Place {
    /// Starts the instance.
    pub fn start(programs: Programs, on: On) -> Result<Self> {
        let tasks = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .context("start the async runtime")?;
        let runtime = match on {
            On::Containerd => testbed::Runtime::WithImages,
            On::Hollow => testbed::Runtime::None,
        };
        let options = Options { runtime, ..Options::default() };
        let instance = Instance::start(&options).context("start an instance of the testbed")?;
        Ok(Self { instance, on, programs, tasks })
    }

    /// The instance.
    pub fn instance(&self) -> &Instance {
        &self.instance
    }

    /// The programs.
    pub fn programs(&self) -> &Programs {
        &self.programs
    }

    /// Stops everything. Fails if anything is left behind.
    pub fn stop(self) -> Result<()> {
        Ok(self.instance.stop()?)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.instance.dir().join(name)
    }

    /// A runtime, a proxy and directories for one turn.
    pub fn stage(&self) -> Result<Stage<'_>> {
        self.stage_with(&[])
    }

    /// Like `stage`, with options for the hollow runtime.
    pub fn stage_with(&self, options: &[&str]) -> Result<Stage<'_>> {
        self.sweep()?;
        let (behind, hollow) = match self.on {
            On::Containerd => (self.instance.containerd_socket(), None),
            On::Hollow => (self.file("hollow.sock"), Some(self.start_hollow(options)?)),
        };
        let (proxy, socket, serving) = self.proxy(&behind)?;
        let directories = self.directories();
        let runtime = Direct::to(&behind, self.tasks.handle());
        Ok(Stage { place: self, proxy, runtime, directories, socket, serving, hollow })
    }

    /// A proxy of a runtime, its socket, and the task that serves it.
    pub(crate) fn proxy(&self, behind: &Path) -> Result<(Proxy, PathBuf, JoinHandle<Result<()>>)> {
        let socket = self.file("proxy.sock");
        let handle = self.tasks.handle();
        let _inside = handle.enter();
        let proxy = Proxy::new(behind.to_owned());
        let serving = handle.spawn(serve(proxy.clone(), bind(&socket)?));
        Ok((proxy, socket, serving))
    }

    /// The directories and files of an agent.
    pub(crate) fn directories(&self) -> Directories {
        Directories {
            manifests: self.file("agent/manifests"),
            root: self.file("agent/root"),
            config: self.file("agent/config.yaml"),
            kubeconfig: None,
        }
    }

    /// A client of containerd, without a proxy.
    pub(crate) fn containerd(&self) -> Direct {
        Direct::to(&self.instance.containerd_socket(), self.tasks.handle())
    }

    fn start_hollow(&self, options: &[&str]) -> Result<Process> {
        let text = |path: &Path| path.display().to_string();
        let command = Command::new(text(&self.programs.hollow))
            // Without logs, the kubelet would recreate them every few seconds.
            .arg("--write-logs")
            .args(options.iter().copied())
            .args(["--socket", &text(&self.file("hollow.sock"))])
            .args(["--counters", &text(&self.file("counters.sock"))]);
        let log = self.instance.dir().join("log/hollow.log");
        remove(fs::remove_file(log))?;
        let process = self.instance.spawn("hollow", &command).context("start hollow")?;
        wait::until("hollow is ready", MOMENT, || {
            let log = process.log();
            Ok(if log.contains("ready on") { Ok(()) } else { Err(log) })
        })?;
        Ok(process)
    }

    /// Removes the leftovers of an agent: its directories, logs of its pods, and cgroups.
    pub(crate) fn sweep(&self) -> Result<()> {
        let script = "
            cd \"$1\" && awk -v dir=\"$1\" 'index($2, dir \"/agent\") == 1 { print $2 }' /proc/mounts |
                sort -r | xargs -r umount
            rm -rf \"$1/agent\" /var/log/pods /var/log/containers || exit 1
            for cgroup in /sys/fs/cgroup/kubepods /sys/fs/cgroup/*/kubepods; do
                [ ! -d \"$cgroup\" ] || find \"$cgroup\" -depth -type d -exec rmdir {} +
            done";
        let dir = self.instance.dir().display().to_string();
        let command = Command::new("sh").args(["-c", script, "sweep", &dir]);
        let output = self.instance.run(&command).context("remove leftovers of an agent")?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "remove leftovers of an agent: {stderr}");
        Ok(())
    }
}

impl Stage<'_> {
    /// Removes all pods, and stops the stage.
    pub fn clear(self) -> Result<()> {
        match &self.hollow {
            Some(hollow) => {
                hollow.kill()?;
                hollow.wait(MOMENT)?;
            }
            None => self.runtime.empty()?,
        }
        self.serving.abort();
        self.place.sweep()
    }

    /// Kills a container of the hollow runtime.
    pub fn kill_hollow(&self, container: &str) -> Result<()> {
        let socket = self.place.file("counters.sock");
        let mut stream = UnixStream::connect(&socket).context("connect to hollow")?;
        stream.set_read_timeout(Some(MOMENT))?;
        writeln!(stream, "kill {container}").context("send a request to hollow")?;
        let mut answer = String::new();
        BufReader::new(stream).read_line(&mut answer).context("read the response of hollow")?;
        ensure!(answer.contains("done"), "hollow does not kill {container}: {answer}");
        Ok(())
    }
}

/// Missing files are no error.
fn remove(done: io::Result<()>) -> Result<()> {
    match done {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error).context("remove a log"),
        _ => Ok(()),
    }
}
