//! Blocking calls, such as to files and cgroups, that do not return: the health check and the
//! metrics.

use hostfs::Pool;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntCounterVec, IntGaugeVec, Opts, Registry};
use tokio::time::Instant;

/// The name of the check.
pub(crate) const CHECK: &str = "stuck-operations";

/// The calls that are overdue, of all pools.
#[derive(Debug, Clone)]
pub(crate) struct StuckCalls {
    pools: Vec<Pool>,
    stuck: IntGaugeVec,
    overdue: IntCounterVec,
}

impl StuckCalls {
    /// Counts the overdue calls of these pools in a registry.
    pub(crate) fn new(pools: Vec<Pool>, registry: &Registry) -> Result<Self, prometheus::Error> {
        let stuck = Opts::new(
            "ferrolet_stuck_operations",
            "Operations on files, cgroups and the like that are past their deadline and have not returned, by pool",
        );
        let overdue = Opts::new(
            "ferrolet_overdue_operations_total",
            "Operations on files, cgroups and the like that did not return by their deadline, by pool",
        );
        let this = Self {
            pools,
            stuck: IntGaugeVec::new(stuck, &["pool"])?,
            overdue: IntCounterVec::new(overdue, &["pool"])?,
        };
        registry.register(Box::new(this.clone()))?;
        Ok(this)
    }

    /// An error if calls are overdue: how many, and the oldest of them.
    pub(crate) fn check(&self, now: Instant) -> Result<(), String> {
        let stuck: Vec<_> = self.pools.iter().flat_map(|pool| pool.stuck(now)).collect();
        match stuck.iter().max_by_key(|call| call.running) {
            None => Ok(()),
            Some(oldest) => Err(format!("{} stuck: {oldest}", stuck.len())),
        }
    }
}

/// Read when metrics are scraped.
impl Collector for StuckCalls {
    fn desc(&self) -> Vec<&Desc> {
        let mut all = self.stuck.desc();
        all.extend(self.overdue.desc());
        all
    }

    fn collect(&self) -> Vec<MetricFamily> {
        for pool in &self.pools {
            let name = [pool.name()];
            let stuck = pool.stuck(Instant::now()).len();
            self.stuck.with_label_values(&name).set(i64::try_from(stuck).unwrap_or(i64::MAX));
            let overdue = self.overdue.with_label_values(&name);
            overdue.inc_by(pool.overdue_total().saturating_sub(overdue.get()));
        }
        let mut all = self.stuck.collect();
        all.extend(self.overdue.collect());
        all
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::mpsc;
    use std::time::Duration;

    use hostfs::{Call, Size};
    use prometheus::TextEncoder;

    use super::*;

    // behaviour: WRK-51
    #[tokio::test]
    async fn an_operation_past_its_deadline_fails_the_check_until_it_returns() {
        let (registry, pool) = (Registry::new(), Pool::new("files", Size { threads: 1, spare: 0 }));
        let stuck = StuckCalls::new(vec![pool.clone()], &registry).unwrap();
        assert_eq!(stuck.check(Instant::now()), Ok(()));
        let (gate, wait) = mpsc::channel::<()>();
        let limit = Duration::from_millis(10);
        let call = Call { operation: "read", subject: Path::new("/nfs/a"), limit };
        pool.run(call, move || wait.recv().is_ok()).await.unwrap_err();
        let found = stuck.check(Instant::now());
        assert_eq!(found, Err("1 stuck: read /nfs/a has not returned for 0 s".to_owned()));
        let text = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        assert!(text.contains("ferrolet_stuck_operations{pool=\"files\"} 1"), "{text}");
        assert!(text.contains("ferrolet_overdue_operations_total{pool=\"files\"} 1"), "{text}");
        drop(gate);
        while stuck.check(Instant::now()).is_err() {
            tokio::task::yield_now().await;
        }
        let text = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        assert!(text.contains("ferrolet_stuck_operations{pool=\"files\"} 0"), "{text}");
        assert!(text.contains("ferrolet_overdue_operations_total{pool=\"files\"} 1"), "{text}");
    }
}
