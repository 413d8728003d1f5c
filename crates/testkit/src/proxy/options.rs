//! The command line of `cri-proxy`.

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::{Context, Result};
use lexopt::prelude::*;

use super::Fault;

/// What `--help` shows.
pub const USAGE: &str = "\
usage: cri-proxy --socket PATH --runtime PATH [OPTION...]
  Passes the calls of a node agent on to a container runtime (CRI v1), and spoils those it is told to.
  Prints a line when it is ready, ends on SIGTERM or SIGINT, and removes its sockets.

  --socket PATH    where it listens
  --runtime PATH   where the runtime listens
  --fault 'METHOD=KIND [skip=N] [times=N|all] [after=DURATION]'
                   spoils calls of a method (repeatable): N of them (1), after letting N pass (0),
                   having waited for DURATION (0)
  --control PATH   a second socket that answers each line with a line of JSON: the number of calls and
                   bytes per method; `reset` starts anew; `arrivals METHOD` tells when the latest calls
                   came, `faults` what is left; also `fault ...` and `clear`

  kinds: unavailable, not-found, deadline,
         too-large                          answered so, and not passed on
         hang                               neither answered nor passed on
         late                               passed on, the answer thrown away";

/// What the command line says.
#[derive(Debug)]
pub struct Options {
    /// Where to listen.
    pub socket: PathBuf,
    /// Where the runtime listens.
    pub runtime: PathBuf,
    /// Where to answer questions.
    pub control: Option<PathBuf>,
    /// What goes wrong from the start.
    pub faults: Vec<Fault>,
}

impl Options {
    /// Reads the arguments after the program's name. None when help is asked for.
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
        let socket = socket.context("--socket is needed")?;
        let runtime = runtime.context("--runtime is needed")?;
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
