//! Runs the controller: connects to the API server, waits for the lease, and works until it is stopped.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Error, Result, anyhow, bail};
use cluster::Cluster;
use config::pod_gc::{PodGcArguments, Serving};
use hostfs::Host;
use journal::{ExistenceChecks, Recording};
use model::chain::Chain;
use model::cluster::ClusterEvent;
use model::image_claims::ImageClaims;
use model::intercept::Intercepted;
use model::ports::cluster::{Nodes as _, PodFeed as _, PodWrites};
use podgc::cache::SharedCache;
use podgc::events::{FLUSH, WAITING, write_events};
use podgc::plan::TerminatedPolicy;
use podgc::task::{Outside, PodGc, PodGcSettings};
use process::clock::SystemClock;
use process::run_async;
use process::signals::Signals;
use process::tasks::Tasks;
use server::access::{Access, AccessSettings};
use server::https::{HttpsPort, listen, serve_https};
use server::tls::{Certificates, TlsSettings};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use crate::configz::configz;
use crate::health::Health;
use crate::pages::PodGcPages;
use crate::parts::{Parts, host_name};

/// How long the start waits for the API server to be healthy, and how often it checks.
const HEALTH_PATIENCE: Duration = Duration::from_secs(10);
const HEALTH_PAUSE: Duration = Duration::from_secs(1);
/// How long beyond the flush the event writer may take to stop.
const AFTER_FLUSH: Duration = Duration::from_secs(1);
/// How long after the first lists memory is returned, and how often.
const TRIM_AFTER: Duration = Duration::from_secs(2);
const TRIM_PERIOD: Duration = Duration::from_mins(5);

/// Runs the controller.
pub(crate) fn run(args: &PodGcArguments) -> Result<()> {
    if !args.without_effect.is_empty() {
        let flags = args.without_effect.join(", ");
        warn!(flags, "Flags have no effect");
    }
    let claim = hostfs::claim(&args.state_dir);
    if let Err(error) = &claim {
        if error.kind() == std::io::ErrorKind::ResourceBusy {
            bail!("another process uses the state directory {}", args.state_dir.display());
        }
        let dir = args.state_dir.display();
        warn!(%dir, %error, "Cannot keep the journal, deletions are only logged");
    }
    hostfs::share_one_heap();
    run_async(work(args)).context("start the async runtime")?
}

async fn work(args: &PodGcArguments) -> Result<()> {
    let mut signals = Signals::listen()?;
    let parts = Parts::new(args).await?;
    // The event writer stops last, so that it writes the events of all deletions.
    let (mut tasks, mut writers) = (Tasks::default(), Tasks::default());
    let journal = Arc::clone(&parts.journal);
    // No list is needed: the leader decides again about pods that still exist.
    tasks.spawn("journal", |stop| Arc::new(ExistenceChecks::default()).keep(journal, stop));
    open_port(args, &parts, &mut tasks).await?;
    // Biased: a signal comes once and ends the program.
    tokio::select! {
        biased;
        name = signals.received() => info!(signal = name, "Received signal, stopping"),
        error = lead(args, &parts, &mut tasks, &mut writers) => {
            // Nothing may be deleted from now on; requests in progress are aborted.
            tasks.abort().await;
            parts.journal.sync();
            writers.stop_within(FLUSH + AFTER_FLUSH).await;
            if let Some(election) = &parts.election {
                election.record_end().await;
            }
            return Err(error);
        }
    }
    tasks.stop_within(args.shutdown_timeout).await;
    parts.journal.sync();
    // No deletion is in progress, so the next leader may start.
    let release = async {
        if let Some(election) = &parts.election {
            election.release_lease().await;
        }
    };
    tokio::join!(release, writers.stop_within(FLUSH + AFTER_FLUSH));
    Ok(())
}

/// Waits for the lease and works until it is lost; returns why it ended.
async fn lead(
    args: &PodGcArguments,
    parts: &Parts,
    tasks: &mut Tasks,
    writers: &mut Tasks,
) -> Error {
    if let Err(error) = wait_for_server(&parts.cluster).await {
        return error;
    }
    sleep(args.start_interval).await;
    if let Some(election) = &parts.election {
        election.win().await;
    }
    let (sender, receiver) = mpsc::channel(WAITING);
    let (cluster, metrics) = (Arc::clone(&parts.cluster), parts.metrics.clone());
    writers.spawn("events", |stop| write_events(cluster, receiver, metrics, stop));
    start(args, parts, args.events.then_some(sender), tasks);
    let lost = async {
        match &parts.election {
            Some(election) => election.keep().await,
            None => std::future::pending().await,
        }
    };
    // Biased: a lost lease is reported before any other end.
    tokio::select! {
        biased;
        () = lost => anyhow!("leader election lost"),
        ended = tasks.first_ended() => ended.into(),
        ended = writers.first_ended() => ended.into(),
    }
}

async fn open_port(args: &PodGcArguments, parts: &Parts, tasks: &mut Tasks) -> Result<()> {
    let serving = &args.serving;
    if serving.port == 0 {
        return Ok(());
    }
    let (files, clock) = (Arc::new(Host::default()), Arc::new(SystemClock));
    let tls = TlsSettings {
        cert_file: serving.cert_file.clone(),
        key_file: serving.key_file.clone(),
        client_ca_file: serving.client_ca_file.clone(),
        newest_tls_only: serving.newest_tls_only,
        ..TlsSettings::default()
    };
    let certificates = Certificates::read(tls, &host_name(), files, clock).await?;
    let listener = listen(&serving.address, serving.port).await;
    let listener = listener.with_context(|| {
        format!("listen on {} port {} (--secure-port)", serving.address, serving.port)
    })?;
    let pages = PodGcPages {
        health: Health { election: parts.election.clone(), cache: Arc::clone(&parts.cache) },
        registry: parts.registry.clone(),
        configz: configz(args).to_string(),
    };
    let access = Access::new(Arc::clone(&parts.cluster) as _, access_settings(serving));
    let port = Arc::new(HttpsPort::new(access, Arc::new(pages)));
    tasks.spawn("port", |stop| serve_https(port, listener, Arc::new(certificates), stop));
    Ok(())
}

fn access_settings(serving: &Serving) -> AccessSettings {
    let config::pod_gc::Access { open_paths, token_ttl, allowed_ttl, denied_ttl } =
        serving.access.clone();
    AccessSettings { open_paths, token_ttl, allowed_ttl, denied_ttl }
}

/// Starts the tasks of a leader.
fn start(
    args: &PodGcArguments,
    parts: &Parts,
    events: Option<mpsc::Sender<ClusterEvent>>,
    tasks: &mut Tasks,
) {
    let (cluster, cache) = (Arc::clone(&parts.cluster), Arc::clone(&parts.cache));
    tasks.spawn("pods", |stop| async move {
        stop.run_until_cancelled(cluster.follow_pods(&*cache)).await;
    });
    let (cluster, cache) = (Arc::clone(&parts.cluster), Arc::clone(&parts.cache));
    tasks.spawn("nodes", |stop| async move {
        stop.run_until_cancelled(cluster.follow_nodes(&*cache)).await;
    });
    let recording = Recording::new(Arc::clone(&parts.ledger), ImageClaims::default());
    let pods = Arc::clone(&parts.cluster) as Arc<dyn PodWrites>;
    let outside = Outside {
        nodes: Arc::clone(&parts.cluster) as _,
        pods: Arc::new(Intercepted::new(pods, &Arc::new(recording))),
        clock: Arc::new(SystemClock),
        events,
    };
    let cache = Arc::clone(&parts.cache);
    let gc = PodGc::new(settings(args), outside, cache, parts.metrics.clone());
    tasks.spawn("controller", |stop| gc.run(stop));
    let cache = Arc::clone(&parts.cache);
    tasks.spawn("memory", |stop| async move {
        stop.run_until_cancelled(return_freed_memory(&cache)).await;
    });
}

fn settings(args: &PodGcArguments) -> PodGcSettings {
    let terminated = &args.terminated;
    PodGcSettings {
        period: args.check_period,
        quarantine: args.quarantine,
        terminated: TerminatedPolicy {
            threshold: terminated.threshold,
            ttl: terminated.ttl,
            per_namespace: terminated.per_namespace,
            per_node: terminated.per_node,
        },
        max_deletion_percent: args.max_deletion_percent,
        concurrency: args.concurrency,
        dry_run: args.dry_run,
    }
}

/// Returns memory to the kernel: a list of all pods allocates much that is freed soon.
async fn return_freed_memory(cache: &SharedCache) {
    cache.synced().await;
    sleep(TRIM_AFTER).await;
    loop {
        hostfs::return_freed_memory();
        sleep(TRIM_PERIOD).await;
    }
}

/// Waits for a short time until the API server is healthy; otherwise the supervisor restarts the
/// program.
async fn wait_for_server(cluster: &Cluster) -> Result<()> {
    let server = cluster.address();
    let until_healthy = async {
        while let Err(error) = cluster.is_healthy().await {
            warn!(server, error = %Chain(&error), "API server is not healthy yet");
            sleep(HEALTH_PAUSE).await;
        }
    };
    let well = timeout(HEALTH_PATIENCE, until_healthy).await;
    well.with_context(|| format!("the API server at {server} is not healthy"))?;
    info!(server, "API server is healthy");
    Ok(())
}

#[cfg(test)]
mod tests {
    use config::pod_gc::{Invocation, parse};
    use podgc::decide::quarantine::QUARANTINE;
    use podgc::task::PERIOD;

    use super::*;

    fn settings_of(flags: &[&str]) -> PodGcSettings {
        let Ok(Invocation::Run(args)) = parse(flags.iter().copied()) else { panic!("{flags:?}") };
        settings(&args)
    }

    #[test]
    fn check_period_and_quarantine_time_are_upstreams_unless_set() {
        let usual = settings_of(&[]);
        assert_eq!((usual.period, usual.quarantine), (PERIOD, QUARANTINE));
        let set = settings_of(&["--gc-check-period=1s", "--quarantine-time=2500ms"]);
        assert_eq!(set.period, Duration::from_secs(1));
        assert_eq!(set.quarantine, Duration::from_millis(2500));
    }
}
