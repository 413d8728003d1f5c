//! `/metrics/cadvisor`: the usage of every cgroup, with cAdvisor's names and labels.

use std::collections::BTreeMap;

use jiff::Timestamp;
use model::cgroup::usage::CgroupSample;
use model::ids::{PodUid, SandboxId};
use model::machine::Identity;
use model::ports::node_usage::InterfaceCounters;

use super::cadvisor_series::{self as series, gauge};
use super::observation::RunningPod;
use super::owners::{object_of, pod_of};
use super::summary::ROOT;
use super::text::{Metric, Page};

/// The machine.
#[derive(Debug)]
pub struct Machine<'a> {
    /// The number of CPUs.
    pub cpus: u32,
    /// Memory in bytes.
    pub memory: u64,
    /// Its identity.
    pub identity: &'a Identity,
    /// Its interfaces, if they could be read.
    pub interfaces: Option<Vec<InterfaceCounters>>,
}

/// What the page shows.
#[derive(Debug)]
pub struct Shown<'a> {
    /// Now.
    pub now: Timestamp,
    /// The measured cgroups.
    pub samples: &'a [CgroupSample],
    /// The pods with running containers.
    pub pods: &'a [RunningPod],
    /// The machine.
    pub machine: Machine<'a>,
    /// The interfaces of pods.
    pub interfaces: &'a BTreeMap<PodUid, Vec<InterfaceCounters>>,
    /// The images of sandboxes.
    pub sandbox_images: &'a BTreeMap<SandboxId, String>,
    /// The paths of block devices.
    pub devices: &'a BTreeMap<(u32, u32), String>,
}

/// The labels that every series of a cgroup has.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Owner<'a> {
    /// The name of the container.
    pub container: &'a str,
    /// The path of the cgroup.
    pub id: &'a str,
    /// The image.
    pub image: &'a str,
    /// The runtime's ID of the container or sandbox.
    pub name: &'a str,
    /// The namespace of the pod.
    pub namespace: &'a str,
    /// The pod.
    pub pod: &'a str,
}

impl<'a> Owner<'a> {
    /// The labels, with more of them.
    pub(super) fn labels(&self, more: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
        let mut labels = vec![
            ("container", self.container),
            ("id", self.id),
            ("image", self.image),
            ("name", self.name),
            ("namespace", self.namespace),
            ("pod", self.pod),
        ];
        labels.extend_from_slice(more);
        labels
    }
}

const SCRAPE_ERROR: Metric =
    gauge("container_scrape_error", "Whether cgroups could not be measured: 1 or 0.");

/// The page.
pub fn page(shown: &Shown<'_>) -> String {
    let mut page = Page::default();
    let index = Index::new(shown);
    for sample in shown.samples {
        let owner = index.owner(&sample.path);
        let is_root = sample.path == ROOT;
        let machine = is_root.then_some(shown.machine.memory);
        series::add_cgroup(&mut page, &owner, sample, machine);
        series::add_io(&mut page, &owner, sample, shown.devices);
        let last_seen = gauge("container_last_seen", "When the cgroup was last measured.");
        let seconds = u64::try_from(shown.now.as_second()).unwrap_or_default();
        page.add(last_seen, &owner.labels(&[]), seconds, Some(shown.now));
        let interfaces = match index.sandboxes.get(object_of(&sample.path)) {
            Some(pod) => shown.interfaces.get(&pod.uid),
            None if is_root => shown.machine.interfaces.as_ref(),
            None => None,
        };
        if let Some(interfaces) = interfaces {
            series::add_network(&mut page, &owner, sample.time, interfaces);
        }
    }
    add_machine(&mut page, &shown.machine);
    page.add(SCRAPE_ERROR, &[], 0, None);
    page.text()
}

/// The page if cgroups could not be measured.
pub fn error_page() -> String {
    let mut page = Page::default();
    page.add(SCRAPE_ERROR, &[], 1, None);
    page.text()
}

fn add_machine(page: &mut Page, machine: &Machine<'_>) {
    let Identity { boot_id, machine_id, system_uuid, swap, .. } = machine.identity;
    let labels = [
        ("boot_id", boot_id.as_str()),
        ("machine_id", machine_id.as_str()),
        ("system_uuid", system_uuid.as_str()),
    ];
    let values = [
        (gauge("machine_cpu_cores", "CPUs of the machine."), u64::from(machine.cpus)),
        (gauge("machine_memory_bytes", "Memory of the machine."), machine.memory),
        (gauge("machine_swap_bytes", "Swap of the machine."), *swap),
    ];
    for (metric, value) in values {
        page.add(metric, &labels, value, None);
    }
    let errors = gauge("machine_scrape_error", "Whether the machine could not be read: 1 or 0.");
    page.add(errors, &[], 0, None);
}

/// Pods by the cgroups that they own.
struct Index<'a> {
    pods: BTreeMap<&'a str, &'a RunningPod>,
    sandboxes: BTreeMap<&'a str, &'a RunningPod>,
    containers: BTreeMap<&'a str, (&'a RunningPod, &'a str, &'a str)>,
    sandbox_images: &'a BTreeMap<SandboxId, String>,
}

impl<'a> Index<'a> {
    fn new(shown: &Shown<'a>) -> Self {
        let pods = shown.pods;
        let containers = pods.iter().flat_map(|pod| {
            let of = move |one: &'a super::observation::RunningContainer| {
                (one.id.as_str(), (pod, &*one.name, &*one.image))
            };
            pod.containers.iter().map(of)
        });
        Self {
            pods: pods.iter().map(|pod| (pod.uid.as_str(), pod)).collect(),
            sandboxes: pods.iter().map(|pod| (pod.sandbox.as_str(), pod)).collect(),
            containers: containers.collect(),
            sandbox_images: shown.sandbox_images,
        }
    }

    fn owner(&self, path: &'a str) -> Owner<'a> {
        let object = object_of(path);
        let of_pod = |pod: &'a RunningPod| Owner {
            id: path,
            namespace: &pod.name.namespace,
            pod: &pod.name.name,
            ..Owner::default()
        };
        if let Some(&(pod, container, image)) = self.containers.get(object) {
            return Owner { container, image, name: object, ..of_pod(pod) };
        }
        if let Some(pod) = self.sandboxes.get(object) {
            let image = self.sandbox_images.get(&pod.sandbox);
            let image = image.map(String::as_str).unwrap_or_default();
            return Owner { image, name: object, ..of_pod(pod) };
        }
        let uid = pod_of(path);
        let pod = uid.as_ref().and_then(|uid| self.pods.get(uid.as_str()));
        pod.map_or(Owner { id: path, ..Owner::default() }, |pod| of_pod(pod))
    }
}

#[cfg(test)]
#[path = "cadvisor_tests.rs"]
mod tests;
