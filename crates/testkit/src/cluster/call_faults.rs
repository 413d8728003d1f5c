//! Injected faults of API calls.

use std::time::Duration;

use model::ports::cluster::ApiError;

/// A fault of a call.
#[derive(Debug, Clone)]
pub enum CallFault {
    /// The call is refused with this status.
    Refused(u16),
    /// The call is throttled.
    Throttled(Option<Duration>),
    /// The server is unreachable.
    Unreachable,
    /// The call takes effect, and its response is lost.
    AnswerLost,
    /// The call takes this long.
    Late(Duration),
}

impl CallFault {
    fn error(&self) -> ApiError {
        match self {
            Self::Refused(409) => ApiError::Conflict("refused on purpose".to_owned()),
            Self::Refused(404) => ApiError::NotFound,
            Self::Refused(code) => {
                ApiError::Refused { code: *code, message: "refused on purpose".to_owned() }
            }
            Self::Throttled(retry_after) => ApiError::Throttled { retry_after: *retry_after },
            Self::Unreachable | Self::AnswerLost | Self::Late(_) => {
                ApiError::Unreachable("not reached on purpose".into())
            }
        }
    }
}

/// Calls of a kind that fail, and how many of them.
#[derive(Debug)]
struct Rule<A> {
    /// The client; all clients if `None`.
    of: Option<String>,
    kind: A,
    fault: CallFault,
    left: u32,
}

/// The rules, by kind of call.
#[derive(Debug)]
pub(super) struct CallFaults<A>(Vec<Rule<A>>);

impl<A> Default for CallFaults<A> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<A: Copy + PartialEq> CallFaults<A> {
    /// Makes the next calls of a kind fail, this many times, for one client or all.
    pub(super) fn add(&mut self, of: Option<String>, kind: A, fault: CallFault, times: u32) {
        self.0.push(Rule { of, kind, fault, left: times });
    }

    /// Clears all rules.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// The fault of a call, if any; counts it.
    pub(super) fn next(&mut self, who: &str, kind: A) -> Option<CallFault> {
        let rule = self.0.iter_mut().find(|rule| {
            rule.kind == kind && rule.left > 0 && rule.of.as_ref().is_none_or(|of| of == who)
        })?;
        rule.left -= 1;
        Some(rule.fault.clone())
    }
}

/// Runs a call with this fault.
pub(super) async fn with_fault<T>(
    fault: Option<CallFault>,
    call: impl FnOnce() -> Result<T, ApiError>,
) -> Result<T, ApiError> {
    match fault {
        None => call(),
        Some(CallFault::Late(duration)) => {
            tokio::time::sleep(duration).await;
            call()
        }
        Some(CallFault::AnswerLost) => {
            call()?;
            Err(CallFault::AnswerLost.error())
        }
        Some(fault) => Err(fault.error()),
    }
}
