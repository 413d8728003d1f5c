//! Pods of a plan, and their manifests.

use std::fmt::{self, Write as _};
use std::path::PathBuf;
use std::time::Duration;

use model::ids::PodUid;
use podspec::{Origin, read_manifest, view};

/// The name of the node that is simulated.
pub(crate) const NODE: &str = "node";

/// The URL that serves manifests of the node.
pub(crate) const URL: &str = "http://manifests.test/node";

/// When an ended container is started again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "Kubernetes' own words")]
pub enum Policy {
    Always,
    OnFailure,
    Never,
}

impl Policy {
    /// Whether a container that ended with this code is started again.
    pub fn restarts(self, exit_code: i32) -> bool {
        match self {
            Self::Always => true,
            Self::OnFailure => exit_code != 0,
            Self::Never => false,
        }
    }
}

/// What a container's process does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Program {
    /// Runs until it is asked to end.
    Forever,
    /// Ends by itself.
    Ends(Duration, u8),
    /// Runs until it is asked to end, and takes its time for that.
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

/// A container of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContainerPlan {
    /// Its name.
    pub name: &'static str,
    /// Its image.
    pub image: &'static str,
    /// What it does.
    pub program: Program,
    /// Whether it is an init container that keeps running.
    pub sidecar: bool,
}

/// A version of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodPlan {
    /// Its name, and that of its manifest.
    pub name: String,
    /// Counts the versions; every one differs from all others.
    pub revision: u64,
    /// Whether the pod keeps its uid from version to version, by saying it.
    pub keeps_uid: bool,
    /// Its restart policy.
    pub policy: Policy,
    /// Its grace in seconds.
    pub grace: u64,
    /// How many seconds it may run.
    pub deadline: Option<u64>,
    /// Whether it is on the page of the URL; else it has a manifest file.
    pub on_page: bool,
    /// Whether it is on the host's network.
    pub host_network: bool,
    /// Its init containers, sidecars among them.
    pub init: Vec<ContainerPlan>,
    /// Its containers.
    pub containers: Vec<ContainerPlan>,
}

impl PodPlan {
    /// Where the manifest of a pod lies.
    pub fn path_of(name: &str) -> PathBuf {
        format!("/manifests/{name}.yaml").into()
    }

    /// What tells this version from all others, also inside other files.
    pub fn mark(&self) -> String {
        format!("{}-v{}-", self.name, self.revision)
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
            writeln!(text, "  activeDeadlineSeconds: {deadline}").expect("text takes text");
        }
        if self.host_network {
            text.push_str("  hostNetwork: true\n");
        }
        let mut list = |title: &str, containers: &[ContainerPlan]| {
            if containers.is_empty() {
                return;
            }
            writeln!(text, "  {title}:").expect("text takes text");
            for ContainerPlan { name, image, program, sidecar } in containers {
                let policy = if *sidecar { ", restartPolicy: Always" } else { "" };
                let resources = self.resources();
                let args = program.args();
                writeln!(
                    text,
                    "  - {{name: {name}, image: \"{image}\", args: {args}{policy}{resources}}}"
                )
                .expect("text takes text");
            }
        };
        list("initContainers", &self.init);
        list("containers", &self.containers);
        text
    }

    /// Thousandths of a processor that each of its containers asks for: another version of a pod that
    /// keeps its uid asks for others.
    pub fn milli(&self) -> i64 {
        let more = i64::try_from(self.revision % 5).unwrap_or(0);
        if self.keeps_uid { 100 + 10 * more } else { 0 }
    }

    fn resources(&self) -> String {
        match self.milli() {
            0 => String::new(),
            milli => format!(", resources: {{requests: {{cpu: {milli}m}}}}"),
        }
    }

    /// Its uid on the node.
    pub fn uid(&self) -> PodUid {
        let origin = if self.on_page {
            Origin::Url(URL.to_owned())
        } else {
            Origin::File(Self::path_of(&self.name))
        };
        let read = read_manifest(self.manifest().as_bytes(), &origin, NODE);
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
        let all = self.init.iter().map(|one| ("init ", one));
        for (kind, one) in all.chain(self.containers.iter().map(|one| ("", one))) {
            let kind = if one.sidecar { "sidecar " } else { kind };
            let image = one.image.rsplit('/').next().unwrap_or_default();
            write!(f, "; {kind}{} {image} {:?}", one.name, one.program)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(revision: u64, keeps_uid: bool) -> PodPlan {
        let container = |name, sidecar| ContainerPlan {
            name,
            image: "ferrolet.test/workload:1",
            program: Program::Traps(Duration::from_secs(2), 3),
            sidecar,
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
            init: vec![container("i0", false), container("i1", true)],
            containers: vec![container("c0", false)],
        }
    }

    #[test]
    fn a_new_version_is_a_new_pod_unless_it_says_otherwise() {
        assert_ne!(pod(1, false).uid(), pod(2, false).uid());
        assert_eq!(pod(1, true).uid(), pod(2, true).uid());
        assert_ne!(pod(1, true).mark(), pod(2, true).mark());
    }
}
