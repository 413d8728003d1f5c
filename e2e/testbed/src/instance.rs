//! An instance, as its holder sees it.

use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;
use std::{fs, io};

use crate::containerd::Containerd;
use crate::control_plane::{ControlPlane, ControlPlaneOptions, Place};
use crate::error::{AtPath, Error};
use crate::files::Files;
use crate::network::Addresses;
use crate::paths::{Cache, InstanceDir, Parts};
use crate::process::{Command, Init, Process};
use crate::supervisor::{Ready, Supervisor};

/// The timeout of a program that the holder waits for.
const RUN: Duration = Duration::from_mins(1);

/// The program that the instance runs from its start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Runtime {
    /// Nothing: empty namespaces.
    None,
    /// containerd without images.
    Bare,
    /// containerd with the images that `make testbed` builds.
    #[default]
    WithImages,
}

/// How to start an instance.
#[derive(Debug, Clone, Default)]
pub struct Options {
    pub runtime: Runtime,
    /// TOML that is appended to containerd's configuration.
    pub containerd_config: String,
    /// The size in bytes of a separate disk for containerd's data; without, it is on the host's.
    pub containerd_disk: Option<u64>,
    /// Pods have no network before [`Instance::give_network`].
    pub without_network: bool,
}

/// A small node with real containerd.
///
/// Dropping it removes everything; [`stop`](Self::stop) does so and returns errors.
#[derive(Debug)]
pub struct Instance {
    slot: u8,
    addresses: Addresses,
    dir: InstanceDir,
    parts: Parts,
    init: Init,
    files: Files,
    containerd: Option<Process>,
    /// Last, so that it is dropped last.
    supervisor: Supervisor,
}

impl Instance {
    /// Makes an instance and waits until all of it is ready. Needs root.
    pub fn start(options: &Options) -> Result<Self, Error> {
        if !rustix::process::geteuid().is_root() {
            return Err(Error::NotRoot);
        }
        let cache = Cache::from_env().map_err(Error::Cache)?;
        let parts = cache.parts();
        if options.runtime != Runtime::None {
            parts.check().map_err(Error::Cache)?;
        }
        if options.runtime == Runtime::WithImages {
            parts.images().map_err(Error::Cache)?;
        }
        let (supervisor, ready) = Supervisor::start().map_err(Error::Supervisor)?;
        let Ready { slot, dir, addresses } = ready;
        let init = Init::at(dir.init_socket());
        let files = Files::of_listener(&dir.init_socket()).map_err(Error::Files)?;
        let mut instance =
            Self { slot, addresses, dir, parts, init, files, containerd: None, supervisor };
        let logs = instance.dir.logs();
        fs::create_dir_all(&logs).at("make", &logs).map_err(Error::Log)?;
        if options.runtime != Runtime::None {
            instance.bring_up_containerd(options).map_err(Error::Containerd)?;
        }
        Ok(instance)
    }

    fn bring_up_containerd(&mut self, options: &Options) -> Result<(), crate::ContainerdError> {
        let containerd = self.runtime();
        if let Some(bytes) = options.containerd_disk {
            containerd.make_disk(bytes)?;
        }
        containerd.configure(&options.containerd_config)?;
        if !options.without_network {
            containerd.configure_network()?;
        }
        let process = containerd.start()?;
        if options.runtime == Runtime::WithImages {
            containerd.import_images()?;
        }
        self.containerd = Some(process);
        Ok(())
    }

    fn runtime(&self) -> Containerd<'_> {
        let addresses = self.addresses;
        Containerd { addresses, dir: &self.dir, parts: &self.parts, init: &self.init }
    }

    /// Starts a control plane in the instance and waits until it is ready. It ends with the instance.
    pub fn start_control_plane(
        &self,
        options: &ControlPlaneOptions,
    ) -> Result<ControlPlane, Error> {
        self.parts.check_control_plane().map_err(Error::Cache)?;
        let place = Place {
            dir: self.dir.clone(),
            parts: self.parts.clone(),
            init: self.init.clone(),
            address: self.node_ip(),
        };
        ControlPlane::start(place, options).map_err(Error::ControlPlane)
    }

    /// Stops everything in the instance, removes it, and waits for that.
    pub fn stop(mut self) -> Result<(), Error> {
        self.supervisor.stop().map_err(Error::Supervisor)
    }

    /// The instance's directory, with the same path inside and outside.
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub fn slot(&self) -> u8 {
        self.slot
    }

    /// The CRI socket of containerd, reachable from inside and outside.
    pub fn containerd_socket(&self) -> PathBuf {
        self.dir.containerd_socket()
    }

    /// The address of the instance's `eth0`.
    pub fn node_ip(&self) -> Ipv4Addr {
        self.addresses.node()
    }

    /// The host's address for the instance.
    pub fn host_ip(&self) -> Ipv4Addr {
        self.addresses.host()
    }

    /// The subnet of the pods' addresses, routed from the host.
    pub fn pod_cidr(&self) -> String {
        self.addresses.pods().to_string()
    }

    /// The pid of the supervisor on the host, for tests that kill it.
    pub fn supervisor_pid(&self) -> u32 {
        self.supervisor.pid()
    }

    /// Starts a program; its output goes to `log/<name>.log` in the instance's directory.
    pub fn spawn(&self, name: &str, command: &Command) -> Result<Process, Error> {
        let log = self.dir.logs().join(format!("{name}.log"));
        self.init.spawn(command, &log).map_err(Error::Process)
    }

    /// Starts a program with the holder's own standard input, output and error.
    pub fn spawn_attached(&self, command: &Command) -> Result<Process, Error> {
        let (stdin, stdout, stderr) = (io::stdin(), io::stdout(), io::stderr());
        let descriptors = [stdin.as_fd(), stdout.as_fd(), stderr.as_fd()];
        self.init.spawn_with(command, descriptors).map_err(Error::Process)
    }

    /// Runs a program, for a minute at most.
    pub fn run(&self, command: &Command) -> Result<Output, Error> {
        self.init.run(command, RUN).map_err(Error::Process)
    }

    /// Reads a file inside the instance. The kernel writes some files for the process that reads them, which is one
    /// of the host here: paths in `/proc/<pid>/cgroup` begin at the host's root, and there is no `/proc/self`.
    pub fn read_file(&self, path: impl AsRef<Path>) -> io::Result<Vec<u8>> {
        self.files.read(path.as_ref())
    }

    /// Whether a path leads to a file inside the instance.
    pub fn path_exists(&self, path: impl AsRef<Path>) -> io::Result<bool> {
        self.files.exists(path.as_ref())
    }

    /// The sorted names in a directory inside the instance; none if there is no such directory.
    pub fn names_in(&self, directory: impl AsRef<Path>) -> io::Result<Vec<String>> {
        self.files.names_in(directory.as_ref())
    }

    /// Runs containerd's own client on the namespace of the CRI plugin.
    pub fn ctr(&self, args: &[&str]) -> Result<Output, Error> {
        self.runtime().ctr(args).map_err(Error::Process)
    }

    /// Gives containerd a pod network, which it notices by itself.
    pub fn give_network(&self) -> Result<(), Error> {
        self.runtime().configure_network().map_err(Error::Containerd)
    }

    /// containerd, unless the instance was started without.
    pub fn containerd(&self) -> Option<&Process> {
        self.containerd.as_ref()
    }

    /// Kills containerd, if it still runs, and starts it again. Containers stay.
    pub fn restart_containerd(&mut self) -> Result<(), Error> {
        self.stop_containerd()?;
        self.start_containerd()
    }

    /// Kills containerd, if it still runs. Containers stay.
    pub fn stop_containerd(&mut self) -> Result<(), Error> {
        if let Some(process) = self.containerd.take()
            && process.is_alive().map_err(Error::Process)?
        {
            process.kill().map_err(Error::Process)?;
            process.wait(RUN).map_err(Error::Process)?;
        }
        Ok(())
    }

    /// Starts containerd after it was stopped.
    pub fn start_containerd(&mut self) -> Result<(), Error> {
        let process = self.runtime().start().map_err(Error::Containerd)?;
        self.containerd = Some(process);
        Ok(())
    }
}
