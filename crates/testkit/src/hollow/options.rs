//! The command line of `hollow`.
#![allow(clippy::disallowed_methods, reason = "a test tool reads the file that it is given")]

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use lexopt::prelude::*;
use model::ports::runtime::ImageUser;

use super::{Delay, Failure, Population, Settings};

/// The text of `--help`.
pub const USAGE: &str = "\
usage: hollow --socket PATH [OPTION...]
  A container runtime (CRI v1) without containers: pods run in memory only.
  Prints a line when it is ready, ends on SIGTERM or SIGINT, and removes its sockets.

  --socket PATH               where it listens
  --pods N [--containers M]   N pods of M containers (1) run from the start
  --dead N [--containers M]   N pods that have ended, of M dead instances (1) of their container
  --population FILE           the pods of a JSON file run from the start
                              ({\"pods\": [{\"name\", \"uid\", \"containers\": [{\"name\"}]}]})
  --image NAME                an image that can be pulled (repeatable); without it, all can
  --image-directory DIR       the reported image file system (the socket's directory)
  --image-user NAME=USER      user of an image: a number or a name (repeatable)
  --send-limit BYTES          larger lists are not sent; containerd's limit is 16777216
  --requests DIR              requests that create sandboxes and containers are recorded there
  --write-logs                containers write a line to their log when they start
  --delay METHOD=DURATION     a method takes longer: ListContainers=250ms
  --fail METHOD=CODE[:TIMES]  a method fails: PullImage=Unavailable:3
  --counters PATH             a second socket that answers each line with the number of calls per
                              method as JSON; `reset` clears them; also `kill ID [CODE]`,
                              `delay ...`, `fail ...`, `clear`

  Images below ferrolet.test/ contain only the test workload. Every other image contains every program,
  which runs until it is stopped.";

/// The parsed command line.
#[derive(Debug)]
pub struct Options {
    /// The socket of the CRI server.
    pub socket: PathBuf,
    /// The control socket.
    pub counters: Option<PathBuf>,
    /// The options of the runtime.
    pub settings: Settings,
    /// The initial pods.
    pub population: Population,
    /// The initial delays.
    pub delays: Vec<Delay>,
    /// The initial failures.
    pub failures: Vec<Failure>,
}

/// The options as given.
#[derive(Debug, Default)]
struct ParsedOptions {
    socket: Option<PathBuf>,
    counters: Option<PathBuf>,
    pods: Option<usize>,
    dead: Option<usize>,
    containers: Option<usize>,
    population: Option<PathBuf>,
    images: Vec<String>,
    image_directory: Option<PathBuf>,
    write_logs: bool,
    users: BTreeMap<String, ImageUser>,
    requests: Option<PathBuf>,
    send_limit: Option<usize>,
    delays: Vec<Delay>,
    failures: Vec<Failure>,
}

impl Options {
    /// Parses the arguments after the program's name; `None` for `--help`.
    pub fn parse(args: impl IntoIterator<Item = OsString>) -> Result<Option<Self>> {
        let mut given = ParsedOptions::default();
        let mut parser = lexopt::Parser::from_args(args);
        while let Some(arg) = parser.next()? {
            match arg {
                Long("socket") => given.socket = Some(parser.value()?.into()),
                Long("counters") => given.counters = Some(parser.value()?.into()),
                Long("pods") => given.pods = Some(parser.value()?.parse()?),
                Long("dead") => given.dead = Some(parser.value()?.parse()?),
                Long("containers") => given.containers = Some(parser.value()?.parse()?),
                Long("population") => given.population = Some(parser.value()?.into()),
                Long("image") => given.images.push(parser.value()?.string()?),
                Long("image-directory") => given.image_directory = Some(parser.value()?.into()),
                Long("image-user") => {
                    let (name, user) = image_user(&parser.value()?.string()?)?;
                    given.users.insert(name, user);
                }
                Long("requests") => given.requests = Some(parser.value()?.into()),
                Long("send-limit") => given.send_limit = Some(parser.value()?.parse()?),
                Long("write-logs") => given.write_logs = true,
                Long("delay") => given.delays.push(Delay::parse(&parser.value()?.string()?)?),
                Long("fail") => given.failures.push(Failure::parse(&parser.value()?.string()?)?),
                Long("help") | Short('h') => return Ok(None),
                other => return Err(other.unexpected().into()),
            }
        }
        given.finish().map(Some)
    }
}

impl ParsedOptions {
    fn finish(self) -> Result<Options> {
        let socket = self.socket.context("--socket is required")?;
        let containers = self.containers.unwrap_or(1);
        let population = match (&self.population, self.pods, self.dead) {
            (Some(file), None, None) if self.containers.is_none() => read(file)?,
            (Some(_), _, _) => {
                bail!("--population cannot be combined with --pods, --dead and --containers")
            }
            (None, Some(pods), None) => Population::of(pods, containers),
            (None, None, Some(pods)) => Population::dead(pods, containers),
            (None, Some(_), Some(_)) => bail!("--pods cannot be combined with --dead"),
            (None, None, None) if self.containers.is_some() => {
                bail!("--containers requires --pods or --dead")
            }
            (None, None, None) => Population::default(),
        };
        let directory = match self.image_directory {
            Some(directory) => directory,
            None => directory_of(&socket)?,
        };
        Ok(Options {
            settings: Settings {
                images: (!self.images.is_empty()).then_some(self.images),
                image_directory: directory,
                write_logs: self.write_logs,
                users: self.users,
                requests: self.requests,
                send_limit: self.send_limit,
            },
            socket,
            counters: self.counters,
            population,
            delays: self.delays,
            failures: self.failures,
        })
    }
}

fn image_user(text: &str) -> Result<(String, ImageUser)> {
    let (name, user) = text.rsplit_once('=').with_context(|| format!("{text:?} has no user"))?;
    let user = user.parse().map_or_else(|_| ImageUser::Name(user.to_owned()), ImageUser::Uid);
    Ok((name.to_owned(), user))
}

fn read(file: &Path) -> Result<Population> {
    let text = fs::read(file).with_context(|| format!("read {}", file.display()))?;
    serde_json::from_slice(&text).with_context(|| format!("understand {}", file.display()))
}

/// A client takes the path literally, so it must be absolute.
fn directory_of(socket: &Path) -> Result<PathBuf> {
    let socket = std::path::absolute(socket).context("find the directory of the socket")?;
    let directory = socket.parent().map(Path::to_owned);
    ensure!(directory.is_some(), "{} is not a path of a socket", socket.display());
    Ok(directory.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Option<Options>> {
        Options::parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn options_are_parsed() {
        let line = "--socket /run/x/cri.sock --pods 3 --containers 2 --image a --image=b \
                    --write-logs --delay Version=1s --fail Status=Internal:2 \
                    --image-user a=7 --image-user b=web --requests /tmp/r --counters /run/c --send-limit 99";
        let options = parse(line).unwrap().unwrap();
        assert_eq!(options.socket, Path::new("/run/x/cri.sock"));
        assert_eq!(options.counters.as_deref(), Some(Path::new("/run/c")));
        assert_eq!(options.population, Population::of(3, 2));
        assert_eq!(options.settings.images.unwrap(), ["a", "b"]);
        assert_eq!(options.settings.image_directory, Path::new("/run/x"));
        assert!(options.settings.write_logs);
        let users = &options.settings.users;
        assert_eq!(
            (&users["a"], &users["b"]),
            (&ImageUser::Uid(7), &ImageUser::Name("web".into()))
        );
        assert_eq!(options.settings.requests.as_deref(), Some(Path::new("/tmp/r")));
        assert_eq!(options.settings.send_limit, Some(99));
        assert_eq!((options.delays.len(), options.failures.len()), (1, 1));
        assert!(parse("--help").unwrap().is_none());
    }

    #[test]
    fn invalid_options_are_rejected() {
        let rows = [
            "",
            "--socket",
            "--socket a b",
            "--socket a --pods x",
            "--socket a --containers 2",
            "--socket a --pods 1 --population f",
            "--socket a --image-user x",
            "--socket a --send-limit much",
            "--socket a --delay Version",
            "--socket a --fail Version=Bad",
        ];
        for line in rows {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
