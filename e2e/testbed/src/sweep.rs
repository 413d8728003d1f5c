//! Removes what an instance leaves on the host, whether its supervisor ends or died before.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::cgroup::{self, CgroupError};
use crate::deadline::Deadline;
use crate::error::{AtPath, PathError};
use crate::mountinfo;
use crate::network::{self, NetworkError};
use crate::paths::{Cache, CacheError, InstanceDir};
use crate::slot::{self, SLOTS, Slot};

/// How long one step of the removal may take.
const PATIENCE: Duration = Duration::from_secs(20);

/// What could not be removed, or that there is no free slot.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SweepError {
    #[error("cannot clear the cgroups of slot {slot}")]
    Cgroup {
        slot: u8,
        #[source]
        source: CgroupError,
    },
    #[error("cannot clear the network of slot {slot}")]
    Network {
        slot: u8,
        #[source]
        source: NetworkError,
    },
    #[error("cannot clear the directory of slot {slot}")]
    Directory {
        slot: u8,
        #[source]
        source: PathError,
    },
    #[error("{} is not removed: {} is mounted below it", dir.display(), mount.display())]
    Mounted { dir: PathBuf, mount: PathBuf },
    #[error("cannot take slot {slot}")]
    Take {
        slot: u8,
        #[source]
        source: PathError,
    },
    #[error("all {SLOTS} slots are taken")]
    NoSlot,
    #[error("cannot search leftovers of earlier instances")]
    Look(#[source] CgroupError),
    #[error("cannot prepare the directory of instances")]
    Instances(#[source] PathError),
    #[error("cannot place the instance")]
    Place(#[source] CacheError),
}

/// Cleans every slot whose supervisor is dead and takes the first free one.
///
/// Errors of a slot that stays dirty go to `complain`; such a slot is skipped.
pub(crate) fn take_slot(
    cache: &Cache,
    complain: &mut dyn FnMut(SweepError),
) -> Result<(Slot, InstanceDir), SweepError> {
    let instances = cache.instances();
    fs::create_dir_all(&instances).at("make", &instances).map_err(SweepError::Instances)?;
    let dirty = dirty_slots(&instances)?;
    let mut taken = None;
    for number in 0..SLOTS {
        if taken.is_some() && !dirty.contains(&number) {
            continue;
        }
        let take = |source| SweepError::Take { slot: number, source };
        let Some(slot) = Slot::try_take(&instances, number).map_err(take)? else { continue };
        let dir = cache.instance(number).map_err(SweepError::Place)?;
        let problems = clear(number, dir.path(), Remainder::Nothing);
        let clean = problems.is_empty();
        problems.into_iter().for_each(&mut *complain);
        if clean && taken.is_none() {
            taken = Some((slot, dir));
        } else {
            slot.release().map_err(take)?;
        }
    }
    taken.ok_or(SweepError::NoSlot)
}

/// The slots with anything on this host: in use, or left behind.
fn dirty_slots(instances: &Path) -> Result<BTreeSet<u8>, SweepError> {
    let mut slots = cgroup::slots().map_err(SweepError::Look)?;
    slots.extend(network::slots());
    let entries = fs::read_dir(instances).at("list", instances).map_err(SweepError::Instances)?;
    slots.extend(entries.flatten().filter_map(|entry| slot::slot_of(entry.file_name().to_str()?)));
    Ok(slots)
}

/// What to do with the instance's directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Remainder {
    Nothing,
    /// Keep its files for inspection.
    Directory,
}

/// Removes everything of a slot and returns what could not be removed. The caller holds the slot.
pub(crate) fn clear(slot: u8, dir: &Path, leave: Remainder) -> Vec<SweepError> {
    let cgroups = clear_cgroups(slot).map_err(|source| SweepError::Cgroup { slot, source });
    let network = network::disconnect(slot, Deadline::after(PATIENCE))
        .map_err(|source| SweepError::Network { slot, source });
    let directory = match leave {
        // Files of a living process must stay: it may have mounted something there.
        _ if cgroups.is_err() => Ok(()),
        Remainder::Directory => Ok(()),
        Remainder::Nothing => clear_directory(slot, dir),
    };
    [cgroups, network, directory].into_iter().filter_map(Result::err).collect()
}

fn clear_cgroups(slot: u8) -> Result<(), CgroupError> {
    let dirs = cgroup::find(slot)?;
    cgroup::kill(slot, &dirs, Deadline::after(PATIENCE))?;
    cgroup::remove(&dirs, Deadline::after(PATIENCE))
}

/// All mounts of an instance are in its own namespace. One outside would be emptied together with the directory, so
/// nothing is removed then.
fn clear_directory(slot: u8, dir: &Path) -> Result<(), SweepError> {
    let directory = |source| SweepError::Directory { slot, source };
    let mounts = mountinfo::mounts().map_err(directory)?;
    if let Some(mount) = mounts.into_iter().find(|mount| mount.point.starts_with(dir)) {
        return Err(SweepError::Mounted { dir: dir.to_owned(), mount: mount.point });
    }
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other.at("remove", dir).map_err(directory),
    }
}
