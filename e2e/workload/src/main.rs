//! The program that runs in test containers, and as the pause container of their sandboxes.
//!
//! It is one static executable that needs nothing from the image it is in.
//!
//! - Input: a command on the command line (see [`USAGE`]), the environment, and signals.
//! - Output: lines on standard output or standard error, and an exit code chosen by the command.
//! - Invariant: SIGTERM and SIGINT end every command at once with 128 plus their number, unless the
//!   command itself says otherwise. The kernel drops signals that pid 1 has no handler for, so this
//!   takes a handler: without one, every container would last until the end of its grace period.
#![allow(
    clippy::disallowed_methods,
    reason = "a program of its own, run for its effect in real time; nothing of the node agent is in it"
)]

mod command;
mod fetch;
mod files;
mod grpc;
mod logs;
mod pause;
mod serve;
mod show;
mod signal;
mod tar;
mod terminal;
mod wait;

use std::env;
use std::io::{self, Write};
use std::path::Path;
use std::process::exit;

use command::Command;

/// Exit code for a command line that makes no sense.
const EXIT_USAGE: i32 = 2;
/// Exit code when the operating system refused something.
const EXIT_FAILURE: i32 = 125;

const USAGE: &str = "\
usage: workload COMMAND
  pause                                      reap children; SIGTERM and SIGINT end it with 0
  sleep DURATION|forever                     then exit with 0
  exit CODE                                  at once
  crash-after DURATION [CODE]                exit with CODE, 1 by default
  logs --rate PER_SECOND|max [--count LINES] [--stderr] [--size BYTES]
                                             numbered lines, of BYTES each with the line feed
  trap SIGNAL... [--exit CODE] [--delay DURATION]
                                             print what arrives; after the first, DURATION and exit
  ignore SIGNAL...                           and sleep forever
  env                                        print the environment, sorted
  uid                                        print the effective user
  cat FILE                                   print a file
  remove FILE                                remove a file
  cp [-f] FILE... INTO                       copy files into a directory, or one to a path; each appears complete
  args [ARGUMENT...]                         print the arguments, one per line
  write FILE TEXT [--exit CODE]              append a line to a file, then exit with CODE
  hold MEBIBYTES                             take memory, and sleep forever
  fill FILE MEBIBYTES                        write a file of that size, and sleep forever
  serve PORT                                 answer every HTTP request, and print its first line
  get HOST PORT                              request / by HTTP, print the address of HOST and the status
  grpc PORT                                  answer every gRPC call as a healthy server
  copy                                       print what is read
  terminal                                   print the terminal's rows and columns, now and after every
                                             change, until the end of what is read
  tar cf - PATH... | tar xf - [-C DIR]       write an archive, or unpack one
The program runs cp and tar also if it is called by that name.
DURATION is a number with ms, s, m or h behind it; seconds when there is none.
SIGTERM and SIGINT end a command with 128 plus their number, unless trapped or ignored.
";

fn main() {
    let command = match command::parse(command_line()) {
        Ok(command) => command,
        Err(error) => {
            // The whole usage would fill a termination message.
            let usage = if env::args_os().len() > 1 { "" } else { USAGE };
            // A diagnosis that cannot be written has no other place to go.
            drop(write!(io::stderr(), "workload: {error}\n{usage}"));
            exit(EXIT_USAGE);
        }
    };
    let code = run(command).unwrap_or_else(|error| {
        drop(writeln!(io::stderr(), "workload: {error}"));
        EXIT_FAILURE
    });
    exit(code)
}

/// The command line; a link to this program named `cp` or `tar` is the command of that name.
fn command_line() -> lexopt::Parser {
    let mut words = env::args_os();
    let called = words.next().unwrap_or_default();
    let name = Path::new(&called).file_name().filter(|name| *name == "tar" || *name == "cp");
    lexopt::Parser::from_args(name.map(Into::into).into_iter().chain(words))
}

/// Runs a command to its end and returns the exit code.
fn run(command: Command) -> io::Result<i32> {
    match command {
        Command::Pause => pause::run(),
        Command::Sleep { time } => wait::sleep(time, 0),
        Command::Exit { code } => Ok(code.into()),
        Command::CrashAfter { time, code } => wait::sleep(Some(time), code.into()),
        Command::Logs(settings) => logs::run(&settings),
        Command::Trap(trap) => wait::trap(&trap),
        Command::Ignore { signals } => wait::ignore(&signals),
        Command::Env => show::environment(),
        Command::Uid => show::effective_user(),
        Command::Cat { file } => show::file(&file),
        Command::Remove { file } => std::fs::remove_file(file).map(|()| 0),
        Command::Cp { files, into } => files::copy(&files, &into),
        Command::Get { host, port } => fetch::run(&host, port),
        Command::Args { arguments } => show::arguments(&arguments),
        Command::Write { file, text, code } => show::append(&file, &text, code),
        Command::Hold { mebibytes } => wait::hold(mebibytes),
        Command::Fill { file, mebibytes } => wait::fill(Path::new(&file), mebibytes),
        Command::Serve { port } => serve::run(port),
        Command::Grpc { port } => grpc::run(port),
        Command::Terminal => terminal::run(),
        Command::Copy => show::input(),
        Command::Tar(task) => tar::run(&task),
    }
}
