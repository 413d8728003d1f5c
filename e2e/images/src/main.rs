//! Writes the images of the testbed, or serves them.
#![allow(
    clippy::disallowed_methods,
    reason = "a tool for tests, which reads and writes the files it is asked for"
)]

use std::fs;
use std::io::{self, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use anyhow::Context;
use lexopt::{Arg, ValueExt};
use test_images::Image;
use test_images::conformance::{self, Inputs};
use test_images::kubeadm::{self, Versions};
use test_images::registry::{Fault, Registry, serve};

const USAGE: &str = "usage: test-images --workload EXECUTABLE --into DIRECTORY
       test-images conformance --testbed DIRECTORY --workload EXECUTABLE --into DIRECTORY
       test-images kubeadm --testbed DIRECTORY --workload EXECUTABLE --into DIRECTORY
                   --kubernetes VERSION --coredns VERSION --etcd VERSION
       test-images serve --from DIRECTORY [--port PORT] [--login NAME:PASSWORD [--tokens]] [--pace BYTES]
                         [--fault NAME=KIND*COUNT]…";

/// How clients get images from the registry.
#[derive(Default)]
struct Access {
    /// `NAME:PASSWORD`: only clients with this login are served.
    login: Option<String>,
    /// Clients exchange the login for a token.
    tokens: bool,
    /// Requests that fail.
    faults: Vec<Fault>,
    /// The bytes of a body that are sent in a tenth of a second; without it, all at once.
    pace: Option<NonZeroUsize>,
}

/// What to do.
enum Task {
    /// Write the images around a workload into a directory.
    Write { workload: PathBuf, into: PathBuf },
    /// Write the images of upstream's end-to-end suite, from the programs that `make conformance` built into
    /// the testbed.
    WriteConformance { testbed: PathBuf, workload: PathBuf, into: PathBuf },
    /// Write the images of a cluster of kubeadm, from what `make kubeadm` built into the testbed.
    WriteKubeadm { testbed: PathBuf, workload: PathBuf, into: PathBuf, versions: Versions },
    /// Serve the images of a directory to programs on this machine; port 0 takes any free port.
    Serve { from: PathBuf, port: u16, access: Access },
}

fn main() -> anyhow::Result<()> {
    match arguments().context(USAGE)? {
        Task::Write { workload, into } => write_images(&workload, &into),
        Task::WriteConformance { testbed, workload, into } => {
            let inputs = Inputs::read(&testbed, &read_workload(&workload)?)?;
            write_all(&conformance::images(&inputs), &into)
        }
        Task::WriteKubeadm { testbed, workload, into, versions } => {
            let images = kubeadm::images(&testbed, &read_workload(&workload)?, &versions)?;
            write_all(&images, &into)
        }
        Task::Serve { from, port, access } => serve_images(&from, port, access),
    }
}

fn write_images(workload: &Path, into: &Path) -> anyhow::Result<()> {
    let executable = read_workload(workload)?;
    write_all(&test_images::catalogue(&executable), into)?;
    write_all(&test_images::extra(&executable), &into.join(test_images::EXTRA))
}

fn read_workload(workload: &Path) -> anyhow::Result<Vec<u8>> {
    fs::read(workload).with_context(|| format!("reading the workload {}", workload.display()))
}

fn write_all(images: &[Image], into: &Path) -> anyhow::Result<()> {
    for image in images {
        let path = image.write(into)?;
        writeln!(io::stdout(), "{} in {}", image.name(), path.display())?;
    }
    Ok(())
}

/// Prints the address once it is ready, then a line for every request.
fn serve_images(from: &Path, port: u16, access: Access) -> anyhow::Result<()> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port))
        .with_context(|| format!("listening on port {port}"))?;
    let registry = Registry::open(from)?.paced(access.pace).with_faults(access.faults);
    let registry = match &access.login {
        Some(login) if access.tokens => registry.with_token_login(login, listener.local_addr()?),
        Some(login) => registry.with_login(login),
        None => registry,
    };
    writeln!(io::stdout(), "{}", listener.local_addr()?)?;
    serve(&registry, &listener, &|line| {
        // The address cannot be printed when stdout is closed; pulls still work.
        writeln!(io::stdout(), "{line}").ok();
    });
    Ok(())
}

/// The command line as it is written.
#[derive(Default)]
struct Arguments {
    /// The word before the options.
    task: Option<String>,
    workload: Option<PathBuf>,
    into: Option<PathBuf>,
    from: Option<PathBuf>,
    testbed: Option<PathBuf>,
    port: u16,
    access: Access,
    /// The versions of Kubernetes, CoreDNS and etcd.
    versions: [Option<String>; 3],
}

fn arguments() -> Result<Task, lexopt::Error> {
    let mut parser = lexopt::Parser::from_env();
    let mut given = Arguments::default();
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Value(word) if given.task.is_none() => given.task = Some(word.string()?),
            Arg::Long("testbed") => given.testbed = Some(parser.value()?.into()),
            Arg::Long("from") => given.from = Some(parser.value()?.into()),
            Arg::Long("port") => given.port = parser.value()?.parse()?,
            Arg::Long("pace") => given.access.pace = Some(parser.value()?.parse()?),
            Arg::Long("login") => given.access.login = Some(parser.value()?.string()?),
            Arg::Long("tokens") => given.access.tokens = true,
            Arg::Long("fault") => given.access.faults.push(parser.value()?.parse()?),
            Arg::Long("workload") => given.workload = Some(parser.value()?.into()),
            Arg::Long("into") => given.into = Some(parser.value()?.into()),
            Arg::Long("kubernetes") => given.versions[0] = Some(parser.value()?.string()?),
            Arg::Long("coredns") => given.versions[1] = Some(parser.value()?.string()?),
            Arg::Long("etcd") => given.versions[2] = Some(parser.value()?.string()?),
            other => return Err(other.unexpected()),
        }
    }
    given.task()
}

impl Arguments {
    fn task(self) -> Result<Task, lexopt::Error> {
        let name = self.task.as_deref().unwrap_or_default();
        if name == "serve" {
            let from = self.from.ok_or("--from is needed")?;
            return Ok(Task::Serve { from, port: self.port, access: self.access });
        }
        let workload = self.workload.ok_or("--workload is needed")?;
        let into = self.into.ok_or("--into is needed")?;
        let testbed = self.testbed.ok_or("--testbed is needed");
        match name {
            "" => Ok(Task::Write { workload, into }),
            "conformance" => Ok(Task::WriteConformance { testbed: testbed?, workload, into }),
            "kubeadm" => {
                let [Some(kubernetes), Some(coredns), Some(etcd)] = self.versions else {
                    return Err("--kubernetes, --coredns and --etcd are needed".into());
                };
                let versions = Versions { kubernetes, coredns, etcd };
                Ok(Task::WriteKubeadm { testbed: testbed?, workload, into, versions })
            }
            other => Err(format!("unknown task {other}").into()),
        }
    }
}
