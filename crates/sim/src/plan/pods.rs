//! Pods of a plan, and their manifests.

use std::fmt::{self, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use model::ids::PodUid;
use podspec::{Origin, read_manifest, view};

use super::extras::Extras;

/// The name of the simulated node.
pub(crate) const NODE: &str = "node";

/// The URL with manifests of the node.
pub(crate) const URL: &str = "http://manifests.test/node";

/// When an ended container restarts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "Kubernetes' own words")]
pub enum Policy {
    Always,
    OnFailure,
    Never,
}

impl Policy {
    /// Whether a container restarts after this exit code.
    pub fn restarts(self, exit_code: i32) -> bool {
        match self {
            Self::Always => true,
            Self::OnFailure => exit_code != 0,
            Self::Never => false,
        }
    }
}

/// The behaviour of a container's process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// Runs until it is stopped.
    Forever,
    /// Ends by itself.
    Ends(Duration, u8),
    /// Runs until it is stopped, and then ends after a delay.
    Traps(Duration, u8),
    /// Runs until it is killed.
    Ignores,
}

impl Program {
    fn args(self) -> String {
        match self {
            Self::Forever => "[sleep, forever]".to_owned(),
            Self::Ends(after, 0) => format!("[sleep, {}ms]", after.as_millis()),
            Self::Ends(after, code) => {
                format!("[crash-after, {}ms, \"{code}\"]", after.as_millis())
            }
            Self::Traps(delay, code) => {
                format!("[trap, TERM, --exit, \"{code}\", --delay, {}ms]", delay.as_millis())
            }
            Self::Ignores => "[ignore, TERM]".to_owned(),
        }
    }
}

/// A planned container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerPlan {
    /// Its name.
    pub name: &'static str,
    /// Its image.
    pub image: &'static str,
    /// Its program.
    pub program: Program,
    /// Whether it is a sidecar.
    pub sidecar: bool,
    /// Its optional features.
    pub extras: Extras,
}

impl ContainerPlan {
    /// Whether it restarts after this exit code, in a pod with this policy. An init container has ended for
    /// good with 0, and a sidecar never.
    pub fn restarts(&self, pod: Policy, exit_code: i32) -> bool {
        match self.extras.rule {
            Some(rule) => rule.restarts(exit_code),
            None => pod.restarts(exit_code),
        }
    }

    /// Whether it may be ended right after its start: a postStart hook then fails, or finds it ended.
    pub fn may_not_come_up(&self) -> bool {
        let ends = matches!(self.program, Program::Ends(..));
        self.extras.post_start.is_some_and(|hook| ends || hook.fails())
    }
}

/// A version of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools, reason = "independent choices")]
pub struct PodPlan {
    /// Its name, and that of its manifest.
    pub name: String,
    /// The version number; all versions of all pods differ.
    pub revision: u64,
    /// Whether the pod has a fixed UID in its manifest.
    pub keeps_uid: bool,
    /// Its restart policy.
    pub policy: Policy,
    /// Its grace period in seconds.
    pub grace: u64,
    /// Its deadline in seconds.
    pub deadline: Option<u64>,
    /// Whether it is on the page of the URL; else it has a manifest file.
    pub on_page: bool,
    /// Whether it is on the host's network.
    pub host_network: bool,
    /// Whether its containers restart when their memory changes.
    pub restarts_for_memory: bool,
    /// Its init containers, sidecars among them.
    pub init: Vec<ContainerPlan>,
    /// Its containers.
    pub containers: Vec<ContainerPlan>,
}

impl PodPlan {
    /// The path of a pod's manifest.
    pub fn path_of(name: &str) -> PathBuf {
        format!("/manifests/{name}.yaml").into()
    }

    /// A marker of this version, also in other files.
    pub fn mark(&self) -> String {
        format!("{}-v{}-", self.name, self.revision)
    }

    /// All its containers, in the order of their starts.
    pub fn all(&self) -> impl Iterator<Item = &ContainerPlan> {
        self.init.iter().chain(&self.containers)
    }

    /// The regular container or init container of this name.
    pub fn container(&self, name: &str) -> Option<&ContainerPlan> {
        self.all().find(|container| container.name == name)
    }

    /// Whether the exit of one of its containers may restart it as a whole.
    pub fn restarts_all(&self) -> bool {
        self.all().any(|container| container.extras.restarts_all())
    }

    /// Whether it may end by itself.
    pub fn may_finish(&self) -> bool {
        // Every exit code is tried: a rule may name a single one.
        let lasts = |one: &ContainerPlan| (0..=255).all(|code| one.restarts(self.policy, code));
        self.deadline.is_some() || !self.containers.iter().any(lasts)
    }

    /// The manifest.
    pub fn manifest(&self) -> String {
        let uid = if self.keeps_uid { format!("uid: own-{}, ", self.name) } else { String::new() };
        let mut text = format!(
            "apiVersion: v1\nkind: Pod\n\
             metadata: {{name: {}, {uid}annotations: {{version: {}}}}}\n\
             spec:\n  restartPolicy: {:?}\n  terminationGracePeriodSeconds: {}\n",
            self.name,
            self.mark(),
            self.policy,
            self.grace
        );
        if let Some(deadline) = self.deadline {
            writeln!(text, "  activeDeadlineSeconds: {deadline}")
                .expect("writing to a string succeeds");
        }
        if self.host_network {
            text.push_str("  hostNetwork: true\n");
        }
        if self.all().any(|one| one.extras.signal.is_some()) {
            text.push_str("  os: {name: linux}\n");
        }
        let mut list = |title: &str, containers: &[ContainerPlan]| {
            if containers.is_empty() {
                return;
            }
            writeln!(text, "  {title}:").expect("writing to a string succeeds");
            for container in containers {
                let ContainerPlan { name, image, program, sidecar, extras } = container;
                let policy = if *sidecar { ", restartPolicy: Always" } else { "" };
                let (resources, extras) = (self.resources(container), extras.yaml());
                let args = program.args();
                writeln!(
                    text,
                    "  - {{name: {name}, image: \"{image}\", args: {args}{policy}{resources}{extras}}}"
                )
                .expect("writing to a string succeeds");
            }
        };
        list("initContainers", &self.init);
        list("containers", &self.containers);
        text
    }

    /// The CPU request of each of its containers in millicores: another version with the same UID has another
    /// value.
    pub fn milli(&self) -> i64 {
        let more = i64::try_from(self.revision % 5).unwrap_or(0);
        if self.keeps_uid { 100 + 10 * more } else { 0 }
    }

    /// The memory request of each of its containers in mebibytes; the limit is twice that. They do not change
    /// with every version.
    pub fn mebibytes(&self) -> i64 {
        let more = i64::try_from(self.revision / 2 % 3).unwrap_or(0);
        if self.keeps_uid { 64 + 16 * more } else { 0 }
    }

    /// Whether a container restarts when its memory changes; one that never restarts cannot.
    fn restarts_for_resize(&self, container: &ContainerPlan) -> bool {
        let is_regular = self.containers.iter().any(|one| one.name == container.name);
        let lasts = self.policy == Policy::Always && container.extras.rule.is_none();
        self.keeps_uid && self.restarts_for_memory && is_regular && lasts
    }

    fn resources(&self, container: &ContainerPlan) -> String {
        let (milli, memory) = (self.milli(), self.mebibytes());
        if milli == 0 {
            return String::new();
        }
        let policy = if self.restarts_for_resize(container) {
            ", resizePolicy: [{resourceName: memory, restartPolicy: RestartContainer}]"
        } else {
            ""
        };
        format!(
            ", resources: {{requests: {{cpu: {milli}m, memory: {memory}Mi}}, \
             limits: {{memory: {}Mi}}}}{policy}",
            2 * memory
        )
    }

    /// The origin of the pod for an agent.
    pub fn origin(&self) -> Origin {
        if self.on_page {
            Origin::Url(URL.to_owned())
        } else {
            Origin::File(Self::path_of(&self.name))
        }
    }

    /// Its uid on the node.
    pub fn uid(&self) -> PodUid {
        let read = read_manifest(self.manifest().as_bytes(), &self.origin(), NODE);
        let read = read.unwrap_or_else(|error| panic!("{}\n{error:?}", self.manifest()));
        view::uid(&read.pods[0])
    }
}

impl fmt::Display for PodPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} v{} {:?} grace {}", self.name, self.revision, self.policy, self.grace)?;
        if let Some(deadline) = self.deadline {
            write!(f, " deadline {deadline}")?;
        }
        if self.keeps_uid {
            f.write_str(" own-uid")?;
        }
        if self.on_page {
            f.write_str(" by-url")?;
        }
        if self.host_network {
            f.write_str(" host-network")?;
        }
        if self.keeps_uid {
            write!(f, " {}m {}Mi", self.milli(), self.mebibytes())?;
        }
        if self.all().any(|one| self.restarts_for_resize(one)) {
            f.write_str(" restarts-for-memory")?;
        }
        let all = self.init.iter().map(|one| ("init ", one));
        for (kind, one) in all.chain(self.containers.iter().map(|one| ("", one))) {
            let kind = if one.sidecar { "sidecar " } else { kind };
            let image = one.image.rsplit('/').next().unwrap_or_default();
            write!(f, "; {kind}{} {image} {:?}{}", one.name, one.program, one.extras)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use podspec::{Allocation, Size};

    use super::*;
    use crate::plan::{Action, Hook, RestartRule};

    fn pod(revision: u64, keeps_uid: bool) -> PodPlan {
        let container = |name, sidecar| ContainerPlan {
            name,
            image: "ferrolet.test/workload:1",
            program: Program::Traps(Duration::from_secs(2), 3),
            sidecar,
            extras: Extras::default(),
        };
        PodPlan {
            name: "p0".to_owned(),
            revision,
            keeps_uid,
            policy: Policy::OnFailure,
            grace: 7,
            deadline: Some(60),
            on_page: false,
            host_network: true,
            restarts_for_memory: false,
            init: vec![container("i0", false), container("i1", true)],
            containers: vec![container("c0", false)],
        }
    }

    #[test]
    fn manifest_has_the_planned_container_features() {
        let extras = Extras {
            post_start: Some(Hook::Http),
            pre_stop: Some(Hook::Exec(Duration::from_secs(1), 2)),
            rule: Some(RestartRule { policy: Policy::Never, action: Action::RestartAll }),
            signal: Some("SIGINT"),
            message_from_log: true,
        };
        let mut plan = pod(1, false);
        plan.containers[0].extras = extras;
        plan.init[1].extras.pre_stop = Some(Hook::Sleep(2));
        let origin = Origin::File(PodPlan::path_of("p0"));
        let read = read_manifest(plan.manifest().as_bytes(), &origin, NODE).unwrap();
        let spec = view::spec(&read.pods[0]).unwrap();
        let lifecycle = spec.containers[0].lifecycle.as_ref().unwrap();
        assert_eq!(lifecycle.stop_signal.as_deref(), Some("SIGINT"));
        assert!(lifecycle.post_start.as_ref().unwrap().http_get.is_some());
        let command = lifecycle.pre_stop.as_ref().unwrap().exec.as_ref().unwrap().command.clone();
        assert_eq!(command, Hook::Exec(Duration::from_secs(1), 2).command());
        assert_eq!(command.unwrap(), ["/workload", "crash-after", "1000ms", "2"]);
        assert!(podspec::restart::may_restart_all(&read.pods[0]));
        for (code, restarts) in [(0, false), (1, false), (3, true), (137, true)] {
            assert_eq!(plan.containers[0].restarts(plan.policy, code), restarts, "{code}");
            let container = &spec.containers[0];
            let decided = podspec::restart::restarts_after(&read.pods[0], container, code);
            assert_eq!(decided, restarts, "{code}");
        }
        assert!(plan.restarts_all() && plan.may_finish());
    }

    #[test]
    fn manifest_has_the_planned_restart_policies() {
        let mut plan = pod(1, false);
        let rule = |action| Some(RestartRule { policy: Policy::Never, action });
        plan.init[0].extras.rule = rule(Action::Restart(1));
        plan.containers[0].extras.rule = rule(Action::RestartUnless(3));
        let origin = Origin::File(PodPlan::path_of("p0"));
        let read = read_manifest(plan.manifest().as_bytes(), &origin, NODE).unwrap();
        let spec = view::spec(&read.pods[0]).unwrap();
        let init = &spec.init_containers.as_ref().unwrap()[0];
        assert!(!view::is_sidecar(init));
        let rows = [(0, false, true), (1, true, true), (3, false, false)];
        for (code, of_init, of_other) in rows {
            let of = [
                (&plan.init[0], init, of_init),
                (&plan.containers[0], &spec.containers[0], of_other),
            ];
            for (planned, container, expected) in of {
                assert_eq!(planned.restarts(plan.policy, code), expected, "{code}");
                let decided = podspec::restart::restarts_after(&read.pods[0], container, code);
                assert_eq!(decided, expected, "{code}");
            }
        }
    }

    #[test]
    fn manifest_has_the_planned_resources_and_resize_policies() {
        let parsed = |plan: &PodPlan| {
            let origin = Origin::File(PodPlan::path_of("p0"));
            let read = read_manifest(plan.manifest().as_bytes(), &origin, NODE).unwrap();
            let spec = view::spec(&read.pods[0]).unwrap();
            let policies = spec.containers[0].resize_policy.iter().flatten();
            let anew = policies.filter(|policy| policy.restart_policy == "RestartContainer");
            let anew: Vec<_> = anew.map(|policy| policy.resource_name.clone()).collect();
            (Allocation::of(&read.pods[0]).containers["c0"], anew)
        };
        let size = |cpu_request, memory: i64| Size {
            cpu_request,
            cpu_limit: 0,
            memory_request: memory << 20,
            memory_limit: memory << 21,
        };
        let anew =
            |revision, policy| PodPlan { policy, restarts_for_memory: true, ..pod(revision, true) };
        let always = Policy::Always;
        assert_eq!(parsed(&pod(1, true)), (size(110, 64), vec![]));
        assert_eq!(parsed(&anew(2, always)), (size(120, 80), vec!["memory".to_owned()]));
        assert_eq!(parsed(&anew(2, Policy::Never)), (size(120, 80), vec![]));
    }

    #[test]
    fn new_version_has_a_new_uid_unless_resized_in_place() {
        assert_ne!(pod(1, false).uid(), pod(2, false).uid());
        assert_eq!(pod(1, true).uid(), pod(2, true).uid());
        assert_ne!(pod(1, true).mark(), pod(2, true).mark());
    }
}
