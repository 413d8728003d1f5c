//! Reads the usage of cgroups from their control files.

mod files;
mod parse;
mod v1;
mod v2;

use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use blocking::{Call, Pool, Size};
use jiff::Timestamp;
use model::cgroup::usage::CgroupSample;
use model::machine::Cgroups as Version;
use model::ports::cgroup_usage::{CgroupUsage, Detail, Selection};
use model::ports::cgroups::CgroupError;

use crate::beneath;
use crate::tree::Tree;
use files::Files;

/// The threads for usage, apart from those that create and remove the cgroups of pods.
const THREADS: Size = Size { threads: 2, spare: 4 };

/// The timeout: thousands of cgroups take a second.
const LIMIT: Duration = Duration::from_secs(30);

/// No cgroup of a pod lies deeper below the root.
const DEEPEST: usize = 32;

/// Reads the usage of this machine's cgroups.
#[derive(Debug, Clone)]
pub struct UsageReader {
    tree: Tree,
    meminfo: PathBuf,
    pool: Pool,
}

impl UsageReader {
    /// Reads these hierarchies.
    pub fn new(tree: Tree) -> Self {
        Self::with_meminfo(tree, "/proc/meminfo".into())
    }

    /// The same, with another memory table of the kernel.
    pub(crate) fn with_meminfo(tree: Tree, meminfo: PathBuf) -> Self {
        Self { tree, meminfo, pool: Pool::new("cgroup usage", THREADS) }
    }

    /// The threads for reads.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }
}

#[async_trait]
impl CgroupUsage for UsageReader {
    async fn measure(
        &self,
        selection: &Selection,
        detail: Detail,
    ) -> Result<Vec<CgroupSample>, CgroupError> {
        let walk = Walk { tree: self.tree.clone(), meminfo: self.meminfo.clone(), detail };
        let (selection, subject) = (selection.clone(), Path::new("/"));
        let call = Call { operation: "measure cgroups below", subject, limit: LIMIT };
        let done = self.pool.run(call, move || walk.measure(&selection)).await;
        done.map_err(|error| crate::tree::failed("measure", subject.to_owned(), error.into()))
    }
}

/// A walk through selected cgroups.
struct Walk {
    tree: Tree,
    meminfo: PathBuf,
    detail: Detail,
}

impl Walk {
    fn measure(&self, selection: &Selection) -> Vec<CgroupSample> {
        let mut samples = Vec::new();
        for path in &selection.alone {
            samples.extend(self.sample(&names(path)));
        }
        for path in &selection.with_children {
            self.descend(&mut names(path), &mut samples);
        }
        samples
    }

    fn descend(&self, names: &mut Vec<String>, samples: &mut Vec<CgroupSample>) {
        let Some(sample) = self.sample(names) else { return };
        samples.push(sample);
        if names.len() >= DEEPEST {
            return;
        }
        for child in self.children(names) {
            names.push(child);
            self.descend(names, samples);
            names.pop();
        }
    }

    /// The names of child cgroups; empty for a cgroup that was removed.
    fn children(&self, names: &[String]) -> Vec<String> {
        let hierarchy = match self.tree.version {
            Version::V2 => self.tree.hierarchies.first(),
            Version::V1 => self.tree.with("memory").or_else(|| self.tree.with("cpuacct")),
        };
        let directory = hierarchy.map(|found| beneath::directory(&found.root, names));
        let Some(Ok(directory)) = directory else { return Vec::new() };
        let mut found = beneath::directories(&directory).unwrap_or_default();
        found.sort_unstable();
        found
    }

    /// One measurement; `None` if the cgroup does not exist.
    fn sample(&self, names: &[String]) -> Option<CgroupSample> {
        let mut files = Files::new(&self.tree, names);
        let created = files.created()?;
        let mut sample = CgroupSample {
            path: format!("/{}", names.join("/")),
            time: Timestamp::now(),
            created: Some(created),
            ..CgroupSample::default()
        };
        match self.tree.version {
            Version::V1 => v1::fill(&mut sample, &mut files, self.detail),
            Version::V2 => {
                v2::fill(&mut sample, &mut files, self.detail);
                if names.is_empty() && sample.memory.is_none() {
                    let meminfo = std::fs::read_to_string(&self.meminfo).unwrap_or_default();
                    sample.memory = v2::root_memory(&mut files, &meminfo);
                }
            }
        }
        Some(sample)
    }
}

/// The directory names of a path.
fn names(path: &str) -> Vec<String> {
    path.split('/').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
#[path = "usage/tests.rs"]
mod tests;
