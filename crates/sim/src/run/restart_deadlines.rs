//! The deadlines of ended containers to restart.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use model::ids::{ContainerId, PodUid};
use model::observed::ContainerState;

use crate::history::{Event, Instance, Record};
use crate::plan::{ContainerPlan, PodPlan, Program};
use crate::settled::{Snapshot, Wanted};

/// The first and the longest back-off.
const FIRST: Duration = Duration::from_secs(10);
const LONGEST: Duration = Duration::from_mins(5);

/// How much longer a worker may sleep: resync jitter extends a minute by up to half.
const STRETCH: Duration = Duration::from_secs(30);

/// How long the start of one container may keep its pod's worker busy, with its image and its postStart hook.
const START: Duration = Duration::from_secs(10);

/// The exits of containers under the current agent. It has no back-off for earlier exits, and for these the one
/// that they lead to.
#[derive(Debug, Default)]
pub(super) struct RestartDeadlines {
    /// When the agent started.
    since: Duration,
    ends: BTreeMap<(PodUid, Arc<str>), u32>,
}

impl RestartDeadlines {
    /// Processes the next records.
    pub(super) fn read(&mut self, records: &[Record]) {
        for Record { at, event } in records {
            match event {
                Event::AgentStarted(_) => *self = Self { since: *at, ends: BTreeMap::new() },
                Event::Container(one, was)
                    if one.state == Some(ContainerState::Exited) && *was != one.state =>
                {
                    *self.ends.entry((one.uid.clone(), Arc::clone(&one.name))).or_default() += 1;
                }
                _ => {}
            }
        }
    }

    /// When each ended container must have restarted, if there was no fault since the start of the agent.
    /// Containers after a sidecar are excluded where the sidecar does not stay up.
    pub(super) fn start_by(
        &self,
        snapshot: &Snapshot,
        wanted: &Wanted,
    ) -> BTreeMap<ContainerId, Duration> {
        let by = |one: &Instance| {
            let (pod, finished) = (wanted.get(&one.uid)?, one.finished?);
            let mut before = pod.init.iter().take_while(|init| *init.name != *one.name);
            let is_held_up = before.any(|init| init.sidecar && ends(init));
            let waits = self.delay(one) + STRETCH + busy(pod);
            (!is_held_up).then(|| (one.id.clone(), finished.max(self.since) + waits))
        };
        snapshot.containers.iter().filter_map(by).collect()
    }

    fn delay(&self, one: &Instance) -> Duration {
        let ends = self.ends.get(&(one.uid.clone(), Arc::clone(&one.name))).copied();
        let doubled = ends.unwrap_or_default().checked_sub(1).map(|times| 2_u32.pow(times.min(5)));
        doubled.map_or(Duration::ZERO, |factor| (FIRST * factor).min(LONGEST))
    }
}

fn ends(container: &ContainerPlan) -> bool {
    matches!(container.program, Program::Ends(..))
}

/// How long the worker of a pod may be busy. A container that does not come up is stopped, as are all when the
/// whole pod restarts, one after another.
fn busy(pod: &PodPlan) -> Duration {
    let stops = pod.restarts_all() || pod.all().any(ContainerPlan::may_not_come_up);
    let grace = Duration::from_secs(if stops { pod.grace } else { 0 });
    pod.all().map(|_| START + grace).sum()
}

#[cfg(test)]
mod tests {
    use model::observed::ContainerState::{Exited, Running};

    use super::*;
    use crate::plan::Policy;
    use crate::settled::tests::{container, instance, pod, snapshot};

    fn ended(attempt: u32, at: u64) -> Instance {
        Instance { finished: Some(Duration::from_secs(at)), ..instance("a", attempt, Exited) }
    }

    /// The deadline of a container with this number of earlier exits, under an agent that started at 500.
    fn by(pod: PodPlan, ends: &[u64]) -> Option<u64> {
        let started = Record { at: Duration::from_secs(500), event: Event::AgentStarted(2) };
        let end = |(attempt, at): (u32, u64)| Record {
            at: Duration::from_secs(at),
            event: Event::Container(Arc::new(ended(attempt, at)), Some(Running)),
        };
        let mut records: Vec<_> = (0..).zip(ends.iter().copied()).map(end).collect();
        records.insert(ends.iter().take_while(|at| **at < 500).count(), started);
        let mut waits = RestartDeadlines::default();
        waits.read(&records);
        let last = ended(0, *ends.last().unwrap());
        let seen = snapshot(vec![last], &[true]);
        let wanted = Wanted::from([("u".into(), Arc::new(pod))]);
        waits.start_by(&seen, &wanted).get(&ContainerId::from("a0")).map(Duration::as_secs)
    }

    #[test]
    fn back_off_counts_only_exits_since_the_agent_started() {
        let rows = [
            (vec![400], 500),
            (vec![300, 400], 500),
            (vec![510], 520),
            (vec![400, 510], 520),
            (vec![510, 530], 550),
            (vec![510, 530, 560, 610, 700], 860),
            (vec![510, 511, 512, 513, 514, 515, 516, 517], 817),
        ];
        for (ends, expected) in rows {
            // Two containers keep the worker busy.
            let expected = Some(expected + 30 + 20);
            assert_eq!(by(pod(Policy::Always), &ends), expected, "{ends:?}");
        }
    }

    #[test]
    fn container_stop_waits_for_other_containers_of_the_pod() {
        let sidecar = |program| ContainerPlan { sidecar: true, program, ..container("i") };
        let with = |program| PodPlan { init: vec![sidecar(program)], ..pod(Policy::Always) };
        assert_eq!(by(with(Program::Forever), &[510]), Some(520 + 30 + 30));
        assert_eq!(by(with(Program::Ends(FIRST, 0)), &[510]), None);
        let mut hooked = pod(Policy::Always);
        hooked.containers[1].extras.post_start = Some(crate::plan::Hook::Exec(FIRST, 1));
        assert_eq!(by(hooked, &[510]), Some(520 + 30 + 2 * (30 + 10)));
    }
}
