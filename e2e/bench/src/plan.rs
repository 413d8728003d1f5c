//! The scenarios, as data.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// The runtime that a scenario is played on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum On {
    /// Real containers.
    Containerd,
    /// Containers in memory, in any number.
    Hollow,
}

/// A scenario.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Scenario {
    /// Its name in the results.
    pub name: String,
    /// Its runtime.
    pub on: On,
    /// The number of static pods with one container each.
    pub pods: usize,
    /// The pause after all pods run, before the measurement.
    #[serde(with = "seconds")]
    pub warm_up: Duration,
    /// The length of the measurement of the steady state.
    #[serde(with = "seconds")]
    pub window: Duration,
    /// The number of containers that are killed then, one after the other, each of another pod.
    pub deaths: usize,
    /// The number of containers that die while the agent is stopped at the end; zero: it is not restarted.
    pub died_meanwhile: usize,
}

/// The scenarios, and how often they are played.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// How often each is measured with each agent.
    pub rounds: u32,
    /// In this order.
    pub scenarios: Vec<Scenario>,
}

/// The scenario without pods; targets refer to it.
pub const IDLE: &str = "idle";
/// Thirty real pods.
pub const PODS_30: &str = "30 pods";
/// A hundred pods in memory.
pub const HOLLOW_100: &str = "100 pods, hollow";
/// A thousand pods in memory.
pub const HOLLOW_1000: &str = "1000 pods, hollow";

/// The period of ferrolet's relists while it receives events; the kubelet relists every second.
pub const RELIST: Duration = Duration::from_mins(1);
/// The period of resyncs: both agents resync a pod after 60 to 90 s.
pub const RESYNC: Duration = Duration::from_secs(90);
/// The shortest window for a quiet agent: wherever it starts, it contains two relists and a resync of every
/// pod.
pub const WINDOW: Duration = Duration::from_secs(150);
/// The number of relists in a window.
pub const RELISTS: u64 = 2;

impl Plan {
    /// The plan of `make bench`.
    pub fn full(rounds: u32) -> Self {
        let seconds = Duration::from_secs;
        let scenario = |name: &str, on, pods| Scenario {
            name: name.to_owned(),
            on,
            pods,
            warm_up: seconds(90),
            window: WINDOW,
            deaths: 0,
            died_meanwhile: 0,
        };
        let scenarios = vec![
            scenario(IDLE, On::Containerd, 0),
            Scenario { deaths: 10, ..scenario(PODS_30, On::Containerd, 30) },
            scenario(HOLLOW_100, On::Hollow, 100),
            Scenario { died_meanwhile: 10, ..scenario(HOLLOW_1000, On::Hollow, 1000) },
        ];
        Self { rounds, scenarios }
    }

    /// A small plan that shows that everything works: names and kinds, not numbers.
    pub fn tiny() -> Self {
        let mut plan = Self::full(1);
        for scenario in &mut plan.scenarios {
            scenario.pods = scenario.pods.div_ceil(100) * 2;
            scenario.warm_up = Duration::from_millis(200);
            scenario.window = Duration::from_secs(2);
            scenario.deaths = scenario.deaths.min(1);
            scenario.died_meanwhile = scenario.died_meanwhile.min(1);
        }
        plan
    }
}

/// Durations in seconds.
mod seconds {
    use std::time::Duration;

    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_f64(time.as_secs_f64())
    }

    pub(super) fn deserialize<'a, D: Deserializer<'a>>(from: D) -> Result<Duration, D::Error> {
        let seconds = f64::deserialize(from)?;
        Duration::try_from_secs_f64(seconds).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiny_plan_has_every_scenario_and_measurement_of_the_full_plan() {
        let (full, tiny) = (Plan::full(5), Plan::tiny());
        assert_eq!(tiny.rounds, 1);
        for (full, tiny) in full.scenarios.iter().zip(&tiny.scenarios) {
            assert_eq!((&full.name, full.on), (&tiny.name, tiny.on));
            assert_eq!(full.pods > 0, tiny.pods > 0);
            assert_eq!(full.deaths > 0, tiny.deaths > 0);
            assert_eq!(full.died_meanwhile > 0, tiny.died_meanwhile > 0);
            assert!(tiny.pods <= 20 && tiny.window <= Duration::from_secs(2));
        }
    }

    #[test]
    fn window_holds_two_relists_and_a_resync() {
        // A relist takes time, and the next one follows its end.
        assert!(WINDOW > RELIST * u32::try_from(RELISTS).unwrap() && WINDOW > RESYNC);
        assert!(Plan::full(1).scenarios.iter().all(|scenario| scenario.window >= WINDOW));
    }

    #[test]
    fn plan_survives_a_json_round_trip() {
        let plan = Plan::full(5);
        let text = serde_json::to_string(&plan).unwrap();
        assert_eq!(serde_json::from_str::<Plan>(&text).unwrap(), plan);
    }
}
