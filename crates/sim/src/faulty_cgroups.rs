//! Cgroups as an agent reaches them: they go wrong, the agent dies over them, and what it removes is told.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use model::cgroup::{CgroupDriver, CgroupName, CgroupValues};
use model::ports::cgroups::{CgroupError, Cgroups, Limits, subject};
use model::ports::files::Removed;
use model::verdict::Verdict;
use runtime::decide::pod_of_cgroup;

use crate::faulty::faulty;
use crate::history::{CgroupWrite, Event};
use crate::life::Life;
use crate::outside::{Asked, Outside};
use crate::removal::Removal;

/// The cgroups of one agent.
#[derive(Debug)]
pub(crate) struct FaultyCgroups {
    pub(crate) outside: Arc<Outside>,
    pub(crate) life: Arc<Life>,
}

impl FaultyCgroups {
    async fn call<T>(
        &self,
        what: &str,
        name: &CgroupName,
        work: impl Future<Output = Result<T, CgroupError>>,
    ) -> Result<T, CgroupError> {
        let call = format!("{what} cgroup {name}");
        let broken = || {
            let source = io::Error::other("input/output error");
            let (operation, path) = (what.to_owned(), PathBuf::from(name.to_string()));
            CgroupError::File { operation, path, source }
        };
        faulty((&self.outside, &self.life), (Asked::Cgroup, &call), broken, work).await
    }

    /// The same, of what changes a cgroup, which is told.
    async fn write<T>(
        &self,
        what: &str,
        name: &CgroupName,
        work: impl Future<Output = Result<T, CgroupError>>,
    ) -> Result<T, CgroupError> {
        let work = async {
            let values = || self.outside.cgroups.all().remove(name);
            let before = values();
            let answer = work.await;
            let (call, pod) = (format!("{what} cgroup {name}"), pod_of_cgroup(name));
            let write = CgroupWrite { call, pod, changes: values() != before };
            self.outside.record(Event::CgroupWritten(write));
            answer
        };
        self.call(what, name, work).await
    }
}

#[async_trait]
impl Cgroups for FaultyCgroups {
    fn driver(&self) -> CgroupDriver {
        self.outside.cgroups.driver()
    }

    async fn check(&self, name: &CgroupName) -> Result<(), CgroupError> {
        self.call("check", name, self.outside.cgroups.check(name)).await
    }

    async fn create(
        &self,
        name: &CgroupName,
        values: &CgroupValues,
    ) -> Result<Limits, CgroupError> {
        self.write("create", name, self.outside.cgroups.create(name, values)).await
    }

    async fn update(&self, name: &CgroupName, values: &CgroupValues) -> Result<(), CgroupError> {
        self.write("update", name, self.outside.cgroups.update(name, values)).await
    }

    async fn has(&self, name: &CgroupName, values: &CgroupValues) -> Result<bool, CgroupError> {
        self.call("compare", name, self.outside.cgroups.has(name, values)).await
    }

    async fn values(&self, name: &CgroupName) -> Result<CgroupValues, CgroupError> {
        self.call("read", name, self.outside.cgroups.values(name)).await
    }

    async fn memory_usage(
        &self,
        name: &CgroupName,
        part: Option<&str>,
    ) -> Result<Option<u64>, CgroupError> {
        self.call("measure", name, self.outside.cgroups.memory_usage(name, part)).await
    }

    async fn children(&self, name: &CgroupName) -> Result<BTreeSet<CgroupName>, CgroupError> {
        self.call("list", name, self.outside.cgroups.children(name)).await
    }

    async fn remove(&self, verdict: &Verdict) -> Result<Removed, CgroupError> {
        let name = subject(verdict)?;
        let work = Cgroups::remove(&*self.outside.cgroups, verdict);
        // Of most pods that are gone no cgroup is left, of which nothing goes on record.
        if !self.outside.cgroups.all().contains_key(name) {
            return self.life.call(&format!("remove cgroup {name}"), work).await;
        }
        let _removal = Removal::new(&self.outside, &self.life, verdict);
        self.write("remove", name, work).await
    }
}
