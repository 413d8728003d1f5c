//! The command line.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::time::Duration;

use lexopt::{Arg, Error, Parser, ValueExt};

use crate::logs;
use crate::signal::Signal;
use crate::tar;

/// What to do.
#[derive(Debug, PartialEq)]
pub(crate) enum Command {
    Pause,
    /// For a time, or for ever.
    Sleep {
        time: Option<Duration>,
    },
    Exit {
        code: u8,
    },
    CrashAfter {
        time: Duration,
        code: u8,
    },
    Logs(logs::Settings),
    Trap(Trap),
    Ignore {
        signals: BTreeSet<Signal>,
    },
    Env,
    Uid,
    Cat {
        file: OsString,
    },
    Remove {
        file: OsString,
    },
    Cp {
        files: Vec<OsString>,
        into: OsString,
    },
    Get {
        host: String,
        port: u16,
    },
    Args {
        arguments: Vec<OsString>,
    },
    Write {
        file: OsString,
        text: OsString,
        code: u8,
    },
    /// Takes memory, and sleeps for ever.
    Hold {
        mebibytes: usize,
    },
    Fill {
        file: OsString,
        mebibytes: usize,
    },
    Serve {
        port: u16,
    },
    Grpc {
        port: u16,
    },
    /// Prints the size of its terminal, now and after every change, until standard input ends.
    Terminal,
    /// Copies its standard input to its standard output.
    Copy,
    Tar(tar::Task),
}

/// The reaction to trapped signals.
#[derive(Debug, PartialEq)]
pub(crate) struct Trap {
    pub(crate) signals: BTreeSet<Signal>,
    pub(crate) code: u8,
    /// The delay after the first signal.
    pub(crate) delay: Duration,
}

/// Reads the whole command line.
pub(crate) fn parse(mut parser: Parser) -> Result<Command, Error> {
    let Some(Arg::Value(name)) = parser.next()? else {
        return Err("a command is needed first".into());
    };
    let command = match name.to_str() {
        Some("pause") => Command::Pause,
        Some("sleep") => Command::Sleep { time: parser.value()?.parse_with(duration_or_forever)? },
        Some("exit") => Command::Exit { code: parser.value()?.parse()? },
        Some("crash-after") => crash_after(&mut parser)?,
        Some("logs") => Command::Logs(logs_settings(&mut parser)?),
        Some("trap") => Command::Trap(trap(&mut parser)?),
        Some("ignore") => ignore(&mut parser)?,
        Some("env") => Command::Env,
        Some("uid") => Command::Uid,
        Some("cat") => Command::Cat { file: parser.value()? },
        Some("remove") => Command::Remove { file: parser.value()? },
        Some("cp") => cp(&mut parser)?,
        Some("get") => {
            Command::Get { host: parser.value()?.string()?, port: parser.value()?.parse()? }
        }
        Some("write") => write(&mut parser)?,
        Some("hold") => Command::Hold { mebibytes: parser.value()?.parse()? },
        Some("fill") => {
            Command::Fill { file: parser.value()?, mebibytes: parser.value()?.parse()? }
        }
        Some("serve") => Command::Serve { port: parser.value()?.parse()? },
        Some("grpc") => Command::Grpc { port: parser.value()?.parse()? },
        Some("terminal") => Command::Terminal,
        Some("copy") => Command::Copy,
        Some("tar") => Command::Tar(tar::parse(parser.raw_args()?)?),
        Some("args") => Command::Args { arguments: parser.raw_args()?.collect() },
        _ => return Err(format!("unknown command {}", name.display()).into()),
    };
    match parser.next()? {
        None => Ok(command),
        Some(extra) => Err(extra.unexpected()),
    }
}

fn crash_after(parser: &mut Parser) -> Result<Command, Error> {
    let time = parser.value()?.parse_with(duration)?;
    let code = match parser.next()? {
        Some(Arg::Value(code)) => code.parse()?,
        Some(extra) => return Err(extra.unexpected()),
        None => 1,
    };
    Ok(Command::CrashAfter { time, code })
}

fn cp(parser: &mut Parser) -> Result<Command, Error> {
    let mut files = Vec::new();
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Value(file) => files.push(file),
            // Files are always replaced.
            Arg::Short('f') => {}
            other => return Err(other.unexpected()),
        }
    }
    let into = files.pop().filter(|_| !files.is_empty());
    Ok(Command::Cp { files, into: into.ok_or("a file and a place are needed")? })
}

fn write(parser: &mut Parser) -> Result<Command, Error> {
    let (file, text) = (parser.value()?, parser.value()?);
    let code = match parser.next()? {
        Some(Arg::Long("exit")) => parser.value()?.parse()?,
        Some(extra) => return Err(extra.unexpected()),
        None => 0,
    };
    Ok(Command::Write { file, text, code })
}

fn logs_settings(parser: &mut Parser) -> Result<logs::Settings, Error> {
    let (mut pace, mut count, mut size) = (None, None, 0);
    let mut stream = logs::Stream::Stdout;
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Long("rate") => pace = Some(parser.value()?.parse_with(rate)?),
            Arg::Long("count") => count = Some(parser.value()?.parse()?),
            Arg::Long("stderr") => stream = logs::Stream::Stderr,
            Arg::Long("size") => size = parser.value()?.parse()?,
            other => return Err(other.unexpected()),
        }
    }
    let pace = pace.ok_or("--rate is needed")?;
    Ok(logs::Settings { pace, count, stream, size })
}

fn trap(parser: &mut Parser) -> Result<Trap, Error> {
    let mut trap = Trap { signals: BTreeSet::new(), code: 0, delay: Duration::ZERO };
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Value(name) => {
                trap.signals.insert(name.parse_with(signal)?);
            }
            Arg::Long("exit") => trap.code = parser.value()?.parse()?,
            Arg::Long("delay") => trap.delay = parser.value()?.parse_with(duration)?,
            other => return Err(other.unexpected()),
        }
    }
    if trap.signals.is_empty() {
        return Err("a signal is needed".into());
    }
    Ok(trap)
}

fn ignore(parser: &mut Parser) -> Result<Command, Error> {
    let mut signals = BTreeSet::new();
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Value(name) => signals.insert(name.parse_with(signal)?),
            other => return Err(other.unexpected()),
        };
    }
    if signals.is_empty() {
        return Err("a signal is needed".into());
    }
    Ok(Command::Ignore { signals })
}

fn signal(name: &str) -> Result<Signal, String> {
    Signal::named(name).ok_or_else(|| format!("no signal that can be caught is called {name}"))
}

fn rate(text: &str) -> Result<logs::Pace, String> {
    if text == "max" {
        return Ok(logs::Pace::Unlimited);
    }
    match text.parse::<f64>() {
        Ok(per_second) if per_second.is_finite() && per_second > 0.0 => {
            Ok(logs::Pace::PerSecond(per_second))
        }
        _ => Err("a rate is a number above zero, or max".into()),
    }
}

fn duration_or_forever(text: &str) -> Result<Option<Duration>, String> {
    if text == "forever" { Ok(None) } else { duration(text).map(Some) }
}

fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err("the unit of a duration is ms, s, m or h".into()),
    };
    let number: f64 = digits.parse().map_err(|_| "a duration starts with a number".to_owned())?;
    Duration::try_from_secs_f64(number * unit).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests;
