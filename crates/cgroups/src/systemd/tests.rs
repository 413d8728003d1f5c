//! The driver with a fake systemd at the other end of a socket, and trees in plain directories.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use model::machine::Cgroups as Version;
use model::verdict::Subject;
use testkit::wanted::removal;
use zbus::object_server::SignalEmitter;
use zbus::{Connection, Guid, OwnedObjectPath, OwnedVariant, connection, interface};

use super::*;
use crate::fake;

/// The existing units, each with its properties as text.
type Started = Arc<Mutex<BTreeMap<String, BTreeMap<String, String>>>>;

/// A service manager that keeps its units in memory.
struct FakeSystemd {
    units: Started,
    jobs: u32,
    subscribed: bool,
    stubborn: Stubborn,
}

/// Whether no unit can be stopped.
type Stubborn = Arc<AtomicBool>;

/// A refusal with systemd's error name.
#[derive(Debug, zbus::DBusError)]
#[zbus(prefix = "org.freedesktop.systemd1")]
enum Refusal {
    UnitExists(String),
    NoSuchUnit(String),
    AlreadySubscribed(String),
    OnlyByDependency(String),
    #[zbus(error)]
    Bus(zbus::Error),
}

impl FakeSystemd {
    async fn job(
        &mut self,
        emitter: &SignalEmitter<'_>,
        unit: String,
    ) -> Result<OwnedObjectPath, Refusal> {
        self.jobs += 1;
        let path = format!("/org/freedesktop/systemd1/job/{}", self.jobs);
        let path = OwnedObjectPath::try_from(path).unwrap();
        // The signal of another job first, then that of this one.
        let other = OwnedObjectPath::try_from("/org/freedesktop/systemd1/job/0").unwrap();
        Self::job_removed(emitter, 0, other, "other.slice".to_owned(), "failed".to_owned()).await?;
        Self::job_removed(emitter, self.jobs, path.clone(), unit, "done".to_owned()).await?;
        Ok(path)
    }
}

fn written(properties: Vec<(String, OwnedVariant)>) -> BTreeMap<String, String> {
    properties.into_iter().map(|(name, value)| (name, format!("{:?}", *value))).collect()
}

#[interface(name = "org.freedesktop.systemd1.Manager")]
impl FakeSystemd {
    fn subscribe(&mut self) -> Result<(), Refusal> {
        if std::mem::replace(&mut self.subscribed, true) {
            return Err(Refusal::AlreadySubscribed("Client is already subscribed.".to_owned()));
        }
        Ok(())
    }

    async fn start_transient_unit(
        &mut self,
        #[zbus(signal_emitter)] emitter: SignalEmitter<'_>,
        unit: String,
        _mode: String,
        properties: Vec<(String, OwnedVariant)>,
        _others: Vec<(String, Vec<(String, OwnedVariant)>)>,
    ) -> Result<OwnedObjectPath, Refusal> {
        if self.units.lock().unwrap().contains_key(&unit) {
            return Err(Refusal::UnitExists(unit));
        }
        self.units.lock().unwrap().insert(unit.clone(), written(properties));
        self.job(&emitter, unit).await
    }

    fn set_unit_properties(
        &self,
        unit: String,
        _runtime: bool,
        properties: Vec<(String, OwnedVariant)>,
    ) -> Result<(), Refusal> {
        let mut units = self.units.lock().unwrap();
        let Some(known) = units.get_mut(&unit) else { return Err(Refusal::NoSuchUnit(unit)) };
        known.extend(written(properties));
        Ok(())
    }

    async fn stop_unit(
        &mut self,
        #[zbus(signal_emitter)] emitter: SignalEmitter<'_>,
        unit: String,
        _mode: String,
    ) -> Result<OwnedObjectPath, Refusal> {
        if self.stubborn.load(Ordering::Relaxed) {
            return Err(Refusal::OnlyByDependency(unit));
        }
        if self.units.lock().unwrap().remove(&unit).is_none() {
            return Err(Refusal::NoSuchUnit(unit));
        }
        self.job(&emitter, unit).await
    }

    fn reset_failed_unit(&self, unit: String) -> Result<(), Refusal> {
        Err(Refusal::NoSuchUnit(unit))
    }

    #[zbus(signal)]
    async fn job_removed(
        emitter: &SignalEmitter<'_>,
        id: u32,
        job: OwnedObjectPath,
        unit: String,
        result: String,
    ) -> zbus::Result<()>;
}

struct Harness {
    root: tempfile::TempDir,
    cgroups: SystemdCgroups,
    units: Started,
    stubborn: Stubborn,
    _systemd: Connection,
}

impl Harness {
    async fn new(version: Version) -> Self {
        let root = tempfile::tempdir().unwrap();
        let tree = match version {
            Version::V1 => fake::v1(root.path()),
            Version::V2 => fake::v2(root.path(), "cpu cpuset memory pids\n"),
        };
        let (ours, theirs) = UnixStream::pair().unwrap();
        let (units, stubborn) = (Started::default(), Stubborn::default());
        let manager = FakeSystemd {
            units: Arc::clone(&units),
            jobs: 0,
            subscribed: false,
            stubborn: Arc::clone(&stubborn),
        };
        let server = connection::Builder::unix_stream(theirs)
            .server(Guid::generate())
            .p2p()
            .serve_at("/org/freedesktop/systemd1", manager)
            .build();
        let client = connection::Builder::unix_stream(ours).p2p().build();
        let (server, client) = tokio::try_join!(server, client).unwrap();
        let cgroups = SystemdCgroups::with(tree, Arc::new(Manager::connected(client)));
        Self { root, cgroups, units, stubborn, _systemd: server }
    }

    fn units(&self) -> Vec<String> {
        self.units.lock().unwrap().keys().cloned().collect()
    }

    fn property(&self, unit: &str, name: &str) -> Option<String> {
        self.units.lock().unwrap().get(unit)?.get(name).cloned()
    }

    fn file(&self, path: &str) -> PathBuf {
        self.root.path().join(path)
    }

    /// Puts these processes into a cgroup below the pod's, in every hierarchy.
    fn enter(&self, hierarchies: &[&str], processes: &str) {
        for hierarchy in hierarchies {
            let own = self.file(&format!("{hierarchy}/{SLICES}/cri-1.scope"));
            fs::create_dir_all(&own).unwrap();
            fs::write(own.join("cgroup.procs"), processes).unwrap();
        }
    }
}

fn pod() -> CgroupName {
    CgroupName::parse("/kubepods/burstable/pod1-2").unwrap()
}

const UNIT: &str = "kubepods-burstable-pod1_2.slice";
const SLICES: &str = "kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod1_2.slice";

// behaviour: CGR-28
#[tokio::test]
async fn slice_is_started_limited_and_stopped() {
    let harness = Harness::new(Version::V2).await;
    let values = CgroupValues {
        cpu_shares: Some(512),
        cpu_quota: Some(1100),
        cpu_period: Some(100_000),
        memory_limit: Some(64 << 20),
        ..CgroupValues::default()
    };
    for _ in 0..2 {
        harness.cgroups.create(&pod(), &values).await.unwrap();
        harness.cgroups.check(&pod()).await.unwrap();
        assert_eq!(harness.units(), [UNIT]);
    }
    for (name, expected) in [
        ("MemoryMax", "67108864"),
        ("CPUWeight", "20"),
        ("CPUQuotaPerSecUSec", "20000"),
        ("DefaultDependencies", "false"),
        ("Wants", "kubepods-burstable.slice"),
    ] {
        let found = harness.property(UNIT, name).unwrap_or_default();
        assert!(found.contains(expected), "{name}: {found}");
    }
    let read = |file: &str| fs::read_to_string(harness.file(&format!("{SLICES}/{file}"))).unwrap();
    assert_eq!((read("cpu.max"), read("memory.max")), ("2000 100000".into(), "67108864".into()));
    let more = CgroupValues { pids_limit: Some(7), ..CgroupValues::default() };
    harness.cgroups.update(&pod(), &more).await.unwrap();
    assert!(harness.property(UNIT, "TasksMax").unwrap().contains('7'));
    assert_eq!(read("pids.max"), "7");
    let parent = CgroupName::parse("/kubepods/burstable").unwrap();
    assert_eq!(harness.cgroups.children(&parent).await.unwrap(), [pod()].into());
    let verdict = removal(Subject::Cgroup(pod()));
    assert_eq!(harness.cgroups.remove(&verdict).await.unwrap(), Removed::Now);
    assert_eq!(harness.units(), [""; 0]);
    assert!(!harness.file(SLICES).exists());
    assert_eq!(harness.cgroups.remove(&verdict).await.unwrap(), Removed::Before);
}

#[tokio::test]
async fn v1_slices_exist_in_every_hierarchy() {
    let harness = Harness::new(Version::V1).await;
    let values = CgroupValues { cpu_shares: Some(512), ..CgroupValues::default() };
    harness.cgroups.create(&pod(), &values).await.unwrap();
    let shares = fs::read_to_string(harness.file(&format!("cpu,cpuacct/{SLICES}/cpu.shares")));
    assert_eq!(shares.unwrap(), "512");
    assert!(harness.file(&format!("memory/{SLICES}")).exists());
    assert!(harness.property(UNIT, "CPUShares").unwrap().contains("512"));
}

const V1: [&str; 3] = ["cpu,cpuacct", "memory", "systemd"];

/// A process, killed with the test.
struct Process(Child);

impl Process {
    fn start() -> Self {
        Self(Command::new("sleep").arg("60").spawn().unwrap())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.0.kill().ok();
        self.0.wait().ok();
    }
}

// behaviour: CGR-5, CGR-14
#[tokio::test]
async fn v1_slice_is_removed_after_its_processes_are_killed() {
    let harness = Harness::new(Version::V1).await;
    harness.cgroups.create(&pod(), &CgroupValues::default()).await.unwrap();
    let mut process = Process::start();
    harness.enter(&V1, &format!("{}\n", process.0.id()));
    let verdict = removal(Subject::Cgroup(pod()));
    assert_eq!(harness.cgroups.remove(&verdict).await.unwrap(), Removed::Now);
    assert!(process.0.try_wait().unwrap().is_some(), "it is dead");
    assert_eq!(harness.units(), [""; 0]);
    assert!(V1.iter().all(|hierarchy| !harness.file(&format!("{hierarchy}/{SLICES}")).exists()));
    // A process that does not die keeps the cgroup, and the error names it.
    harness.cgroups.create(&pod(), &CgroupValues::default()).await.unwrap();
    harness.enter(&V1[1..2], "0\n");
    let error = harness.cgroups.remove(&verdict).await.unwrap_err();
    assert!(matches!(&error, CgroupError::Busy { pids, .. } if *pids == [0].into()), "{error}");
    assert!(harness.file(&format!("memory/{SLICES}")).exists());
    harness.enter(&V1[1..2], "");
    assert_eq!(harness.cgroups.remove(&verdict).await.unwrap(), Removed::Now);
}

// behaviour: CGR-32
#[tokio::test]
async fn cgroup_is_removed_when_systemd_does_not_stop_its_unit() {
    for version in [Version::V1, Version::V2] {
        let harness = Harness::new(version).await;
        harness.cgroups.create(&pod(), &CgroupValues::default()).await.unwrap();
        harness.stubborn.store(true, Ordering::Relaxed);
        let verdict = removal(Subject::Cgroup(pod()));
        assert_eq!(harness.cgroups.remove(&verdict).await.unwrap(), Removed::Now);
        let left = match version {
            Version::V1 => harness.file(&format!("memory/{SLICES}")),
            Version::V2 => harness.file(SLICES),
        };
        assert!(!left.exists(), "{version:?}");
    }
}

#[tokio::test]
async fn systemd_errors_are_reported_with_their_text() {
    let harness = Harness::new(Version::V2).await;
    harness.cgroups.create(&pod(), &CgroupValues::default()).await.unwrap();
    harness.units.lock().unwrap().clear();
    let values = CgroupValues { cpu_shares: Some(2), ..CgroupValues::default() };
    let error = harness.cgroups.update(&pod(), &values).await.unwrap_err().to_string();
    assert!(error.starts_with(&format!("ask systemd to limit {UNIT}: ")), "{error}");
    assert!(error.contains("NoSuchUnit"), "{error}");
    let verdict = removal(Subject::Cgroup(pod()));
    assert_eq!(
        harness.cgroups.remove(&verdict).await.unwrap(),
        Removed::Now,
        "without its unit too"
    );
}
