//! The gate that every call passes: it counts, delays and fails calls.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Serialize;
use tokio::time::sleep;
use tonic::{Code, Status};

use crate::methods::known;
use crate::runtime::look::duration;

const CODES: [(&str, Code); 16] = [
    ("cancelled", Code::Cancelled),
    ("unknown", Code::Unknown),
    ("invalidargument", Code::InvalidArgument),
    ("deadlineexceeded", Code::DeadlineExceeded),
    ("notfound", Code::NotFound),
    ("alreadyexists", Code::AlreadyExists),
    ("permissiondenied", Code::PermissionDenied),
    ("resourceexhausted", Code::ResourceExhausted),
    ("failedprecondition", Code::FailedPrecondition),
    ("aborted", Code::Aborted),
    ("outofrange", Code::OutOfRange),
    ("unimplemented", Code::Unimplemented),
    ("internal", Code::Internal),
    ("unavailable", Code::Unavailable),
    ("dataloss", Code::DataLoss),
    ("unauthenticated", Code::Unauthenticated),
];

/// Methods that create a named object.
const MAKING: [&str; 2] = ["RunPodSandbox", "CreateContainer"];

/// The number of calls of a method.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Count {
    /// All calls.
    pub calls: u64,
    /// Calls with a filter.
    pub filtered: u64,
    /// Injected failures.
    pub failed: u64,
}

/// A delay of a method: `METHOD=DURATION`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delay {
    method: &'static str,
    by: Duration,
}

/// A failure of a method: `METHOD=CODE` or `METHOD=CODE:TIMES`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    method: &'static str,
    code: Code,
    /// How many calls are left; `None` is unlimited.
    left: Option<u64>,
}

impl Delay {
    /// Parses a delay of the command line.
    pub fn parse(text: &str) -> Result<Self> {
        let (method, by) = assignment(text)?;
        let by = duration(by).with_context(|| format!("{by:?} is not a duration"))?;
        Ok(Self { method, by })
    }
}

impl Failure {
    /// Parses a failure of the command line.
    pub fn parse(text: &str) -> Result<Self> {
        let (method, rest) = assignment(text)?;
        let (code, times) = match rest.split_once(':') {
            Some((code, times)) => (code, Some(times)),
            None => (rest, None),
        };
        let plain = code.replace('_', "").to_ascii_lowercase();
        let known = CODES.iter().find(|(name, _)| *name == plain);
        let (_, code) = known.with_context(|| format!("{code:?} is not a gRPC code"))?;
        let left = match times.map(str::parse) {
            None => None,
            Some(Ok(times)) if times > 0 => Some(times),
            Some(_) => bail!("{:?} is not a number of calls", times.unwrap_or_default()),
        };
        Ok(Self { method, code: *code, left })
    }
}

fn assignment(text: &str) -> Result<(&'static str, &str)> {
    let (method, value) = text.split_once('=').with_context(|| format!("{text:?} has no ="))?;
    let method = known(method).with_context(|| format!("the CRI has no method {method:?}"))?;
    Ok((method, value))
}

#[derive(Debug, Default)]
struct State {
    counts: BTreeMap<&'static str, Count>,
    delays: BTreeMap<&'static str, Duration>,
    failures: BTreeMap<&'static str, Failure>,
}

/// Counts, delays and fails calls.
#[derive(Debug, Default)]
pub struct Gate {
    /// Written by every call and by the control socket, never held across an await.
    state: Mutex<State>,
}

impl Gate {
    /// Sets the delay of a method.
    pub fn delay(&self, delay: &Delay) {
        self.state().delays.insert(delay.method, delay.by);
    }

    /// Makes a method fail.
    pub fn fail(&self, failure: Failure) {
        self.state().failures.insert(failure.method, failure);
    }

    /// Clears all delays and failures at once.
    pub fn clear(&self) {
        let mut state = self.state();
        state.delays.clear();
        state.failures.clear();
    }

    /// The number of calls of each method with any.
    pub fn counts(&self) -> BTreeMap<&'static str, Count> {
        self.state().counts.clone()
    }

    /// Returns and resets the counts. No call is lost in between.
    pub fn take_counts(&self) -> BTreeMap<&'static str, Count> {
        std::mem::take(&mut self.state().counts)
    }

    /// Registers a call. One that creates an object is admitted at once, because it reserves the name: the
    /// caller gets the delay before the remaining work.
    pub(super) async fn enter(&self, method: &str) -> Result<Duration, Status> {
        let Some(method) = known(method) else {
            return Err(Status::unimplemented(format!("the CRI has no method {method}")));
        };
        let (delay, failure) = {
            let mut state = self.state();
            state.counts.entry(method).or_default().calls += 1;
            (state.delays.get(method).copied(), state.take_failure(method))
        };
        let delay = delay.unwrap_or_default();
        if failure.is_none() && MAKING.contains(&method) {
            return Ok(delay);
        }
        if !delay.is_zero() {
            sleep(delay).await;
        }
        match failure {
            Some(code) => Err(Status::new(code, format!("injected failure of {method}"))),
            None => Ok(Duration::ZERO),
        }
    }

    /// Counts a call with a filter.
    pub(super) fn filtered(&self, method: &'static str) {
        self.state().counts.entry(method).or_default().filtered += 1;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn take_failure(&mut self, method: &'static str) -> Option<Code> {
        let failure = self.failures.get_mut(method)?;
        let code = failure.code;
        failure.left = failure.left.map(|left| left - 1);
        if failure.left == Some(0) {
            self.failures.remove(method);
        }
        self.counts.entry(method).or_default().failed += 1;
        Some(code)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_and_failures_are_parsed() {
        let delay = Delay { method: "ListContainers", by: Duration::from_millis(250) };
        assert_eq!(Delay::parse("ListContainers=250ms").unwrap(), delay);
        let rows = [
            ("PullImage=Unavailable", Code::Unavailable, None),
            ("PullImage=NOT_FOUND:2", Code::NotFound, Some(2)),
            ("PullImage=deadline_exceeded:1", Code::DeadlineExceeded, Some(1)),
        ];
        for (text, code, left) in rows {
            let failure = Failure { method: "PullImage", code, left };
            assert_eq!(Failure::parse(text).unwrap(), failure, "{text}");
        }
        for text in ["PullImage", "PullImages=1s", "PullImage=soon"] {
            Delay::parse(text).unwrap_err();
        }
        for text in [
            "PullImage",
            "PullImages=Internal",
            "PullImage=No",
            "PullImage=Internal:x",
            "PullImage=Internal:0",
        ] {
            Failure::parse(text).unwrap_err();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn call_is_counted_delayed_and_failed_as_often_as_configured() {
        let gate = Gate::default();
        gate.fail(Failure::parse("Version=Aborted:2").unwrap());
        gate.delay(&Delay::parse("Version=3s").unwrap());
        let begun = tokio::time::Instant::now();
        for _ in 0..2 {
            assert_eq!(gate.enter("Version").await.unwrap_err().code(), Code::Aborted);
        }
        gate.enter("Version").await.unwrap();
        assert_eq!(begun.elapsed(), Duration::from_secs(9));
        gate.enter("ListContainers").await.unwrap();
        gate.filtered("ListContainers");
        gate.delay(&Delay::parse("RunPodSandbox=3s").unwrap());
        assert_eq!(gate.enter("RunPodSandbox").await.unwrap(), Duration::from_secs(3));
        assert_eq!(begun.elapsed(), Duration::from_secs(9));
        gate.clear();
        gate.enter("Version").await.unwrap();
        assert_eq!(begun.elapsed(), Duration::from_secs(9));
        let counts = gate.take_counts();
        assert_eq!(counts["Version"], Count { calls: 4, filtered: 0, failed: 2 });
        assert_eq!(counts["ListContainers"], Count { calls: 1, filtered: 1, failed: 0 });
        assert!(gate.counts().is_empty());
    }
}
