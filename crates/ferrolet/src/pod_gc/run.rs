//! Runs the controller: finds the API server, waits for the lease, and works until told to stop.

use std::hash::{BuildHasher as _, RandomState};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use cluster::{Cluster, Connection, Exclusion, Rate, Source};
use config::pod_gc::PodGcArguments;
use hostfs::{Host, HostSegments};
use journal::{DiskJournal, Ledger, RecordedPods};
use model::chain::Chain;
use model::cluster::LeaseName;
use model::ports::cluster::{Nodes as _, PodFeed as _};
use podgc::cache::{Cache, SharedCache};
use podgc::decide::election::ElectionPolicy;
use podgc::election::{Election, ElectionPorts, ElectionSettings};
use podgc::events::{WAITING, write_events};
use podgc::metrics::Metrics;
use podgc::plan::{Order, TerminatedPolicy};
use podgc::task::{Outside, PodGc, PodGcSettings};
use prometheus::Registry;
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};
use tracing::{info, warn};

use super::access::Access;
use super::health::Health;
use super::serve::{Page, serve};
use super::tls::Keys;
use super::why;
use crate::observe::SystemClock;
use crate::tasks::Tasks;
use crate::version::FERROLET;

/// How this program presents itself to the API server, which takes the part before the slash for the
/// manager of the fields it writes.
const USER_AGENT: &str = concat!("ferrolet-pod-gc/", env!("CARGO_PKG_VERSION"));
/// Who writes events.
const COMPONENT: &str = "ferrolet-pod-gc";
/// How long it is waited at the start for the API server to be well, and how often it is asked.
const HEALTH_PATIENCE: Duration = Duration::from_secs(10);
const HEALTH_PAUSE: Duration = Duration::from_secs(1);
/// How long after all pods were told memory is given back, and how often again.
const TRIM_AFTER: Duration = Duration::from_secs(2);
const TRIM_PERIOD: Duration = Duration::from_mins(5);

/// Runs the controller.
pub(super) fn run(args: &PodGcArguments) -> Result<()> {
    if !args.without_effect.is_empty() {
        let flags = args.without_effect.join(", ");
        warn!(flags, "these flags have no effect");
    }
    let claim = hostfs::claim(&args.state_dir);
    if let Err(error) = &claim {
        if error.kind() == std::io::ErrorKind::ResourceBusy {
            bail!("another process uses the state directory {}", args.state_dir.display());
        }
        let dir = args.state_dir.display();
        warn!(%dir, %error, "the journal cannot be kept; deletions are in this log alone");
    }
    hostfs::share_one_heap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(4)
        .build()
        .context("start the async runtime")?;
    let done = runtime.block_on(work(args));
    runtime.shutdown_timeout(Duration::from_secs(1));
    done
}

/// Everything that the parts share.
struct Parts {
    cluster: Arc<Cluster>,
    cache: Arc<SharedCache>,
    registry: Registry,
    metrics: Metrics,
    journal: Arc<DiskJournal>,
    ledger: Arc<Ledger>,
    election: Option<Arc<Election>>,
}

async fn work(args: &PodGcArguments) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("listen to SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("listen to SIGINT")?;
    let parts = parts(args).await?;
    let mut tasks = Tasks::default();
    let journal = Arc::clone(&parts.journal);
    tasks.spawn("journal", |stop| journal.keep_synced(stop));
    open_port(args, &parts, &mut tasks).await?;
    let first = async {
        wait_for_server(&parts.cluster).await?;
        sleep(args.start_interval).await;
        if let Some(election) = &parts.election {
            election.win().await;
        }
        anyhow::Ok(())
    };
    // Biased here and below: a signal comes once and ends the program.
    tokio::select! {
        biased;
        name = told_to_stop(&mut terminate, &mut interrupt) => {
            info!(signal = name, "told to stop");
            return Ok(());
        }
        done = first => done?,
    }
    start(args, &parts, &mut tasks);
    let lost = async {
        match &parts.election {
            Some(election) => election.keep().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        name = told_to_stop(&mut terminate, &mut interrupt) => {
            info!(signal = name, "told to stop");
        }
        // Nothing may be done from now on; what is under way ends with the process.
        () = lost => bail!("leader election lost"),
        ended = tasks.first_ended() => return Err(ended.into()),
    }
    tasks.stop_within(args.shutdown_timeout).await;
    parts.journal.sync();
    // Nothing of ours is under way any more, so that whoever waits may begin.
    if let Some(election) = &parts.election {
        election.give_back().await;
    }
    Ok(())
}

async fn parts(args: &PodGcArguments) -> Result<Parts> {
    let host = host_name();
    let connection =
        Connection::find(args.server.kubeconfig.clone(), args.server.master.as_deref(), USER_AGENT);
    let connection = connection.await.context("find the API server")?;
    let exclusion = Exclusion {
        labels: args.exclude_labels.parse().context("--exclude-labels")?,
        annotations: args.exclude_annotations.parse().context("--exclude-annotations")?,
    };
    let rate = Rate { per_second: args.server.qps, burst: args.server.burst };
    let source = Source { component: COMPONENT, host: host.clone() };
    let cluster = Arc::new(Cluster::new(connection, rate, exclusion, source));
    let order = if args.terminated.by_finish { Order::Finish } else { Order::Creation };
    let cache = Cache::new(order, args.terminated.ttl.is_some());
    let registry = Registry::new();
    let metrics = Metrics::new(&registry).context("count deletions")?;
    let segments = Arc::new(HostSegments::new(why::journal(&args.state_dir)));
    let journal = DiskJournal::new(segments, Arc::new(SystemClock), FERROLET, args.journal_bytes);
    let journal = Arc::new(journal);
    let ledger = Ledger::new(Arc::clone(&journal) as _, &registry).context("count deletions")?;
    let election = args.election.as_ref().map(|election| {
        let settings = ElectionSettings {
            lease: LeaseName { namespace: election.namespace.clone(), name: election.name.clone() },
            policy: ElectionPolicy {
                identity: format!("{host}_{}", random_uuid()),
                lease_duration: election.lease_duration,
                renew_deadline: election.renew_deadline,
            },
            retry_period: election.retry_period,
        };
        let ports = ElectionPorts {
            leases: Arc::clone(&cluster) as _,
            events: Arc::clone(&cluster) as _,
            clock: Arc::new(SystemClock),
        };
        Arc::new(Election::new(settings, ports, metrics.clone()))
    });
    let cache = Arc::new(SharedCache::new(cache));
    Ok(Parts { cluster, cache, registry, metrics, journal, ledger: Arc::new(ledger), election })
}

async fn open_port(args: &PodGcArguments, parts: &Parts, tasks: &mut Tasks) -> Result<()> {
    let serving = &args.serving;
    if serving.port == 0 {
        return Ok(());
    }
    let (files, clock) = (Arc::new(Host::default()), Arc::new(SystemClock));
    let keys = Keys::read(serving, &host_name(), files, clock).await?;
    let listener = TcpListener::bind((serving.address.as_str(), serving.port)).await;
    let listener =
        listener.with_context(|| format!("listen on {} port {}", serving.address, serving.port))?;
    let page = Arc::new(Page {
        health: Health { election: parts.election.clone(), cache: Arc::clone(&parts.cache) },
        access: Access { reviews: Arc::clone(&parts.cluster) as _ },
        registry: parts.registry.clone(),
    });
    tasks.spawn("port", |stop| serve(page, listener, keys, stop));
    Ok(())
}

/// Starts all that only a leader does.
fn start(args: &PodGcArguments, parts: &Parts, tasks: &mut Tasks) {
    let (cluster, cache) = (Arc::clone(&parts.cluster), Arc::clone(&parts.cache));
    tasks.spawn("pods", |stop| async move {
        stop.run_until_cancelled(cluster.follow_pods(&*cache)).await;
    });
    let (cluster, cache) = (Arc::clone(&parts.cluster), Arc::clone(&parts.cache));
    tasks.spawn("nodes", |stop| async move {
        stop.run_until_cancelled(cluster.follow_nodes(&*cache)).await;
    });
    let (sender, receiver) = mpsc::channel(WAITING);
    let (cluster, metrics) = (Arc::clone(&parts.cluster), parts.metrics.clone());
    tasks.spawn("events", |stop| write_events(cluster, receiver, metrics, stop));
    let outside = Outside {
        nodes: Arc::clone(&parts.cluster) as _,
        pods: Arc::new(RecordedPods {
            inner: Arc::clone(&parts.cluster) as _,
            ledger: Arc::clone(&parts.ledger),
        }),
        clock: Arc::new(SystemClock),
        events: args.events.then_some(sender),
    };
    let cache = Arc::clone(&parts.cache);
    let gc = PodGc::new(settings(args), outside, cache, parts.metrics.clone());
    tasks.spawn("controller", |stop| gc.run(stop));
    let cache = Arc::clone(&parts.cache);
    tasks.spawn("memory", |stop| async move {
        stop.run_until_cancelled(give_back(&cache)).await;
    });
}

fn settings(args: &PodGcArguments) -> PodGcSettings {
    let terminated = &args.terminated;
    PodGcSettings {
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

/// A list of all pods leaves much behind that nobody needs.
async fn give_back(cache: &SharedCache) {
    cache.synced().await;
    sleep(TRIM_AFTER).await;
    loop {
        hostfs::give_back();
        sleep(TRIM_PERIOD).await;
    }
}

/// Waits until the API server is well, though not for long: whoever started this starts it again.
async fn wait_for_server(cluster: &Cluster) -> Result<()> {
    let server = cluster.address();
    let ask = async {
        while let Err(error) = cluster.is_healthy().await {
            warn!(server, error = %Chain(&error), "the API server is not well yet");
            sleep(HEALTH_PAUSE).await;
        }
    };
    let well = timeout(HEALTH_PATIENCE, ask).await;
    well.with_context(|| format!("the API server at {server} is not well"))?;
    info!(server, "the API server is well");
    Ok(())
}

async fn told_to_stop(terminate: &mut Signal, interrupt: &mut Signal) -> &'static str {
    // Biased: either ends the program.
    tokio::select! {
        biased;
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    }
}

fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_string_lossy().trim().to_lowercase();
    if name.is_empty() { "localhost".to_owned() } else { name }
}

/// So that no two processes are the same, not even two in a row on one machine.
fn random_uuid() -> String {
    let half = || RandomState::new().hash_one(std::process::id());
    let (first, second) = (half(), half());
    format!(
        "{:08x}-{:04x}-4{:03x}-{:04x}-{:012x}",
        first >> 32,
        (first >> 16) & 0xffff,
        first & 0xfff,
        0x8000 | ((second >> 48) & 0x3fff),
        second & 0xffff_ffff_ffff,
    )
}
