//! Injected faults of calls.

use std::time::Duration;

use model::ports::runtime::Code;

use super::calls::Method;

/// A fault of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// The additional time until the response.
    pub(super) delay: Duration,
    pub(super) outcome: Outcome,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Only the delay.
    Works,
    /// Fails without an effect.
    Fails(Code),
    /// No effect and no response, ever.
    Hangs,
    /// Takes effect, then waits for the delay, then returns the state before the delay.
    AnswersLate,
    /// Takes effect, then waits for the delay, then fails.
    FailsAfterEffect(Code),
    /// Takes effect, but never returns.
    HangsAfterEffect,
    /// Panics without an effect.
    Panics,
}

impl Fault {
    const fn of(outcome: Outcome) -> Self {
        Self { delay: Duration::ZERO, outcome }
    }

    /// The call works, but takes this much longer.
    pub const fn delay(delay: Duration) -> Self {
        Self::of(Outcome::Works).after(delay)
    }

    /// The call takes effect at once, but returns this much later: its response may be outdated.
    pub const fn late_answer(delay: Duration) -> Self {
        Self::of(Outcome::AnswersLate).after(delay)
    }

    /// The call fails and has no effect.
    pub const fn error(code: Code) -> Self {
        Self::of(Outcome::Fails(code))
    }

    /// The call never returns and has no effect.
    pub const fn hang() -> Self {
        Self::of(Outcome::Hangs)
    }

    /// The call takes effect and then fails with `DeadlineExceeded`.
    pub const fn late_success() -> Self {
        Self::error_after_effect(Code::DeadlineExceeded)
    }

    /// The call takes effect and then fails.
    pub const fn error_after_effect(code: Code) -> Self {
        Self::of(Outcome::FailsAfterEffect(code))
    }

    /// The call takes effect but never returns: its response is lost.
    pub const fn lost_answer() -> Self {
        Self::of(Outcome::HangsAfterEffect)
    }

    /// The call panics and has no effect.
    pub const fn panic() -> Self {
        Self::of(Outcome::Panics)
    }

    /// Delays the response by this much.
    #[must_use]
    pub const fn after(mut self, delay: Duration) -> Self {
        self.delay = delay;
        self
    }
}

/// The calls that a fault applies to, and how many of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    method: Method,
    object: Option<String>,
    fault: Fault,
    /// How many calls are left; `None` until cleared.
    left: Option<usize>,
}

impl Rule {
    /// Every call of a method, until the faults are cleared.
    pub fn on(method: Method, fault: Fault) -> Self {
        Self { method, object: None, fault, left: None }
    }

    /// Only calls on this object; see [`Call::object`](super::Call::object) for its format.
    #[must_use]
    pub fn object(mut self, object: impl Into<String>) -> Self {
        self.object = Some(object.into());
        self
    }

    /// Only the next call.
    #[must_use]
    pub fn once(self) -> Self {
        self.times(1)
    }

    /// Only that many calls.
    #[must_use]
    pub fn times(mut self, calls: usize) -> Self {
        self.left = Some(calls);
        self
    }

    fn applies(&self, method: Method, object: &str) -> bool {
        self.method == method
            && self.left != Some(0)
            && self.object.as_deref().is_none_or(|wanted| wanted == object)
    }
}

/// The rules in force. The oldest that applies to a call decides.
#[derive(Debug, Default)]
pub(super) struct Faults {
    rules: Vec<Rule>,
}

impl Faults {
    pub(super) fn add(&mut self, rule: Rule) {
        self.rules.push(rule);
    }

    pub(super) fn clear(&mut self) {
        self.rules.clear();
    }

    /// The fault of this call; counts it.
    pub(super) fn take(&mut self, method: Method, object: &str) -> Option<Fault> {
        let position = self.rules.iter().position(|rule| rule.applies(method, object))?;
        let rule = &mut self.rules[position];
        let fault = rule.fault;
        rule.left = rule.left.map(|left| left - 1);
        if rule.left == Some(0) {
            self.rules.remove(position);
        }
        Some(fault)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_rule_matches_method_object_and_count() {
        let mut faults = Faults::default();
        faults.add(Rule::on(Method::StopContainer, Fault::hang()).object("a").once());
        faults.add(Rule::on(Method::StopContainer, Fault::error(Code::Internal)));
        assert_eq!(faults.take(Method::StartContainer, "a"), None);
        assert_eq!(faults.take(Method::StopContainer, "b"), Some(Fault::error(Code::Internal)));
        assert_eq!(faults.take(Method::StopContainer, "a"), Some(Fault::hang()));
        assert_eq!(faults.take(Method::StopContainer, "a"), Some(Fault::error(Code::Internal)));
        faults.clear();
        assert_eq!(faults.take(Method::StopContainer, "a"), None);
    }
}
