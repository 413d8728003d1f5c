//! The interceptor of cgroup calls: it injects faults, records writes and removals, and kills the agent during
//! calls.

use std::any::Any;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use model::cgroup::CgroupName;
use model::intercept::{Args, Call, CgroupCall, Intercepted, Interceptor, Kind};
use model::ports::cgroups::{CgroupError, Cgroups, subject};
use runtime::decide::pod_of_cgroup;

use crate::faulty::{Attempt, faulty};
use crate::history::{CgroupWrite, Event};
use crate::life::Life;
use crate::outside::{FaultPoint, Outside};
use crate::removal::Removal;

/// The cgroup calls of one agent.
#[derive(Debug)]
pub(crate) struct FaultyCgroups {
    outside: Arc<Outside>,
    life: Arc<Life>,
}

impl FaultyCgroups {
    /// The cgroup port of this agent.
    pub(crate) fn cgroups(outside: &Arc<Outside>, life: &Arc<Life>) -> Arc<dyn Cgroups> {
        let faults = Self { outside: Arc::clone(outside), life: Arc::clone(life) };
        let cgroups: Arc<dyn Cgroups> = Arc::clone(&outside.cgroups) as _;
        Arc::new(Intercepted::new(cgroups, &Arc::new(faults)))
    }

    /// Executes a call; records a write and whether it changed the values.
    async fn recorded<T>(
        &self,
        what: &str,
        name: &CgroupName,
        kind: Kind,
        run: impl Future<Output = T>,
    ) -> T {
        if kind == Kind::Read {
            return run.await;
        }
        let values = || self.outside.cgroups.all().remove(name);
        let before = values();
        let answer = run.await;
        let (call, pod) = (what.to_owned(), pod_of_cgroup(name));
        let write = CgroupWrite { call, pod, changes: values() != before };
        self.outside.record(Event::CgroupWritten(write));
        answer
    }
}

impl Interceptor<dyn Cgroups> for FaultyCgroups {
    async fn around<T: Any + Send>(
        &self,
        call: &Call<'_>,
        run: impl Future<Output = Result<T, CgroupError>> + Send,
    ) -> Result<T, CgroupError> {
        let Args::Cgroup(cgroup_call) = call.args else { unreachable!("a call of cgroups") };
        let (operation, name) = named(&cgroup_call)?;
        let what = format!("{operation} cgroup {name}");
        let mut removal = None;
        if let CgroupCall::Remove { verdict } = cgroup_call {
            // Most removed pods have no cgroup left; that is not recorded.
            if !self.outside.cgroups.all().contains_key(name) {
                return self.life.call(&what, run).await;
            }
            removal = Some(Removal::new(&self.outside, &self.life, verdict));
        }
        let broken = || {
            let source = io::Error::other("input/output error");
            let (operation, path) = (operation.to_owned(), PathBuf::from(name.to_string()));
            CgroupError::File { operation, path, source }
        };
        let attempt = Attempt { point: FaultPoint::Cgroup, what: &what, broken };
        let run = self.recorded(&what, name, call.kind, run);
        let answer = faulty(&self.outside, &self.life, attempt, run).await;
        drop(removal);
        answer
    }
}

/// A call as text, and its cgroup.
fn named<'a>(call: &CgroupCall<'a>) -> Result<(&'static str, &'a CgroupName), CgroupError> {
    Ok(match *call {
        CgroupCall::Check { name } => ("check", name),
        CgroupCall::Create { name, .. } => ("create", name),
        CgroupCall::Update { name, .. } => ("update", name),
        CgroupCall::Has { name, .. } => ("compare", name),
        CgroupCall::Values { name } => ("read", name),
        CgroupCall::MemoryUsage { name, .. } => ("measure", name),
        CgroupCall::Children { name } => ("list", name),
        CgroupCall::Remove { verdict } => ("remove", subject(verdict)?),
    })
}
