//! Measures volumes in the background: one after another, with pauses, never in the way of a pod.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::chain::Chain;
use model::ids::PodUid;
use model::ports::clock::WallClock;
use model::ports::disk::{Disks, WalkBudget};
use model::ports::files::FileError;
use model::stats::{ClaimReference, FsStats, VolumeStats};
use model::volume::Place;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use crate::decide::storage::{self, PodVolumes};

/// How often new pods are looked for, unless volumes are measured more often.
const NEW_PODS: Duration = Duration::from_secs(10);

/// The entries between two pauses of a walk.
const TURN: u32 = 1000;

/// The shortest time of a walk.
const SHORTEST: Duration = Duration::from_secs(1);

/// How the usage of a volume is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MeasuredBy {
    /// Its content is counted.
    Walk,
    /// Its content is counted once: the agent itself writes it.
    OneWalk,
    /// It is a file system.
    Space,
}

/// A volume of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeToMeasure {
    /// Its name in the pod.
    pub name: String,
    /// Its directory.
    pub place: Place,
    /// How its usage is found.
    pub measured_by: MeasuredBy,
    /// Whether it counts as ephemeral storage of the pod.
    pub is_ephemeral: bool,
    /// Its claim, if it has one.
    pub claim: Option<ClaimReference>,
}

/// A pod and its mounted volumes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodToWalk {
    /// The pod.
    pub uid: PodUid,
    /// Its volumes.
    pub volumes: Vec<VolumeToMeasure>,
}

/// The mounted volumes of all pods.
pub trait VolumesOfPods: Debug + Send + Sync {
    /// The pods with volumes whose usage can be measured.
    fn pods_to_walk(&self) -> Vec<PodToWalk>;
}

#[derive(Debug, Clone)]
struct Entry {
    volumes: PodVolumes,
    measured: Instant,
}

/// The last usage of volumes. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct VolumeUsage(Arc<Mutex<BTreeMap<PodUid, Entry>>>);

impl VolumeUsage {
    /// The volumes of a pod; `None` before they were measured.
    pub fn of_pod(&self, uid: &PodUid) -> Option<PodVolumes> {
        self.entries().get(uid).map(|entry| entry.volumes.clone())
    }

    /// The volumes with claims. Several pods may use one.
    pub(crate) fn of_claims(&self) -> BTreeMap<ClaimReference, FsStats> {
        let entries = self.entries();
        let volumes = entries.values().flat_map(|entry| &entry.volumes.others);
        volumes.filter_map(|volume| Some((volume.pvc_ref.clone()?, volume.fs))).collect()
    }

    /// Sets the volumes of a pod.
    #[cfg(test)]
    pub(crate) fn set(&self, uid: &str, volumes: PodVolumes) {
        let entry = Entry { volumes, measured: Instant::now() };
        self.entries().insert(uid.into(), entry);
    }

    fn entries(&self) -> MutexGuard<'_, BTreeMap<PodUid, Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The last usage of a volume of a pod.
fn last_of<'a>(volumes: &'a PodVolumes, volume: &VolumeToMeasure) -> Option<&'a VolumeStats> {
    volumes.ephemeral.iter().chain(&volumes.others).find(|known| known.name == volume.name)
}

/// Measures volumes in the background.
#[derive(Debug)]
pub struct VolumeWalks {
    /// The mounted volumes.
    pub pods: Arc<dyn VolumesOfPods>,
    /// Measures directories.
    pub disks: Arc<dyn Disks>,
    /// The time of day.
    pub clock: Arc<dyn WallClock>,
    /// Receives the usage.
    pub usage: VolumeUsage,
    /// How often each volume is measured.
    pub period: Duration,
}

impl VolumeWalks {
    /// Measures until the stop.
    pub async fn run(self, stop: CancellationToken) {
        stop.run_until_cancelled(self.walk_forever()).await;
    }

    async fn walk_forever(&self) {
        loop {
            let pods = self.pods.pods_to_walk();
            let present: BTreeSet<&PodUid> = pods.iter().map(|pod| &pod.uid).collect();
            self.usage.entries().retain(|uid, _| present.contains(uid));
            let due = self.due(&pods);
            let time = self.time_of_walk(&due);
            for pod in due {
                self.measure(pod, time).await;
            }
            sleep(self.period.min(NEW_PODS)).await;
        }
    }

    /// The pods to measure now: new ones first, then those whose last measurement is the oldest.
    fn due<'a>(&self, pods: &'a [PodToWalk]) -> Vec<&'a PodToWalk> {
        let entries = self.usage.entries();
        let last = |pod: &PodToWalk| entries.get(&pod.uid).map(|entry| entry.measured);
        let is_due = |last: Option<Instant>| last.is_none_or(|at| at.elapsed() >= self.period);
        let mut due: Vec<&PodToWalk> = pods.iter().filter(|pod| is_due(last(pod))).collect();
        due.sort_by_key(|pod| last(pod));
        due
    }

    /// The time of each walk through volumes of these pods: together they take a period, so that a slow one delays no
    /// other for long.
    fn time_of_walk(&self, due: &[&PodToWalk]) -> Duration {
        let entries = self.usage.entries();
        let walks = due.iter().flat_map(|pod| {
            let before = entries.get(&pod.uid).map(|entry| &entry.volumes);
            pod.volumes.iter().filter(move |volume| match volume.measured_by {
                MeasuredBy::Walk => true,
                MeasuredBy::OneWalk => before.and_then(|before| last_of(before, volume)).is_none(),
                MeasuredBy::Space => false,
            })
        });
        let walks = u32::try_from(walks.count().max(1)).unwrap_or(u32::MAX);
        (self.period / walks).max(SHORTEST)
    }

    async fn measure(&self, pod: &PodToWalk, time: Duration) {
        let before = self.usage.of_pod(&pod.uid).unwrap_or_default();
        let mut volumes = PodVolumes::default();
        for volume in &pod.volumes {
            let known = last_of(&before, volume);
            let stats = match (known, volume.measured_by) {
                (Some(known), MeasuredBy::OneWalk) => Some(known.clone()),
                (known, _) => self.volume(pod, volume, time).await.or_else(|| known.cloned()),
            };
            let list =
                if volume.is_ephemeral { &mut volumes.ephemeral } else { &mut volumes.others };
            list.extend(stats);
        }
        let entry = Entry { volumes, measured: Instant::now() };
        self.usage.entries().insert(pod.uid.clone(), entry);
    }

    /// The usage of a volume; `None` if it cannot be measured now.
    async fn volume(
        &self,
        pod: &PodToWalk,
        volume: &VolumeToMeasure,
        time: Duration,
    ) -> Option<VolumeStats> {
        match self.measured(volume, time).await {
            Ok(fs) => {
                Some(VolumeStats { fs, name: volume.name.clone(), pvc_ref: volume.claim.clone() })
            }
            Err(error) => {
                let error = Chain(&error);
                debug!(podUID = %pod.uid, volume = volume.name, %error, "Cannot measure a volume");
                None
            }
        }
    }

    async fn measured(
        &self,
        volume: &VolumeToMeasure,
        time: Duration,
    ) -> Result<FsStats, FileError> {
        let path = volume.place.path();
        if volume.measured_by == MeasuredBy::Space {
            let space = self.disks.volume_space(&path).await?;
            return Ok(storage::whole(self.clock.now(), &space));
        }
        let budget = WalkBudget { entries: TURN, time };
        let usage = self.disks.walked_usage(&volume.place, budget).await?;
        let space = self.disks.volume_space(&path).await?;
        Ok(storage::files(self.clock.now(), &space, usage))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use model::ports::disk::FileUsage;
    use testkit::clock::VirtualClock;
    use testkit::disk::MemoryDisk;

    use super::*;

    #[derive(Debug)]
    struct Pods(Mutex<Vec<PodToWalk>>);

    impl VolumesOfPods for Pods {
        fn pods_to_walk(&self) -> Vec<PodToWalk> {
            self.0.lock().unwrap().clone()
        }
    }

    fn volume(name: &str, measured_by: MeasuredBy, is_ephemeral: bool) -> VolumeToMeasure {
        let claim = ClaimReference { name: name.to_owned(), namespace: "shop".to_owned() };
        VolumeToMeasure {
            name: name.to_owned(),
            place: Place { root: "/pods".into(), below: Path::new("u1").join(name) },
            measured_by,
            is_ephemeral,
            claim: Some(claim).filter(|_| measured_by == MeasuredBy::Space),
        }
    }

    struct Bench {
        disk: Arc<MemoryDisk>,
        pods: Arc<Pods>,
        usage: VolumeUsage,
    }

    impl Bench {
        /// Runs a scenario beside the walks of a pod with these volumes.
        async fn play(volumes: Vec<VolumeToMeasure>, scenario: impl AsyncFn(&Self)) {
            let pod = PodToWalk { uid: "u1".into(), volumes };
            let bench = Self {
                disk: Arc::new(MemoryDisk::new("/pods", 1000)),
                pods: Arc::new(Pods(Mutex::new(vec![pod]))),
                usage: VolumeUsage::default(),
            };
            bench.take("data", 7);
            bench.take("config", 5);
            let walks = VolumeWalks {
                pods: Arc::clone(&bench.pods) as _,
                disks: Arc::clone(&bench.disk) as _,
                clock: Arc::new(VirtualClock::new()),
                usage: bench.usage.clone(),
                period: Duration::from_mins(1),
            };
            let stop = CancellationToken::new();
            tokio::join!(walks.run(stop.clone()), async {
                sleep(Duration::from_secs(1)).await;
                scenario(&bench).await;
                stop.cancel();
            });
        }

        fn take(&self, volume: &str, bytes: u64) {
            let usage = FileUsage { bytes, inodes: 1 };
            self.disk.set_taken(Path::new("/pods/u1").join(volume), usage);
        }

        /// Names and used bytes.
        fn found(&self) -> Option<[Vec<(String, u64)>; 2]> {
            let volumes = self.usage.of_pod(&"u1".into())?;
            let of = |list: &[VolumeStats]| {
                let used = |one: &VolumeStats| (one.name.clone(), one.fs.used_bytes.unwrap());
                list.iter().map(used).collect::<Vec<_>>()
            };
            Some([of(&volumes.ephemeral), of(&volumes.others)])
        }
    }

    fn named(name: &str, bytes: u64) -> (String, u64) {
        (name.to_owned(), bytes)
    }

    // behaviour: STA-8
    #[tokio::test(start_paused = true)]
    async fn volumes_are_measured_once_in_a_period() {
        let volumes = vec![
            volume("data", MeasuredBy::Walk, true),
            volume("config", MeasuredBy::OneWalk, true),
            volume("disk", MeasuredBy::Space, false),
        ];
        Bench::play(volumes, async |bench| {
            let ephemeral = vec![named("data", 7), named("config", 5)];
            assert_eq!(bench.found(), Some([ephemeral, vec![named("disk", 0)]]));
            bench.take("data", 8);
            bench.take("config", 6);
            bench.disk.set_others(400);
            sleep(Duration::from_secs(30)).await;
            assert_eq!(bench.disk.walks(), 2);
            sleep(Duration::from_mins(1)).await;
            let ephemeral = vec![named("data", 8), named("config", 5)];
            assert_eq!(bench.found(), Some([ephemeral, vec![named("disk", 400)]]));
            assert_eq!(bench.disk.walks(), 3);
            // Only by calls that may hang without harm to the pod.
            assert_eq!(bench.disk.looks(), 0);
        })
        .await;
    }

    // behaviour: STA-8
    #[tokio::test(start_paused = true)]
    async fn due_walks_share_the_period_and_the_oldest_is_first() {
        let volumes = vec![
            volume("data", MeasuredBy::Walk, true),
            volume("config", MeasuredBy::OneWalk, true),
            volume("disk", MeasuredBy::Space, false),
        ];
        Bench::play(volumes, async |bench| {
            let walked = || {
                let name = |path: &Path| path.file_name().unwrap().to_str().unwrap().to_owned();
                let all = bench.disk.walked().into_iter();
                all.map(|(path, budget)| (name(&path), budget.time.as_secs())).collect::<Vec<_>>()
            };
            let of = |name: &str, time: u64| (name.to_owned(), time);
            let first = [of("data", 30), of("config", 30)];
            assert_eq!(walked(), first);
            // A pod of a smaller UID, but measured later.
            let new = PodToWalk {
                uid: "u0".into(),
                volumes: vec![volume("late", MeasuredBy::Walk, true)],
            };
            bench.pods.0.lock().unwrap().insert(0, new);
            sleep(Duration::from_secs(20)).await;
            let second = [of("late", 60)];
            assert_eq!(walked(), [&first[..], &second].concat());
            // Both become due while the loop sleeps.
            for entry in bench.usage.entries().values_mut() {
                entry.measured -= Duration::from_mins(1);
            }
            sleep(Duration::from_secs(10)).await;
            let third = [of("data", 30), of("late", 30)];
            assert_eq!(walked(), [&first[..], &second, &third].concat());
            // However many there are, each has a second.
            let many = (0..100).map(|number| volume(&format!("v{number}"), MeasuredBy::Walk, true));
            let many = PodToWalk { uid: "u2".into(), volumes: many.collect() };
            bench.pods.0.lock().unwrap().push(many);
            sleep(Duration::from_secs(10)).await;
            assert_eq!((bench.disk.walks(), walked().pop()), (105, Some(of("v99", 1))));
        })
        .await;
    }

    #[tokio::test(start_paused = true)]
    async fn unmeasurable_volume_keeps_its_last_usage_until_the_pod_is_gone() {
        Bench::play(vec![volume("data", MeasuredBy::Walk, true)], async |bench| {
            bench.disk.fail(Some(std::io::ErrorKind::TimedOut));
            sleep(Duration::from_secs(90)).await;
            assert_eq!(bench.found(), Some([vec![named("data", 7)], vec![]]));
            bench.pods.0.lock().unwrap().clear();
            sleep(Duration::from_secs(20)).await;
            assert_eq!(bench.found(), None);
        })
        .await;
    }
}
