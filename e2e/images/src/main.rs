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
use test_images::registry::{Fault, Registry, serve};

const USAGE: &str = "usage: test-images --workload EXECUTABLE --into DIRECTORY
       test-images conformance --testbed DIRECTORY --workload EXECUTABLE --into DIRECTORY
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

fn arguments() -> Result<Task, lexopt::Error> {
    let mut parser = lexopt::Parser::from_env();
    let (mut workload, mut into, mut from, mut testbed) = (None, None, None, None);
    let mut access = Access::default();
    let (mut serving, mut for_conformance, mut port) = (false, false, 0);
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Value(word) if word == "serve" && !serving => serving = true,
            Arg::Value(word) if word == "conformance" && !serving => for_conformance = true,
            Arg::Long("testbed") if for_conformance => testbed = Some(parser.value()?.into()),
            Arg::Long("from") if serving => from = Some(parser.value()?.into()),
            Arg::Long("port") if serving => port = parser.value()?.parse()?,
            Arg::Long("pace") if serving => access.pace = Some(parser.value()?.parse()?),
            Arg::Long("login") if serving => access.login = Some(parser.value()?.string()?),
            Arg::Long("tokens") if serving => access.tokens = true,
            Arg::Long("fault") if serving => access.faults.push(parser.value()?.parse()?),
            Arg::Long("workload") if !serving => workload = Some(parser.value()?.into()),
            Arg::Long("into") if !serving => into = Some(parser.value()?.into()),
            other => return Err(other.unexpected()),
        }
    }
    if serving {
        return Ok(Task::Serve { from: from.ok_or("--from is needed")?, port, access });
    }
    let workload = workload.ok_or("--workload is needed")?;
    let into = into.ok_or("--into is needed")?;
    if for_conformance {
        let testbed = testbed.ok_or("--testbed is needed")?;
        return Ok(Task::WriteConformance { testbed, workload, into });
    }
    Ok(Task::Write { workload, into })
}
