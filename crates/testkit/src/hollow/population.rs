//! Initial pods.

use std::collections::BTreeMap;

use anyhow::{Context, Result};
use model::ids::{PodName, PodUid};
use model::ports::runtime::{ContainerService, SandboxService};
use model::wanted::NamespaceMode;
use serde::Deserialize;

use super::{Hollow, image};
use crate::wanted;

/// The default image.
const IMAGE: &str = "hollow.test/app:1";

/// Initial pods as JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Population {
    /// The pods.
    pub pods: Vec<PopulationPod>,
}

/// A pod with a sandbox, which is ready unless it has ended.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PopulationPod {
    /// Its namespace.
    #[serde(default = "default_namespace")]
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its uid.
    pub uid: String,
    /// Whether it is on the host's network.
    #[serde(default)]
    pub host_network: bool,
    /// Whether its sandbox has ended.
    #[serde(default)]
    pub ended: bool,
    /// Labels in addition to those of a node agent's pods.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
    /// Its containers.
    #[serde(default)]
    pub containers: Vec<PopulationContainer>,
}

/// A container.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PopulationContainer {
    /// Its name.
    pub name: String,
    /// Its restart count.
    #[serde(default)]
    pub attempt: u32,
    /// Its image.
    #[serde(default = "default_image")]
    pub image: String,
    /// The command, in place of the image's entry point.
    #[serde(default)]
    pub command: Vec<String>,
    /// The arguments.
    #[serde(default)]
    pub args: Vec<String>,
    /// Labels in addition to those of a node agent's containers.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    #[serde(default)]
    pub annotations: BTreeMap<String, String>,
    /// Its initial state.
    #[serde(default)]
    pub state: PopulationState,
}

/// The initial state of a container.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PopulationState {
    /// Created.
    Created,
    /// Started.
    #[default]
    Running,
    /// Killed.
    Exited,
}

fn default_namespace() -> String {
    "default".to_owned()
}

fn default_image() -> String {
    IMAGE.to_owned()
}

impl Population {
    /// A number of pods, each with a number of containers.
    pub fn of(pods: usize, containers: usize) -> Self {
        let container = |number| PopulationContainer {
            name: format!("c{number}"),
            attempt: 0,
            image: default_image(),
            command: Vec::new(),
            args: Vec::new(),
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            state: PopulationState::Running,
        };
        let pod = |number| PopulationPod {
            namespace: default_namespace(),
            name: format!("pod-{number}"),
            uid: format!("00000000-0000-4000-8000-{number:012}"),
            host_network: false,
            ended: false,
            labels: BTreeMap::new(),
            annotations: BTreeMap::new(),
            containers: (0..containers).map(container).collect(),
        };
        Self { pods: (0..pods).map(pod).collect() }
    }

    /// A number of ended pods, each with a number of dead instances of its container.
    pub fn dead(pods: usize, instances: usize) -> Self {
        let mut population = Self::of(pods, instances);
        for pod in &mut population.pods {
            pod.ended = true;
            for (attempt, container) in pod.containers.iter_mut().enumerate() {
                "main".clone_into(&mut container.name);
                container.attempt = u32::try_from(attempt).unwrap_or(u32::MAX);
                container.state = PopulationState::Exited;
                container.annotations = annotations(container.attempt);
            }
        }
        population
    }

    /// The total number of containers.
    pub fn containers(&self) -> usize {
        self.pods.iter().map(|pod| pod.containers.len()).sum()
    }
}

/// The annotations of a node agent on every container: they determine the size of container lists.
fn annotations(attempt: u32) -> BTreeMap<String, String> {
    let of =
        |name: &str, value: &str| (format!("io.kubernetes.container.{name}"), value.to_owned());
    BTreeMap::from([
        of("hash", "8f3f2d17"),
        of("restartCount", &attempt.to_string()),
        of("terminationMessagePath", "/dev/termination-log"),
        of("terminationMessagePolicy", "File"),
        ("io.kubernetes.pod.terminationGracePeriod".to_owned(), "30".to_owned()),
    ])
}

impl Hollow {
    /// Creates the pods without events, because they exist before the first stream.
    pub async fn populate(&self, population: &Population) -> Result<()> {
        for pod in &population.pods {
            let making = self.make(pod).await;
            making.with_context(|| format!("create pod {}/{}", pod.namespace, pod.name))?;
        }
        self.runtime.forget_events();
        Ok(())
    }

    async fn make(&self, pod: &PopulationPod) -> Result<()> {
        let name = PodName::new(pod.namespace.as_str(), pod.name.as_str());
        let mut config = wanted::sandbox(&name, &PodUid::from(pod.uid.as_str()));
        config.labels.extend(pod.labels.clone());
        config.annotations.clone_from(&pod.annotations);
        if pod.host_network {
            config.network = NamespaceMode::Node;
        }
        let sandbox = self.runtime.run_pod_sandbox(&config).await?;
        for one in &pod.containers {
            self.runtime.add_image(&image(&one.image, &self.settings.users));
            let mut container = wanted::container(&config, &one.name, &one.image, &[]);
            container.attempt = one.attempt;
            container.command.clone_from(&one.command);
            container.args.clone_from(&one.args);
            container.labels.extend(one.labels.clone());
            container.annotations.clone_from(&one.annotations);
            container.log_path = format!("{}/{}.log", one.name, one.attempt);
            let id = self.runtime.create_container(&sandbox, &container, &config).await?;
            if one.state != PopulationState::Created {
                self.runtime.start_container(&id).await?;
            }
            if one.state == PopulationState::Exited {
                self.runtime.kill_container(&id, 0);
            }
        }
        if pod.ended {
            self.runtime.stop_pod_sandbox(&sandbox).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use model::observed::{ContainerState, SandboxState};

    use super::*;

    #[tokio::test]
    async fn dead_pods_have_only_ended_containers() {
        let hollow = Hollow::new(crate::hollow::Settings {
            images: None,
            image_directory: "/images".into(),
            write_logs: false,
            users: BTreeMap::new(),
            requests: None,
            send_limit: None,
        });
        hollow.populate(&Population::dead(2, 3)).await.unwrap();
        let (sandboxes, containers) = (hollow.runtime.sandboxes(), hollow.runtime.containers());
        assert_eq!((sandboxes.len(), containers.len()), (2, 6));
        assert!(sandboxes.iter().all(|one| one.state == SandboxState::NotReady));
        assert!(containers.iter().all(|one| one.state == ContainerState::Exited));
        let mut attempts: Vec<u32> = containers.iter().map(|one| one.attempt).collect();
        attempts.sort_unstable();
        assert_eq!(attempts, [0, 0, 1, 1, 2, 2]);
    }

    #[test]
    fn population_file_fields_are_optional() {
        let text = r#"{"pods": [
            {"name": "web", "uid": "1", "containers": [
                {"name": "main"},
                {"name": "old", "attempt": 2, "state": "exited", "annotations": {"a": "b"}}
            ]},
            {"namespace": "shop", "name": "empty", "uid": "2", "host_network": true}
        ]}"#;
        let population: Population = serde_json::from_str(text).unwrap();
        let [web, empty] = &population.pods[..] else { panic!("{population:?}") };
        assert_eq!((web.namespace.as_str(), population.containers()), ("default", 2));
        assert_eq!(web.containers[0].state, PopulationState::Running);
        assert_eq!(web.containers[0].image, IMAGE);
        assert_eq!(web.containers[1].state, PopulationState::Exited);
        assert_eq!(web.containers[1].attempt, 2);
        assert_eq!(web.containers[1].annotations["a"], "b");
        assert!(empty.host_network && empty.containers.is_empty());
        let misspelt = r#"{"pods": [{"name": "web", "uid": "1", "contaners": []}]}"#;
        serde_json::from_str::<Population>(misspelt).unwrap_err();
    }
}
