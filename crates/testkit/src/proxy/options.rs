//! The command line of `cri-proxy`.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, Result};
use lexopt::prelude::*;

use super::Fault;

/// The text of `--help`.
pub const USAGE: &str = "\
usage: cri-proxy --socket PATH --runtime PATH [OPTION...]
  Forwards the calls of a node agent to a container runtime (CRI v1), and injects faults into chosen ones.
  Prints a line when it is ready, ends on SIGTERM or SIGINT, and removes its sockets.

  --socket PATH    where it listens
  --runtime PATH   where the runtime listens
  --fault 'METHOD=KIND [skip=N] [times=N|all] [after=DURATION]'
                   a fault of a method (repeatable): applies to N calls (1), after N calls without it (0),
                   and after waiting for DURATION (0)
  --control PATH   a second socket that answers each line with a line of JSON: the number of calls and
                   bytes per method; `reset` clears them; `arrivals METHOD` returns the times of the latest
                   calls, `faults` the remaining faults; also `fault ...` and `clear`

  kinds: unavailable, not-found, deadline,
         too-large                          answered with this error, not forwarded
         hang                               neither answered nor forwarded
         late                               forwarded, the response is dropped";

/// The parsed command line.
#[derive(Debug)]
pub struct Options {
    /// The socket of the proxy.
    pub socket: PathBuf,
    /// The socket of the runtime.
    pub runtime: PathBuf,
    /// The control socket.
    pub control: Option<PathBuf>,
    /// The initial faults.
    pub faults: Vec<Fault>,
}

impl Options {
    /// Parses the arguments after the program's name; `None` for `--help`.
    pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Option<Self>> {
        let (mut socket, mut runtime, mut control, mut faults) = (None, None, None, Vec::new());
        let mut parser = lexopt::Parser::from_args(args);
        while let Some(arg) = parser.next()? {
            match arg {
                Long("socket") => socket = Some(parser.value()?.into()),
                Long("runtime") => runtime = Some(parser.value()?.into()),
                Long("control") => control = Some(parser.value()?.into()),
                Long("fault") => faults.push(Fault::parse(&parser.value()?.string()?)?),
                Long("help") | Short('h') => return Ok(None),
                other => return Err(other.unexpected().into()),
            }
        }
        let socket = socket.context("--socket is required")?;
        let runtime = runtime.context("--runtime is required")?;
        Ok(Some(Self { socket, runtime, control, faults }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(args: &[&str]) -> Result<Option<Options>> {
        Options::parse(args.iter().map(OsString::from))
    }

    #[test]
    fn options_are_parsed_and_invalid_ones_rejected() {
        let sockets = ["--socket", "/run/a", "--runtime", "/run/b"];
        let more = ["--control=/run/c", "--fault", "Version=hang times=2", "--fault=Status=late"];
        let options = parse(&[&sockets[..], &more].concat()).unwrap().unwrap();
        assert_eq!(options.socket, PathBuf::from("/run/a"));
        assert_eq!(options.runtime, PathBuf::from("/run/b"));
        assert_eq!(options.control, Some(PathBuf::from("/run/c")));
        assert_eq!(options.faults.len(), 2);
        assert!(parse(&["-h"]).unwrap().is_none());
        for wrong in [&["--fault", "Version"][..], &["extra"], &["--control"]] {
            assert!(parse(&[&sockets[..], wrong].concat()).is_err(), "{wrong:?}");
        }
        assert!(parse(&sockets[..2]).is_err() && parse(&sockets[2..]).is_err());
    }
}
