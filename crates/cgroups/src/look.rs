//! Reads the limits and the usage of a cgroup.

use std::io::ErrorKind;

use model::cgroup::{CgroupValues, cpu};
use model::machine::Cgroups as Version;
use model::ports::cgroups::CgroupError;

use crate::beneath;
use crate::files::Place;
use crate::tree::{Tree, failed};
use crate::write::{Write, writes};

/// The page size, in which the kernel counts memory.
const PAGE: u64 = 4096;

/// Values from here on mean no limit: cgroup v1 reports the largest number of pages.
const UNLIMITED: u64 = 1 << 62;

impl Tree {
    /// Whether an existing cgroup has these values.
    pub(crate) fn has(&self, place: &Place, values: &CgroupValues) -> Result<bool, CgroupError> {
        for write in writes(self.version, values).iter().filter(|write| !write.optional) {
            let Some(hierarchy) = self.with(write.controller) else { continue };
            let directory = place.open(hierarchy)?;
            let found = beneath::read(&directory, &write.file).map_err(|source| {
                failed("read", place.path(hierarchy).join(&write.file), source)
            })?;
            if !has_value(write, found.trim()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The cpuset and memory limits of an existing cgroup.
    pub(crate) fn values(&self, place: &Place) -> Result<CgroupValues, CgroupError> {
        let read = |controller: &'static str, file: &str| {
            let Some(hierarchy) = self.with(controller) else { return Ok(None) };
            let directory = place.open(hierarchy)?;
            let found = beneath::read(&directory, file);
            let found =
                found.map_err(|source| failed("read", place.path(hierarchy).join(file), source))?;
            Ok::<_, CgroupError>(Some(found.trim().to_owned()))
        };
        let (shares, quota, period, memory) = match self.version {
            Version::V1 => (
                number(read("cpu", "cpu.shares")?),
                read("cpu", "cpu.cfs_quota_us")?.and_then(|quota| quota.parse().ok()),
                number(read("cpu", "cpu.cfs_period_us")?),
                number(read("memory", "memory.limit_in_bytes")?),
            ),
            Version::V2 => {
                let most = read("cpu", "cpu.max")?;
                let (quota, period) = most.as_deref().and_then(|most| most.split_once(' ')).unzip();
                // A word instead of a number means no limit.
                let quota = quota.map(|quota| quota.parse().unwrap_or(-1));
                let period = period.and_then(|period| period.parse().ok());
                let shares = number(read("cpu", "cpu.weight")?).map(cpu::shares_of_weight);
                (shares, quota, period, number(read("memory", "memory.max")?))
            }
        };
        Ok(CgroupValues {
            cpu_shares: shares,
            cpu_quota: quota,
            cpu_period: period,
            memory_limit: memory.filter(|limit| *limit < UNLIMITED),
            ..CgroupValues::default()
        })
    }

    /// The memory usage of a cgroup in bytes; `None` if memory is not accounted.
    pub(crate) fn memory_usage(
        &self,
        place: &Place,
        part: Option<&str>,
    ) -> Result<Option<u64>, CgroupError> {
        let file = match self.version {
            Version::V1 => "memory.usage_in_bytes",
            Version::V2 => "memory.current",
        };
        let Some(hierarchy) = self.with("memory") else { return Ok(None) };
        let Some(mut directory) = place.find(hierarchy)? else { return Ok(None) };
        let mut path = place.path(hierarchy);
        if let Some(part) = part {
            let names = beneath::directories(&directory)
                .map_err(|source| failed("list", path.clone(), source))?;
            let Some(name) = names.into_iter().find(|name| name.contains(part)) else {
                return Ok(None);
            };
            path.push(&name);
            directory = match beneath::child(&directory, &name) {
                Ok(child) => child,
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                Err(source) => return Err(failed("open", path, source)),
            };
        }
        let read = beneath::read(&directory, file);
        let read = read.map_err(|source| failed("read", path.join(file), source))?;
        Ok(read.trim().parse().ok())
    }
}

fn number(text: Option<String>) -> Option<u64> {
    text?.parse().ok()
}

/// Whether a control file has the written value. The kernel rounds memory to pages.
fn has_value(write: &Write, found: &str) -> bool {
    let pages = |text: &str| text.parse::<u64>().ok().map(|bytes| bytes / PAGE);
    found == write.content
        || write.controller == "memory"
            && pages(found).is_some_and(|found| Some(found) == pages(&write.content))
}
