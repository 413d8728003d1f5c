//! The planned faults, and those that happened.

use std::collections::BTreeMap;

use testkit::runtime::Method;

use super::Outside;
use crate::plan::{Fault, Rule, Target};

/// The kind of call that may have a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FaultPoint {
    Call(Method),
    Hint,
    FileRead,
    FileWrite,
    FileHint,
    Web,
    PodWeb,
    Disk,
    Log,
    Cgroup,
}

/// Planned faults that wait for their target, the oldest first.
#[derive(Debug, Default)]
pub(super) struct Store {
    waiting: Vec<Rule>,
    happened: BTreeMap<&'static str, usize>,
}

/// Whether a call changes something.
fn is_effect(method: Method) -> bool {
    matches!(
        method,
        Method::RunPodSandbox
            | Method::StopPodSandbox
            | Method::RemovePodSandbox
            | Method::CreateContainer
            | Method::StartContainer
            | Method::StopContainer
            | Method::UpdateContainerResources
            | Method::UpdatePodSandboxResources
            | Method::UpdateRuntimeConfig
            | Method::ExecSync
            | Method::RemoveContainer
            | Method::PullImage
            | Method::RemoveImage
    )
}

impl Target {
    fn is(self, point: FaultPoint) -> bool {
        match (self, point) {
            (Self::AnyCall, FaultPoint::Call(_))
            | (Self::Hint, FaultPoint::Hint)
            | (Self::FileRead, FaultPoint::FileRead)
            | (Self::FileWrite, FaultPoint::FileWrite)
            | (Self::FileHint, FaultPoint::FileHint)
            | (Self::Web, FaultPoint::Web)
            | (Self::PodWeb, FaultPoint::PodWeb)
            | (Self::Disk, FaultPoint::Disk)
            | (Self::Log, FaultPoint::Log)
            | (Self::Cgroup, FaultPoint::Cgroup) => true,
            (Self::Effect, FaultPoint::Call(method)) => is_effect(method),
            (Self::Look, FaultPoint::Call(method)) => !is_effect(method),
            (Self::Method(one), FaultPoint::Call(method)) => one == method,
            _ => false,
        }
    }
}

impl Store {
    /// The fault of a call. Every planned fault with this target counts the call as skipped.
    fn take(&mut self, point: FaultPoint) -> Option<Fault> {
        let meant = self.waiting.iter().position(|rule| rule.on.is(point) && rule.skip == 0);
        for rule in &mut self.waiting {
            if rule.on.is(point) && rule.skip > 0 {
                rule.skip -= 1;
            }
        }
        let fault = self.waiting.remove(meant?).fault;
        self.happen(fault.name());
        Some(fault)
    }

    fn happen(&mut self, name: &'static str) {
        *self.happened.entry(name).or_default() += 1;
    }
}

impl Outside {
    /// Adds a planned fault.
    pub(crate) fn arm(&self, rule: Rule) {
        self.state().faults.waiting.push(rule);
    }

    /// Drops all planned faults; those in progress continue.
    pub(crate) fn disarm(&self) {
        self.state().faults.waiting.clear();
        self.calm.set(true);
    }

    /// The fault of a call.
    pub(crate) fn fault(&self, point: FaultPoint) -> Option<Fault> {
        self.state().faults.take(point)
    }

    /// Counts a fault of another kind.
    pub(crate) fn happened(&self, name: &'static str) {
        self.state().faults.happen(name);
    }

    /// The faults that happened, by kind.
    pub(crate) fn all_that_happened(&self) -> BTreeMap<&'static str, usize> {
        self.state().faults.happened.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_waits_for_its_target() {
        let mut store = Store::default();
        let on = |on, skip, fault| Rule { on, skip, fault };
        store.waiting.push(on(Target::Method(Method::StopContainer), 1, Fault::Hang));
        store.waiting.push(on(Target::Effect, 0, Fault::LateSuccess));
        assert_eq!(store.take(FaultPoint::Hint), None);
        assert_eq!(store.take(FaultPoint::Call(Method::ListContainers)), None);
        let stop = FaultPoint::Call(Method::StopContainer);
        assert_eq!(store.take(stop), Some(Fault::LateSuccess));
        assert_eq!(store.take(stop), Some(Fault::Hang));
        assert_eq!(store.take(stop), None);
        assert_eq!(store.happened, [("hang", 1), ("late success", 1)].into());
    }
}
