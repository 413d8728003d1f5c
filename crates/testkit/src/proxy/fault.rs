//! Faults of calls.

use std::fmt;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::methods::known;
use crate::runtime::look::duration;

/// The kind of a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Answered with `UNAVAILABLE`; not forwarded.
    Unavailable,
    /// Answered with `NOT_FOUND`; not forwarded.
    NotFound,
    /// Answered with `DEADLINE_EXCEEDED`; not forwarded.
    Deadline,
    /// Answered with `RESOURCE_EXHAUSTED`, as if the response exceeded the message limit; not forwarded.
    TooLarge,
    /// Neither answered nor forwarded. If its client still waits when the faults are cleared, it is forwarded
    /// then.
    Hang,
    /// Forwarded without the client's deadline, and finished even if the client disconnects; its response is
    /// dropped. If the client still waits when the faults are cleared, it is answered with `UNAVAILABLE`.
    Late,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 6] =
        [Self::Unavailable, Self::NotFound, Self::Deadline, Self::TooLarge, Self::Hang, Self::Late];
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Unavailable => "unavailable",
            Self::NotFound => "not-found",
            Self::Deadline => "deadline",
            Self::TooLarge => "too-large",
            Self::Hang => "hang",
            Self::Late => "late",
        })
    }
}

/// A fault of a method: `METHOD=KIND [skip=N] [times=N|all] [after=DURATION]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The method.
    pub method: &'static str,
    /// The kind.
    pub kind: Kind,
    /// How many calls are forwarded before it applies.
    pub skip: u64,
    /// The number of calls it applies to; `None` until the faults are cleared.
    pub times: Option<u64>,
    /// The delay of a call before it applies.
    pub after: Duration,
}

impl Fault {
    /// Parses a fault.
    pub fn parse(text: &str) -> Result<Self> {
        let mut words = text.split_whitespace();
        let first = words.next().unwrap_or_default();
        let (name, kind) = first.split_once('=').with_context(|| format!("{first:?} has no ="))?;
        let method = known(name).with_context(|| format!("the CRI has no method {name:?}"))?;
        let kinds = Kind::ALL.into_iter();
        let kind = kinds
            .clone()
            .find(|known| known.to_string() == kind)
            .with_context(|| format!("{kind:?} is not a kind of fault"))?;
        let mut fault = Self { method, kind, skip: 0, times: Some(1), after: Duration::ZERO };
        for word in words {
            match word.split_once('=') {
                Some(("skip", number)) => fault.skip = count(number)?,
                Some(("times", "all")) => fault.times = None,
                Some(("times", number)) => fault.times = Some(count(number)?),
                Some(("after", time)) => {
                    let after = duration(time);
                    fault.after = after.with_context(|| format!("{time:?} is not a duration"))?;
                }
                _ => bail!("{word:?} is neither skip=N, times=N, times=all nor after=DURATION"),
            }
        }
        Ok(fault)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}={} skip={}", self.method, self.kind, self.skip)?;
        match self.times {
            Some(times) => write!(f, " times={times}")?,
            None => f.write_str(" times=all")?,
        }
        write!(f, " after={}ms", self.after.as_millis())
    }
}

fn count(text: &str) -> Result<u64> {
    text.parse().with_context(|| format!("{text:?} is not a number of calls"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_parsed() {
        let plain = Fault {
            method: "PullImage",
            kind: Kind::Unavailable,
            skip: 0,
            times: Some(1),
            after: Duration::ZERO,
        };
        let rows = [
            ("PullImage=unavailable", plain.clone()),
            (
                "PullImage=not-found skip=2",
                Fault { kind: Kind::NotFound, skip: 2, ..plain.clone() },
            ),
            ("PullImage=hang times=3", Fault { kind: Kind::Hang, times: Some(3), ..plain.clone() }),
            (
                "PullImage=late times=all after=1500ms",
                Fault {
                    kind: Kind::Late,
                    times: None,
                    after: Duration::from_millis(1500),
                    ..plain.clone()
                },
            ),
            ("PullImage=deadline", Fault { kind: Kind::Deadline, ..plain }),
        ];
        for (text, fault) in rows {
            assert_eq!(Fault::parse(text).unwrap(), fault, "{text}");
            assert_eq!(Fault::parse(&fault.to_string()).unwrap(), fault, "{fault}");
        }
        for text in [
            "",
            "PullImage",
            "PullImages=hang",
            "PullImage=slow",
            "PullImage=hang 3",
            "PullImage=hang times=x",
            "PullImage=hang skip=-1",
            "PullImage=hang after=soon",
        ] {
            Fault::parse(text).unwrap_err();
        }
    }
}
