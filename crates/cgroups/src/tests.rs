//! The port with trees in plain directories.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result, ensure};
use async_trait::async_trait;
use model::cgroup::{CgroupName, CgroupValues};
use model::machine::Cgroups as Version;
use model::ports::cgroups::{CgroupError, Cgroups, Limits};
use model::ports::files::Removed;
use model::verdict::Subject;
use testkit::contract::assert_kept;
use testkit::contract::cgroups::{Harness, play_all};
use testkit::wanted::removal;

use crate::write::writes;
use crate::{HostCgroups, Tree, fake};

const ALL: &str = "cpuset cpu io memory hugetlb pids misc\n";

/// Cgroups below a temporary directory.
struct Below {
    _root: tempfile::TempDir,
    tree: Tree,
    cgroups: HostCgroups,
    entered: Mutex<Vec<Child>>,
}

impl Below {
    fn new(tree: impl FnOnce(&Path) -> Tree) -> Self {
        let root = tempfile::tempdir().unwrap();
        let tree = tree(root.path());
        let cgroups = HostCgroups::new(tree.clone());
        Self { _root: root, tree, cgroups, entered: Mutex::default() }
    }

    fn v1() -> Self {
        Self::new(fake::v1)
    }

    fn v2() -> Self {
        Self::new(|root| fake::v2(root, ALL))
    }

    /// The directory of a cgroup in the hierarchy of a controller.
    fn path(&self, controller: &str, name: &CgroupName) -> PathBuf {
        let root = &self.tree.with(controller).unwrap().root;
        root.join(name.to_string().trim_start_matches('/'))
    }

    fn read(&self, controller: &str, name: &CgroupName, file: &str) -> String {
        fs::read_to_string(self.path(controller, name).join(file)).unwrap().trim().to_owned()
    }

    async fn remove(&self, name: &CgroupName) -> Result<Removed, CgroupError> {
        self.cgroups.remove(&removal(Subject::Cgroup(name.clone()))).await
    }
}

impl Drop for Below {
    fn drop(&mut self) {
        for child in self.entered.get_mut().unwrap_or_else(PoisonError::into_inner) {
            child.kill().ok();
            child.wait().ok();
        }
    }
}

#[async_trait]
impl Harness for Below {
    fn cgroups(&self) -> &dyn Cgroups {
        &self.cgroups
    }

    fn base(&self) -> CgroupName {
        CgroupName::root()
    }

    async fn has(&self, name: &CgroupName, values: &CgroupValues) -> Result<()> {
        for write in writes(self.tree.version, values) {
            let found = self.read(write.controller, name, &write.file);
            ensure!(found == write.content, "{}: {found} and not {}", write.file, write.content);
        }
        Ok(())
    }

    async fn enter(&self, name: &CgroupName) -> Result<()> {
        let child = Command::new("sleep").arg("60").spawn().context("start a process")?;
        for root in self.tree.roots() {
            let path = root.join(name.to_string().trim_start_matches('/'));
            fs::write(path.join("cgroup.procs"), format!("{}\n", child.id()))?;
        }
        self.entered.lock().unwrap_or_else(PoisonError::into_inner).push(child);
        Ok(())
    }

    async fn all_are_dead(&self) -> Result<bool> {
        let mut entered = self.entered.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = entered.iter_mut().map(|child| Ok(child.try_wait()?.is_some()));
        Ok(ended.collect::<Result<Vec<_>>>()?.into_iter().all(|ended| ended))
    }
}

// behaviour: CGR-1
#[tokio::test]
async fn both_cgroup_versions_pass_the_contract() {
    for harness in [Below::v1(), Below::v2()] {
        assert_eq!(assert_kept(&play_all(&harness).await), [], "{:?}", harness.tree.version);
    }
}

// behaviour: CGR-41
#[tokio::test]
async fn create_reports_limits_that_could_not_be_set() {
    let pids = CgroupValues { pids_limit: Some(7), ..CgroupValues::default() };
    let harness = Below::v2();
    let pod = name("/kubepods/pod1");
    assert_eq!(harness.cgroups.create(&pod, &pids).await.unwrap(), Limits::Written);
    let file = harness.path("pids", &pod).join("pids.max");
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    assert_eq!(harness.cgroups.create(&pod, &pids).await.unwrap(), Limits::Lacking);
    // A limit that the machine never supports is not retried.
    let harness = Below::new(|root| fake::v2(root, "cpu cpuset memory\n"));
    assert_eq!(harness.cgroups.create(&pod, &pids).await.unwrap(), Limits::Written);
}

fn name(path: &str) -> CgroupName {
    CgroupName::parse(path).unwrap()
}

#[tokio::test]
async fn v1_cgroup_inherits_its_cpuset() {
    let harness = Below::v1();
    let pod = name("/kubepods/burstable/pod1");
    harness.cgroups.create(&pod, &CgroupValues::default()).await.unwrap();
    assert_eq!(harness.read("cpuset", &pod, "cpuset.cpus"), "0-3");
    assert_eq!(harness.read("cpuset", &pod, "cpuset.mems"), "0");
    let own = CgroupValues { cpu_set: Some("1".to_owned()), ..CgroupValues::default() };
    harness.cgroups.update(&pod, &own).await.unwrap();
    harness.cgroups.create(&pod, &CgroupValues::default()).await.unwrap();
    assert_eq!(harness.read("cpuset", &pod, "cpuset.cpus"), "1");
}

#[tokio::test]
async fn cgroup_missing_in_one_hierarchy_does_not_exist_and_is_completed() {
    let harness = Below::v1();
    let pod = name("/kubepods/pod1");
    harness.cgroups.create(&pod, &CgroupValues::default()).await.unwrap();
    fs::remove_dir_all(harness.path("memory", &pod)).unwrap();
    let missing = harness.cgroups.check(&pod).await.unwrap_err().to_string();
    let lacks = harness.path("memory", &pod).display().to_string();
    assert_eq!(missing, format!("cgroup /kubepods/pod1 is missing in {lacks}"));
    let parent = name("/kubepods");
    let children = harness.cgroups.children(&parent).await.unwrap();
    assert_eq!(children, [pod.clone()].into(), "a part of it is enough to be found");
    harness.cgroups.create(&pod, &CgroupValues::default()).await.unwrap();
    harness.cgroups.check(&pod).await.unwrap();
}

#[tokio::test]
async fn v2_controllers_are_enabled_for_children() {
    let harness = Below::v2();
    let pod = name("/kubepods/pod1");
    harness.cgroups.create(&pod, &CgroupValues::default()).await.unwrap();
    let down = harness.read("cpu", &name("/kubepods"), "cgroup.subtree_control");
    assert_eq!(down, "+cpu +cpuset +hugetlb +io +memory +misc +pids");
    fs::write(harness.path("cpu", &pod).join("cgroup.controllers"), "cpu memory\n").unwrap();
    let missing = harness.cgroups.check(&pod).await.unwrap_err().to_string();
    assert_eq!(
        missing,
        "cgroup /kubepods/pod1 is missing in controller cpuset, controller hugetlb, controller pids"
    );
    // Controllers of values that are not written may be missing.
    let values = CgroupValues { cpu_shares: Some(1024), ..CgroupValues::default() };
    harness.cgroups.update(&pod, &values).await.unwrap();
    assert_eq!(harness.read("cpu", &pod, "cpu.weight"), "39");
    let nowhere = harness.cgroups.update(&name("/kubepods/pod2"), &values).await.unwrap_err();
    assert!(matches!(nowhere, CgroupError::Missing { .. }), "{nowhere}");
}

#[tokio::test]
async fn missing_controller_is_reported_except_hugetlb() {
    let harness = Below::new(|root| fake::v2(root, "cpu cpuset memory\n"));
    let pod = name("/kubepods/pod1");
    harness.cgroups.create(&pod, &CgroupValues::default()).await.unwrap();
    harness.cgroups.check(&pod).await.unwrap();
    let huge = CgroupValues { huge_pages: [(2 << 20, 0)].into(), ..CgroupValues::default() };
    harness.cgroups.update(&pod, &huge).await.unwrap();
    let pids = CgroupValues {
        pids_limit: Some(7),
        memory_limit: Some(1 << 20),
        ..CgroupValues::default()
    };
    let error = harness.cgroups.update(&pod, &pids).await.unwrap_err().to_string();
    assert_eq!(error, "cgroup /kubepods/pod1 is missing in controller pids");
    assert_eq!(harness.read("memory", &pod, "memory.max"), "1048576", "the rest is written");
}

#[tokio::test]
async fn cgroup_without_controllers_is_refused() {
    let harness = Below::v2();
    let pod = name("/kubepods/pod1");
    harness.cgroups.create(&pod, &CgroupValues::default()).await.unwrap();
    fs::write(harness.path("cpu", &pod).join("cgroup.type"), "domain invalid\n").unwrap();
    let error = harness.cgroups.create(&pod, &CgroupValues::default()).await.unwrap_err();
    assert!(matches!(error, CgroupError::Mode { .. }), "{error}");
}

#[tokio::test]
async fn links_out_of_a_hierarchy_are_not_followed() {
    let harness = Below::v1();
    let outside = tempfile::tempdir().unwrap();
    fs::create_dir(outside.path().join("pod1")).unwrap();
    for root in harness.tree.roots() {
        std::os::unix::fs::symlink(outside.path(), root.join("kubepods")).unwrap();
    }
    let pod = name("/kubepods/pod1");
    assert!(harness.cgroups.check(&pod).await.is_err());
    assert!(harness.cgroups.create(&pod, &CgroupValues::default()).await.is_err());
    assert!(harness.remove(&pod).await.is_err());
    assert!(outside.path().join("pod1").exists());
}

// behaviour: CGR-14
#[tokio::test(start_paused = true)]
async fn removal_of_a_busy_cgroup_fails_and_can_be_retried() {
    let harness = Below::v1();
    let pod = name("/kubepods/pod1");
    let below = name("/kubepods/pod1/container");
    harness.cgroups.create(&below, &CgroupValues::default()).await.unwrap();
    let procs = harness.path("memory", &below).join("cgroup.procs");
    fs::write(&procs, "0\n").unwrap();
    let error = harness.remove(&pod).await.unwrap_err().to_string();
    assert_eq!(error, "cgroup /kubepods/pod1 still has processes {0}");
    fs::write(&procs, "").unwrap();
    assert_eq!(harness.remove(&pod).await.unwrap(), Removed::Now);
    assert_eq!(harness.cgroups.children(&name("/kubepods")).await.unwrap(), [].into());
}

#[tokio::test]
async fn cgroups_of_many_pods_are_removed_completely() {
    for harness in [Below::v1(), Below::v2()] {
        for number in 0..30 {
            let pod = name(&format!("/kubepods/burstable/pod{number}"));
            harness
                .cgroups
                .create(&pod.child("c").unwrap(), &CgroupValues::default())
                .await
                .unwrap();
            harness.remove(&pod).await.unwrap();
        }
        let left = harness.cgroups.children(&name("/kubepods/burstable")).await.unwrap();
        assert_eq!(left, [].into());
    }
}

#[tokio::test]
async fn container_memory_is_read_for_every_cgroup_naming_scheme() {
    for below in [Below::v1(), Below::v2()] {
        let pod = CgroupName::parse("/kubepods/pod1").unwrap();
        let usage = async |part| below.cgroups.memory_usage(&pod, part).await.unwrap();
        assert_eq!(usage(None).await, None);
        below
            .cgroups
            .create(&pod.child("cri-abc").unwrap(), &CgroupValues::default())
            .await
            .unwrap();
        assert_eq!(usage(None).await, Some(8192));
        assert_eq!(usage(Some("abc")).await, Some(8192));
        assert_eq!(usage(Some("abd")).await, None);
        let odd = CgroupValues { memory_limit: Some(10_000_000), ..CgroupValues::default() };
        let file =
            if below.tree.version == Version::V1 { "memory.limit_in_bytes" } else { "memory.max" };
        below.cgroups.update(&pod, &odd).await.unwrap();
        fs::write(below.path("memory", &pod).join(file), "9998336\n").unwrap();
        assert!(below.cgroups.has(&pod, &odd).await.unwrap(), "the kernel rounds to pages");
    }
}
