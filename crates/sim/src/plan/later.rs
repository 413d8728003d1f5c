//! Actions that were added later. They use separate random numbers, and only some histories have them, so that
//! the others stay unchanged.

use std::time::Duration;

use model::ports::runtime::Code;
use testkit::random::Random;
use testkit::runtime::Method;

use super::generate::PlanBuilder;
use super::{Action, ActionKind, Fault, PodPlan, Policy, RestartRule, Rule, Target};

impl PlanBuilder {
    /// Restart rules for codes that are not listed, and rules of init containers.
    pub(super) fn more_rules(&mut self, pod: &mut PodPlan) {
        let Some(random) = &mut self.later else { return };
        for container in &mut pod.containers {
            if let Some(RestartRule { action, .. }) = &mut container.extras.rule
                && let Action::Restart(code) = *action
                && random.chance(40)
            {
                *action = Action::RestartUnless(code);
            }
        }
        for init in pod.init.iter_mut().filter(|init| !init.sidecar) {
            // An init container that always restarts is a sidecar.
            let policy = random.pick(&[Policy::OnFailure, Policy::Never]);
            let action = random.weighted(&[
                (40, Action::Restart(1)),
                (20, Action::Restart(137)),
                (30, Action::RestartUnless(3)),
                (10, Action::RestartAll),
            ]);
            if random.chance(35) {
                init.extras.rule = Some(RestartRule { policy, action });
            }
        }
    }

    /// More faults: `NotFound` for a needed object, and pods that come back while their objects are removed
    /// slowly.
    pub(super) fn later_faults(&mut self) {
        let Some(mut random) = self.later.take() else { return };
        for _ in 0..random.between(2, 6) {
            let rule = not_found(&mut random);
            let at = random.seconds(0, self.length.as_secs());
            self.push(at, ActionKind::Arm(rule));
        }
        for _ in 0..random.between(1, 3) {
            self.comes_back(&mut random);
        }
        self.later = Some(random);
    }

    /// A pod is removed and comes back, and the removal of its objects is slow.
    fn comes_back(&mut self, random: &mut Random) {
        let pod = self.pods[random.place(self.pods.len())].clone();
        let at = random.seconds(0, self.length.as_secs());
        self.push(at, ActionKind::Remove(pod.name.clone()));
        let slow = [
            (Method::StopPodSandbox, random.between(0, 1)),
            (Method::RemoveContainer, 0),
            (Method::ContainerStatus, random.between(0, 8)),
        ];
        for (method, skip) in slow {
            if random.chance(50) {
                let fault = Fault::LateAnswer(random.seconds(20, 60));
                self.push(at, ActionKind::Arm(Rule { on: Target::Method(method), skip, fault }));
            }
        }
        let ends = Duration::from_secs(if random.chance(50) { pod.grace } else { 0 });
        let again = at + ends + random.millis(500, 15_000);
        self.push(again, ActionKind::Write(pod));
    }
}

/// A call returns `NotFound`: for its parent object, or for an object that it removes.
fn not_found(random: &mut Random) -> Rule {
    let method = random.pick(&[
        Method::RunPodSandbox,
        Method::CreateContainer,
        Method::StartContainer,
        Method::PullImage,
        Method::RemoveContainer,
        Method::RemovePodSandbox,
        Method::RemoveImage,
    ]);
    let removes =
        matches!(method, Method::RemoveContainer | Method::RemovePodSandbox | Method::RemoveImage);
    let fault = if removes { Fault::Vanished } else { Fault::Error(Code::NotFound) };
    Rule { on: Target::Method(method), skip: random.between(0, 5), fault }
}
