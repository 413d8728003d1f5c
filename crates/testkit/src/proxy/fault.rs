//! What is done to a call instead of passing it on as it is.

use std::fmt;
use std::time::Duration;

use anyhow::{Context, Result, bail};

use crate::methods::known;
use crate::runtime::look::duration;

/// How a call goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Answered `UNAVAILABLE`; the runtime never hears of it.
    Unavailable,
    /// Answered `NOT_FOUND`; the runtime never hears of it.
    NotFound,
    /// Answered `DEADLINE_EXCEEDED`; the runtime never hears of it.
    Deadline,
    /// Answered `RESOURCE_EXHAUSTED`, as if the answer were larger than a message may be; the runtime
    /// never hears of it.
    TooLarge,
    /// Neither answered nor passed on. If its caller still waits when the faults are cleared, it is
    /// passed on then.
    Hang,
    /// Passed on without the caller's deadline, and finished even if the caller goes; its answer is
    /// thrown away. If the caller still waits when the faults are cleared, it is answered
    /// `UNAVAILABLE`.
    Late,
}

impl Kind {
    /// All of them.
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
    /// What is done.
    pub kind: Kind,
    /// How many calls pass before.
    pub skip: u64,
    /// How many calls it is done to; without it, all until the faults are cleared.
    pub times: Option<u64>,
    /// How long a call waits before it is done.
    pub after: Duration,
}

impl Fault {
    /// Reads a fault as it is written.
    pub fn parse(text: &str) -> Result<Self> {
        let mut words = text.split_whitespace();
        let first = words.next().unwrap_or_default();
        let (name, kind) = first.split_once('=').with_context(|| format!("{first:?} has no ="))?;
        let method = known(name).with_context(|| format!("the CRI has no method {name:?}"))?;
        let kinds = Kind::ALL.into_iter();
        let kind = kinds
            .clone()
            .find(|known| known.to_string() == kind)
            .with_context(|| format!("{kind:?} is no kind of fault"))?;
        let mut fault = Self { method, kind, skip: 0, times: Some(1), after: Duration::ZERO };
        for word in words {
            match word.split_once('=') {
                Some(("skip", number)) => fault.skip = count(number)?,
                Some(("times", "all")) => fault.times = None,
                Some(("times", number)) => fault.times = Some(count(number)?),
                Some(("after", time)) => {
                    let after = duration(time);
                    fault.after = after.with_context(|| format!("{time:?} is no time"))?;
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
    text.parse().with_context(|| format!("{text:?} is no number of calls"))
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
