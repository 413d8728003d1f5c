//! The contract of the cgroups port, on this machine's kernel.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use async_trait::async_trait;
use cgroups::{HostCgroups, Tree};
use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use journal::{Ledger, Recording};
use model::cgroup::{CgroupName, CgroupValues, cpu};
use model::ids::PodUid;
use model::image_claims::ImageClaims;
use model::intercept::Intercepted;
use model::ports::cgroups::Cgroups;
use model::ports::journal::{Journal, Outcome};
use model::verdict::{Subject, Verdict};
use podspec::{QosClass, view};
use prometheus::Registry;
use runtime::PodCgroups;
use runtime::decide::{PodCgroupSettings, class_cgroup};
use testkit::clock::VirtualClock;
use testkit::contract::assert_kept;
use testkit::contract::cgroups::{Harness, play_all};
use testkit::wanted::removal;

/// The number of pods, and how many exist at a time.
const PODS: usize = 1000;
const AT_A_TIME: usize = 8;
/// How long all of them may take.
const PATIENCE: Duration = Duration::from_mins(3);

/// A cgroup of this machine, for this process only.
struct Kernel {
    tree: Tree,
    cgroups: HostCgroups,
    base: CgroupName,
    entered: Mutex<Vec<Child>>,
}

impl Kernel {
    async fn new() -> Result<Self> {
        let tree = Tree::of_machine()?;
        let cgroups = HostCgroups::new(tree.clone());
        let base = CgroupName::parse(&format!("/ferrolet-contract-{}", std::process::id()))?;
        cgroups.create(&base, &CgroupValues::default()).await?;
        Ok(Self { tree, cgroups, base, entered: Mutex::default() })
    }

    /// A file of a cgroup, in any hierarchy.
    fn file(&self, name: &CgroupName, file: &str) -> Option<PathBuf> {
        let below = |root: &Path| root.join(name.to_string().trim_start_matches('/')).join(file);
        self.tree.roots().map(below).find(|path| path.exists())
    }

    fn check_files(&self, name: &CgroupName, files: [(&str, String); 2]) -> Result<()> {
        for (file, expected) in files {
            let Some(path) = self.file(name, file) else { continue };
            let found = fs::read_to_string(&path)?;
            ensure!(found.trim() == expected, "{}: {found} and not {expected}", path.display());
            return Ok(());
        }
        anyhow::bail!("{name} has no such file")
    }

    /// Whether all processes that were put into cgroups have ended.
    fn ended(&self) -> Result<bool> {
        let mut entered = self.entered.lock().unwrap_or_else(PoisonError::into_inner);
        let ended = entered.iter_mut().map(|child| Ok(child.try_wait()?.is_some()));
        Ok(ended.collect::<Result<Vec<_>>>()?.into_iter().all(|ended| ended))
    }

    async fn remove(&self, name: &CgroupName) -> Result<()> {
        self.cgroups.remove(&removal(Subject::Cgroup(name.clone()))).await?;
        Ok(())
    }

    /// A process that a pod left in a cgroup.
    fn leave_process(&self, name: &CgroupName) -> Result<Child> {
        let procs = self.file(name, "cgroup.procs").context("it has no file for processes")?;
        let child = Command::new("sleep").arg("60").spawn().context("start a process")?;
        fs::write(&procs, child.id().to_string()).context("put a process into a cgroup")?;
        Ok(child)
    }

    /// A frozen cgroup of a pod is removed: signals reach its processes only after the thaw.
    async fn play_frozen(&self) -> Result<()> {
        let pod = self.base.child("frozen")?;
        let container = pod.child("container")?;
        self.cgroups.create(&container, &CgroupValues::default()).await?;
        self.enter(&container).await?;
        let (path, frozen, thawed) = match self.file(&container, "freezer.state") {
            Some(path) => (path, "FROZEN", "THAWED"),
            None => (self.file(&container, "cgroup.freeze").context("freeze it")?, "1", "0"),
        };
        fs::write(&path, frozen).context("freeze a cgroup")?;
        let deadline = Instant::now() + Duration::from_secs(5);
        while fs::read_to_string(&path)?.trim() != frozen {
            ensure!(Instant::now() < deadline, "{} was not frozen", path.display());
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        let removed = self.remove(&pod).await;
        // Nothing stays frozen, even after a failure. Mostly it is gone.
        fs::write(&path, thawed).ok();
        removed?;
        ensure!(self.all_are_dead().await?, "a frozen process outlives its cgroup");
        Ok(())
    }

    /// Several pods at a time are created and deleted, each with its cgroup. Each leaves a process: the end of the pod and
    /// the search for leftover cgroups remove the same cgroup at once.
    async fn play_pods(&self) -> Result<()> {
        let removals = Arc::new(Removals::default());
        let ledger = Arc::new(Ledger::new(Arc::clone(&removals) as _, &Registry::new())?);
        let recording = Arc::new(Recording::new(ledger, ImageClaims::default()));
        let port: Arc<dyn Cgroups> = Arc::new(self.cgroups.clone());
        let port = Intercepted::new(port, &recording);
        let (root, huge_page_sizes) = (self.base.clone(), Vec::new());
        let settings =
            PodCgroupSettings { root, cpu_period: None, pids_limit: None, huge_page_sizes };
        let all = PodCgroups::new(Arc::new(port), Arc::new(VirtualClock::new()), settings);
        let parent = class_cgroup(&self.base, QosClass::Burstable);
        let pods = stream::iter(0..PODS).map(async |number| {
            // Its limit is above its request.
            let manifest = format!(
                "apiVersion: v1\nkind: Pod\nmetadata: {{name: p, uid: u{number}}}\n\
                 spec: {{containers: [{{name: main, resources: {{requests: {{cpu: 100m}}}}}}]}}\n"
            );
            let pod = podspec::decode(manifest.as_bytes())?.pods.remove(0);
            let uid = view::uid(&pod);
            all.ensure(&pod).await?;
            // As the runtime does.
            let container = parent.child(&format!("pod{uid}"))?.child("container")?;
            self.cgroups.create(&container, &CgroupValues::default()).await?;
            let mut process = self.leave_process(&container)?;
            let is_gone = |_: &PodUid| Some("pod-is-gone");
            let (released, ()) = tokio::join!(all.release(&pod), all.sweep_one(&uid, &is_gone));
            released?;
            wait_dead(&mut process).await
        });
        pods.buffer_unordered(AT_A_TIME).try_collect::<Vec<()>>().await?;
        let left = self.cgroups.children(&parent).await?;
        ensure!(left.is_empty(), "{left:?}");
        // One of the two removed it; the other one found nothing.
        let removals = removals.0.lock().unwrap_or_else(PoisonError::into_inner);
        let all_went = removals.values().all(|times| *times == 1);
        ensure!(removals.len() == PODS && all_went, "{} removals: {removals:?}", removals.len());
        Ok(())
    }
}

/// How often each cgroup was removed; failed removals count, too.
#[derive(Debug, Default)]
struct Removals(Mutex<BTreeMap<String, usize>>);

impl Journal for Removals {
    fn record(&self, verdict: &Verdict, outcome: Outcome<'_>) {
        let times = if outcome == Outcome::Removed { 1 } else { PODS };
        let mut removals = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *removals.entry(verdict.subject.id().into_owned()).or_default() += times;
    }
}

/// Waits for the end of a process that was killed.
async fn wait_dead(process: &mut Child) -> Result<()> {
    let deadline = Instant::now() + Duration::from_secs(5);
    while process.try_wait()?.is_none() {
        ensure!(Instant::now() < deadline, "a process outlives its cgroup");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Ok(())
}

#[async_trait]
impl Harness for Kernel {
    fn cgroups(&self) -> &dyn Cgroups {
        &self.cgroups
    }

    fn base(&self) -> CgroupName {
        self.base.clone()
    }

    async fn has(&self, name: &CgroupName, values: &CgroupValues) -> Result<()> {
        if let Some(shares) = values.cpu_shares {
            let weight = cpu::weight(shares).to_string();
            self.check_files(name, [("cpu.shares", shares.to_string()), ("cpu.weight", weight)])?;
        }
        if let (Some(quota), Some(period)) = (values.cpu_quota, values.cpu_period) {
            let most = if quota < 0 { "max".to_owned() } else { quota.to_string() };
            let both = ("cpu.max", format!("{most} {period}"));
            self.check_files(name, [("cpu.cfs_quota_us", quota.to_string()), both])?;
        }
        if let Some(limit) = values.memory_limit {
            let limit = limit.to_string();
            self.check_files(
                name,
                [("memory.limit_in_bytes", limit.clone()), ("memory.max", limit)],
            )?;
        }
        if let Some(limit) = values.pids_limit {
            let limit = limit.to_string();
            self.check_files(name, [("pids.max", limit.clone()), ("pids.max", limit)])?;
        }
        Ok(())
    }

    async fn enter(&self, name: &CgroupName) -> Result<()> {
        let child = Command::new("sleep").arg("60").spawn().context("start a process")?;
        for root in self.tree.roots() {
            let procs = root.join(name.to_string().trim_start_matches('/')).join("cgroup.procs");
            fs::write(&procs, child.id().to_string()).context("put a process into a cgroup")?;
        }
        self.entered.lock().unwrap_or_else(PoisonError::into_inner).push(child);
        Ok(())
    }

    async fn all_are_dead(&self) -> Result<bool> {
        // A process that has left its cgroup may take another moment to end.
        let deadline = Instant::now() + Duration::from_secs(1);
        loop {
            let dead = self.ended()?;
            if dead || Instant::now() >= deadline {
                return Ok(dead);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

// behaviour: CGR-1, CGR-5
#[tokio::test(flavor = "multi_thread")]
async fn kernel_cgroups_pass_the_contract_and_1000_pods_leave_none() -> Result<()> {
    let kernel = Kernel::new().await?;
    let reports = play_all(&kernel).await;
    let frozen = kernel.play_frozen().await;
    let pods = tokio::time::timeout(PATIENCE, kernel.play_pods()).await;
    // Nothing of it stays, even after a failure.
    kernel.remove(&kernel.base).await?;
    assert_eq!(assert_kept(&reports), []);
    frozen?;
    pods.context("a thousand pods take too long")?
}
