//! The behaviour of a container's process, in the language of the workload program that runs in real test
//! containers, so that one pod behaves alike in memory and on a real runtime.

use std::time::Duration;

/// The path of the only program of a test image.
const WORKLOAD: &str = "/workload";
/// Exit code for an invalid command line of the workload.
const EXIT_USAGE: i32 = 2;
/// Exit code that stands for death by SIGTERM.
const EXIT_TERM: i32 = 143;
/// Exit code that stands for death by SIGINT.
const EXIT_INT: i32 = 130;
const TERM: &str = "TERM";
const INT: &str = "INT";

/// What a process does on SIGTERM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnTerm {
    /// Ends with a code after a delay.
    Exit {
        /// Its exit code.
        code: i32,
        /// The remaining duration.
        delay: Duration,
    },
    /// Ignores it.
    Ignore,
}

impl OnTerm {
    /// Ends at once, the default of processes.
    pub const DEFAULT: Self = Self::Exit { code: EXIT_TERM, delay: Duration::ZERO };
}

/// The behaviour of a container's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Script {
    /// It starts.
    Runs {
        /// When it ends by itself, counted from its start, and with which code; `None` if it runs for ever.
        end: Option<(Duration, i32)>,
        /// What it does on the stop signal.
        on_term: OnTerm,
    },
    /// The program is missing from the image, so it cannot start.
    Missing,
}

impl Script {
    /// Runs until it is stopped.
    pub const FOREVER: Self = Self::Runs { end: None, on_term: OnTerm::DEFAULT };

    /// Ends by itself.
    pub const fn ends(after: Duration, code: i32) -> Self {
        Self::Runs { end: Some((after, code)), on_term: OnTerm::DEFAULT }
    }

    /// The behaviour of a command line: the workload, or a missing program.
    pub fn of(command: &[String]) -> Self {
        Self::stopped_by(None, command)
    }

    /// Like `of`, for a container with another stop signal than SIGTERM.
    pub fn stopped_by(signal: Option<&str>, command: &[String]) -> Self {
        let words: Vec<&str> = command.iter().map(String::as_str).collect();
        let stop = signal.and_then(canonical).unwrap_or_else(|| TERM.to_owned());
        match words.as_slice() {
            [WORKLOAD, arguments @ ..] => {
                let script = workload(arguments, &stop);
                script.unwrap_or(Self::ends(Duration::ZERO, EXIT_USAGE)).with_stop_signal(&stop)
            }
            _ => Self::Missing,
        }
    }

    /// Its reaction to a signal without a handler: only SIGTERM and SIGINT end it, because the kernel drops
    /// signals to the first process of a container that have no handler.
    fn with_stop_signal(self, stop: &str) -> Self {
        match self {
            Self::Runs { end, on_term: OnTerm::DEFAULT } if stop != TERM => {
                let on_term = match stop {
                    INT => OnTerm::Exit { code: EXIT_INT, delay: Duration::ZERO },
                    _ => OnTerm::Ignore,
                };
                Self::Runs { end, on_term }
            }
            script => script,
        }
    }
}

fn workload(arguments: &[&str], stop: &str) -> Option<Script> {
    let (command, rest) = arguments.split_first()?;
    match (*command, rest) {
        ("pause", []) => Some(Script::Runs {
            end: None,
            on_term: OnTerm::Exit { code: 0, delay: Duration::ZERO },
        }),
        ("sleep", ["forever"]) | ("serve", [_]) => Some(Script::FOREVER),
        ("sleep", [time]) => Some(Script::ends(duration(time)?, 0)),
        ("exit", [code]) | ("write", [_, _, "--exit", code]) => {
            Some(Script::ends(Duration::ZERO, exit_code(code)?))
        }
        ("crash-after", [time]) => Some(Script::ends(duration(time)?, 1)),
        ("crash-after", [time, code]) => Some(Script::ends(duration(time)?, exit_code(code)?)),
        ("logs", options) => logs(options),
        ("trap", words) => trap(words, stop),
        ("ignore", signals) => ignore(signals, stop),
        ("env", []) | ("cat", [_]) | ("args", _) | ("write", [_, _]) => {
            Some(Script::ends(Duration::ZERO, 0))
        }
        _ => None,
    }
}

fn trap(words: &[&str], stop: &str) -> Option<Script> {
    let (mut signals, mut code, mut delay) = (Vec::new(), 0, Duration::ZERO);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "--exit" => code = exit_code(words.next()?)?,
            "--delay" => delay = duration(words.next()?)?,
            name => signals.push(canonical(name)?),
        }
    }
    let on_term = match signals.as_slice() {
        [] => return None,
        signals if signals.iter().any(|signal| signal == stop) => OnTerm::Exit { code, delay },
        _ => OnTerm::DEFAULT,
    };
    Some(Script::Runs { end: None, on_term })
}

fn ignore(names: &[&str], stop: &str) -> Option<Script> {
    let signals: Vec<String> = names.iter().map(|name| canonical(name)).collect::<Option<_>>()?;
    let on_term = match signals.as_slice() {
        [] => return None,
        signals if signals.iter().any(|signal| signal == stop) => OnTerm::Ignore,
        _ => OnTerm::DEFAULT,
    };
    Some(Script::Runs { end: None, on_term })
}

/// Lines are not stored here; only the end time of the command counts.
fn logs(options: &[&str]) -> Option<Script> {
    let (mut pause, mut count) = (None, None);
    let mut options = options.iter();
    while let Some(option) = options.next() {
        match *option {
            "--rate" => pause = Some(pause_between_lines(options.next()?)?),
            "--count" => count = Some(options.next()?.parse::<u32>().ok()?),
            "--size" => drop(options.next()?.parse::<usize>().ok()?),
            "--stderr" => {}
            _ => return None,
        }
    }
    let pause = pause?;
    let Some(count) = count else {
        return Some(Script::FOREVER);
    };
    // The first line is due at once.
    Some(Script::ends(pause.saturating_mul(count.saturating_sub(1)), 0))
}

fn pause_between_lines(rate: &str) -> Option<Duration> {
    if rate == "max" {
        return Some(Duration::ZERO);
    }
    let per_second: f64 = rate.parse().ok()?;
    (per_second.is_finite() && per_second > 0.0)
        .then(|| Duration::try_from_secs_f64(1.0 / per_second).unwrap_or(Duration::MAX))
}

/// The name of a signal that can be caught, without `SIG`.
fn canonical(name: &str) -> Option<String> {
    const NAMES: [&str; 13] = [
        "ALRM", "CHLD", "CONT", "HUP", INT, "PIPE", "QUIT", TERM, "TSTP", "URG", "USR1", "USR2",
        "WINCH",
    ];
    let upper = name.to_uppercase();
    match upper.strip_prefix("SIG").unwrap_or(&upper) {
        "15" if name == "15" => Some(TERM.to_owned()),
        known if NAMES.contains(&known) => Some(known.to_owned()),
        _ => None,
    }
}

fn exit_code(text: &str) -> Option<i32> {
    text.parse::<u8>().ok().map(i32::from)
}

/// A duration of the workload: `2`, `1.5s`, `250ms`, `3m`, `1h`.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &text[digits.len()..] {
        "ms" => 0.001,
        "" | "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    let number: f64 = digits.parse().ok()?;
    Duration::try_from_secs_f64(number * unit).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on_term(on_term: OnTerm) -> Script {
        Script::Runs { end: None, on_term }
    }

    fn exits(code: i32, seconds: u64) -> OnTerm {
        OnTerm::Exit { code, delay: Duration::from_secs(seconds) }
    }

    #[test]
    fn workload_script_is_parsed() {
        let seconds = Duration::from_secs;
        let usage = Script::ends(Duration::ZERO, EXIT_USAGE);
        let rows = [
            ("/workload pause", on_term(exits(0, 0))),
            ("/workload sleep forever", Script::FOREVER),
            ("/workload sleep 2", Script::ends(seconds(2), 0)),
            ("/workload sleep 1.5m", Script::ends(seconds(90), 0)),
            ("/workload exit 7", Script::ends(Duration::ZERO, 7)),
            ("/workload exit 256", usage),
            ("/workload crash-after 250ms", Script::ends(Duration::from_millis(250), 1)),
            ("/workload crash-after 1h 3", Script::ends(seconds(3600), 3)),
            ("/workload trap TERM --exit 5 --delay 2s", on_term(exits(5, 2))),
            ("/workload trap INT 15", on_term(exits(0, 0))),
            ("/workload trap --exit 5 sigint", Script::FOREVER),
            ("/workload trap --exit 5", usage),
            ("/workload trap KILL", usage),
            ("/workload ignore TERM INT", on_term(OnTerm::Ignore)),
            ("/workload ignore HUP", Script::FOREVER),
            ("/workload ignore", usage),
            ("/workload logs --rate 2 --count 5 --stderr", Script::ends(seconds(2), 0)),
            ("/workload logs --rate max --size 10", Script::FOREVER),
            ("/workload logs --count 5", usage),
            ("/workload env", Script::ends(Duration::ZERO, 0)),
            ("/workload args a b", Script::ends(Duration::ZERO, 0)),
            ("/workload write /file text", Script::ends(Duration::ZERO, 0)),
            ("/workload write /file text --exit 3", Script::ends(Duration::ZERO, 3)),
            ("/workload serve 80", Script::FOREVER),
            ("/workload sleep", usage),
            ("/workload", usage),
            ("/bin/sh -c true", Script::Missing),
        ];
        for (line, script) in rows {
            let words: Vec<String> = line.split(' ').map(Into::into).collect();
            assert_eq!(Script::of(&words), script, "{line}");
        }
    }

    #[test]
    fn custom_stop_signal_ends_the_process() {
        let rows = [
            ("SIGUSR1", "/workload trap USR1 --exit 5", on_term(exits(5, 0))),
            ("SIGUSR1", "/workload trap TERM --exit 5", on_term(OnTerm::Ignore)),
            ("SIGUSR1", "/workload sleep forever", on_term(OnTerm::Ignore)),
            ("SIGINT", "/workload sleep forever", on_term(exits(130, 0))),
            ("SIGTERM", "/workload sleep forever", Script::FOREVER),
        ];
        for (signal, line, script) in rows {
            let words: Vec<String> = line.split(' ').map(Into::into).collect();
            assert_eq!(Script::stopped_by(Some(signal), &words), script, "{signal} {line}");
        }
    }
}
