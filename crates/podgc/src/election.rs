//! Runs the election: acquires the lease, renews it, and detects its loss.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use config::pod_gc::Election as Flags;
use model::chain::Chain;
use model::cluster::{ClusterEvent, InvolvedObject, Lease, LeaseName};
use model::jitter::fraction;
use model::ports::clock::WallClock;
use model::ports::cluster::{ApiError, ClusterEvents, Leases};
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, info, warn};

use crate::decide::election::{ElectionPolicy, Elector, Step};
use crate::metrics::Metrics;

/// How long a leader may miss the end of its lease before its health check fails.
const GRACE: Duration = Duration::from_secs(20);

/// The settings of an election.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ElectionSettings {
    /// The lease.
    pub lease: LeaseName,
    /// Identity and durations.
    pub policy: ElectionPolicy,
    /// The interval of attempts.
    pub retry_period: Duration,
}

impl ElectionSettings {
    /// The election that the flags describe, for a process with a unique identity.
    pub fn new(flags: &Flags, identity: impl Into<String>) -> Self {
        let (lease_duration, renew_deadline) = (flags.lease_duration, flags.renew_deadline);
        Self {
            lease: LeaseName { namespace: flags.namespace.clone(), name: flags.name.clone() },
            policy: ElectionPolicy { identity: identity.into(), lease_duration, renew_deadline },
            retry_period: flags.retry_period,
        }
    }
}

/// The dependencies of an election.
#[derive(Debug, Clone)]
pub struct ElectionPorts {
    /// Reads and writes the lease.
    pub leases: Arc<dyn Leases>,
    /// Receives events about the leader.
    pub events: Arc<dyn ClusterEvents>,
    /// The wall clock.
    pub clock: Arc<dyn WallClock>,
}

impl ElectionPorts {
    /// An election on one API server.
    pub fn new<C>(cluster: &Arc<C>, clock: Arc<dyn WallClock>) -> Self
    where
        C: Leases + ClusterEvents + 'static,
    {
        Self { leases: Arc::clone(cluster) as _, events: Arc::clone(cluster) as _, clock }
    }
}

/// A participant of an election.
#[derive(Debug)]
pub struct Election {
    settings: ElectionSettings,
    ports: ElectionPorts,
    metrics: Metrics,
    start: Instant,
    /// Written by the election, read by health checks; never held across an await.
    elector: Mutex<Elector>,
    /// The lease as last written or read.
    lease: Mutex<Option<Lease>>,
    /// Whether a write of the lease may have succeeded without a response.
    in_doubt: AtomicBool,
}

impl Election {
    /// An election that has not started.
    pub fn new(settings: ElectionSettings, ports: ElectionPorts, metrics: Metrics) -> Self {
        metrics.leads(&settings.lease.name, false);
        let elector = Mutex::new(Elector::new(settings.policy.clone()));
        let (start, lease, in_doubt) = (Instant::now(), Mutex::default(), AtomicBool::new(false));
        Self { settings, ports, metrics, start, elector, lease, in_doubt }
    }

    fn elector(&self) -> MutexGuard<'_, Elector> {
        self.elector.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lease(&self) -> MutexGuard<'_, Option<Lease>> {
        self.lease.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a leader has missed the end of its lease by so much that it counts as unhealthy.
    pub fn is_overdue(&self) -> bool {
        self.elector().is_overdue(self.start.elapsed(), GRACE)
    }

    /// Whether this process leads.
    pub fn leads(&self) -> bool {
        self.elector().leads()
    }

    /// Waits until this process leads.
    pub async fn win(&self) {
        let mut logged = String::new();
        loop {
            match self.attempt().await {
                Ok(None) => break,
                Ok(Some(holder)) if holder == logged => {}
                Ok(Some(holder)) => {
                    info!(
                        lease = self.settings.lease.name,
                        holder, "Another process is the leader"
                    );
                    logged = holder;
                }
                Err(error) => {
                    let error = Chain(&error);
                    warn!(lease = self.settings.lease.name, %error, "Cannot acquire the lease");
                }
            }
            sleep(self.settings.retry_period.mul_f64(1.0 + 1.2 * fraction())).await;
        }
        info!(identity = self.settings.policy.identity, "This process is the leader");
        self.metrics.leads(&self.settings.lease.name, true);
        self.record_event("became leader").await;
    }

    /// Renews the lease until that fails for too long, or another process holds it.
    pub async fn keep(&self) {
        loop {
            sleep(self.settings.retry_period).await;
            let left = self.elector().left(self.start.elapsed());
            if left.is_zero() {
                break;
            }
            match timeout(left, self.attempt()).await {
                Ok(Ok(None)) => {}
                Ok(Ok(Some(holder))) => {
                    warn!(holder, "Another process acquired the lease");
                    break;
                }
                Ok(Err(error)) => {
                    let error = Chain(&error);
                    debug!(lease = self.settings.lease.name, %error, "Lease renewal failed");
                }
                Err(_) => break,
            }
        }
        self.metrics.leads(&self.settings.lease.name, false);
        warn!(identity = self.settings.policy.identity, "This process is no longer the leader");
    }

    /// Releases the lease if this process holds it, so that the next leader need not wait.
    pub async fn release_lease(&self) {
        let give = async {
            let Some(lease) = self.ours().await? else { return Ok(()) };
            let mut record = lease.record.clone();
            record.holder = String::new();
            record.duration = Duration::from_secs(1);
            let name = &self.settings.lease;
            self.ports.leases.update_lease(name, &lease, &record).await.map(drop)
        };
        if let Ok(Err(error)) = timeout(self.settings.retry_period, give).await {
            debug!(error = %Chain(&error), "Cannot release the lease");
        }
        self.metrics.leads(&self.settings.lease.name, false);
        self.record_end().await;
    }

    /// Records an event that this process no longer leads, if it ever did. None of its writes may be in
    /// progress.
    pub async fn record_end(&self) {
        self.record_event("stopped leading").await;
    }

    /// The lease, if this process holds it. After a write without a response, it is read from the
    /// server.
    async fn ours(&self) -> Result<Option<Lease>, ApiError> {
        if !self.in_doubt.load(Ordering::Relaxed) {
            return Ok(self.lease().clone().filter(|_| self.leads()));
        }
        let lease = self.ports.leases.lease(&self.settings.lease).await?;
        Ok(lease.filter(|lease| lease.record.holder == self.settings.policy.identity))
    }

    /// Tries once to acquire or renew the lease; returns another holder, if there is one.
    async fn attempt(&self) -> Result<Option<String>, ApiError> {
        // The last written lease is most likely current: a renewal is one call.
        let known = self.lease().clone().filter(|_| self.leads());
        if let Some(known) = known {
            match self.write(Some(&known)).await {
                Err(ApiError::Conflict(_) | ApiError::NotFound) => {}
                other => return other,
            }
            self.metrics.slow_path(&self.settings.lease.name);
        }
        let lease = self.ports.leases.lease(&self.settings.lease).await?;
        self.write(lease.as_ref()).await
    }

    async fn write(&self, lease: Option<&Lease>) -> Result<Option<String>, ApiError> {
        let requested = self.start.elapsed();
        let wall = self.ports.clock.now();
        let step = self.elector().step(lease.map(|lease| &lease.record), requested, wall);
        let (name, leases) = (&self.settings.lease, &self.ports.leases);
        // Until the response arrives, and if none does.
        let doubt = || self.in_doubt.store(true, Ordering::Relaxed);
        let written = match (step, lease) {
            (Step::HeldBy(holder), _) => return Ok(Some(holder)),
            (Step::Update(record), Some(lease)) => {
                doubt();
                leases.update_lease(name, lease, &record).await?
            }
            (Step::Create(record) | Step::Update(record), _) => {
                doubt();
                leases.create_lease(name, &record).await?
            }
        };
        self.in_doubt.store(false, Ordering::Relaxed);
        self.elector().wrote(&written, requested);
        *self.lease() = Some(written);
        Ok(None)
    }

    async fn record_event(&self, what: &str) {
        let Some(lease) = self.lease().clone() else { return };
        let name = &self.settings.lease;
        let about = InvolvedObject {
            api_version: "coordination.k8s.io/v1",
            kind: "Lease",
            namespace: name.namespace.clone(),
            name: name.name.clone(),
            uid: lease.uid,
            field_path: String::new(),
        };
        let message = format!("{} {what}", self.settings.policy.identity);
        let (reason, now) = ("LeaderElection".into(), self.ports.clock.now());
        let event = ClusterEvent::new(about, false, reason, message, now);
        // The leader does not wait long for this event.
        let write = self.ports.events.write_event(&event);
        if let Ok(Err(error)) = timeout(self.settings.retry_period, write).await {
            debug!(error = %Chain(&error), "Cannot write event");
        }
    }
}
