//! `ferrolet run`: reads the configuration, finds the runtime, and runs until told to stop.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use config::KubeletConfiguration;
use cri::{CriRuntime, Deadlines, Endpoint};
use model::chain::Chain;
use model::ports::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{info, warn};

use crate::cli::RunArgs;
use crate::observe::{LoggedEvents, SystemClock};
use crate::wiring::{Agent, Ports, Settings};

/// How long to wait between two tries to reach the runtime at the start.
const RUNTIME_RETRY: Duration = Duration::from_secs(1);

/// Runs the agent.
pub(crate) fn run(args: &RunArgs) -> Result<()> {
    let loaded =
        config::load(&args.config).map_err(|error| anyhow::anyhow!("{}", Chain(&error)))?;
    for warning in &loaded.warnings {
        warn!(%warning, "configuration");
    }
    let config = loaded.config;
    let node_name = node_name(args.hostname_override.as_deref())?;
    let settings = settings(&config, node_name)?;
    let _lock = hostfs::claim(&args.root_dir.join("ferrolet"))
        .with_context(|| format!("use the root directory {}", args.root_dir.display()))?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("start the async runtime")?;
    let done = runtime.block_on(serve(&config, settings));
    // A call to the runtime or a file that hangs must not keep the agent from ending.
    runtime.shutdown_timeout(Duration::from_secs(1));
    done
}

/// The node's name: as asked for, else the machine's host name; lower case in any case.
fn node_name(wanted: Option<&str>) -> Result<String> {
    let uname = rustix::system::uname();
    let name = match wanted {
        Some(name) => name,
        None => uname.nodename().to_str().context("the machine's host name is not text")?,
    };
    let name = name.trim().to_lowercase();
    if name.is_empty() {
        bail!("the node has no name: give the machine a host name or use --hostname-override");
    }
    Ok(name)
}

fn settings(config: &KubeletConfiguration, node_name: String) -> Result<Settings> {
    if config.static_pod_path.is_empty() {
        bail!("staticPodPath is not set: without it and without an API server there are no pods");
    }
    let longest = config.crash_loop_back_off.max_container_restart_period;
    Ok(Settings {
        node_name,
        manifests: PathBuf::from(&config.static_pod_path),
        manifests_period: config.file_check_frequency.to_std(),
        pod_logs: PathBuf::from(&config.pod_logs_dir),
        container_links: Path::new("/var/log/containers").to_owned(),
        resync: config.sync_frequency.to_std(),
        longest_restart_wait: longest.map_or(Duration::from_mins(5), config::GoDuration::to_std),
        pleg: pleg::Settings::default(),
    })
}

async fn serve(config: &KubeletConfiguration, settings: Settings) -> Result<()> {
    let mut terminate = signal(SignalKind::terminate()).context("listen to SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).context("listen to SIGINT")?;
    let endpoint =
        Endpoint::parse(&config.container_runtime_endpoint).context("containerRuntimeEndpoint")?;
    let image_endpoint = match config.image_service_endpoint.as_str() {
        "" => endpoint.clone(),
        text => Endpoint::parse(text).context("imageServiceEndpoint")?,
    };
    let deadlines = Deadlines { request: config.runtime_request_timeout.to_std() };
    let runtime = Arc::new(CriRuntime::new(&endpoint, &image_endpoint, deadlines));
    // Biased here and below: a signal comes once and ends the agent.
    tokio::select! {
        biased;
        name = told_to_stop(&mut terminate, &mut interrupt) => {
            info!(signal = name, "told to stop");
            return Ok(());
        }
        () = wait_for_runtime(&*runtime, endpoint.path()) => {}
    }
    info!(node = settings.node_name, manifests = %settings.manifests.display(), "ferrolet runs");
    let ports = Ports {
        runtime,
        files: Arc::new(hostfs::Host),
        clock: Arc::new(SystemClock),
        events: Arc::new(LoggedEvents),
    };
    let mut agent = Agent::start(settings, ports);
    tokio::select! {
        biased;
        name = told_to_stop(&mut terminate, &mut interrupt) => {
            info!(signal = name, "told to stop; pods are left running");
            agent.stop().await;
            Ok(())
        }
        broken = agent.broken() => Err(broken.into()),
    }
}

async fn told_to_stop(terminate: &mut Signal, interrupt: &mut Signal) -> &'static str {
    // Biased: either ends the agent.
    tokio::select! {
        biased;
        _ = terminate.recv() => "SIGTERM",
        _ = interrupt.recv() => "SIGINT",
    }
}

/// Waits until the runtime answers. A node whose runtime comes up late must not need a second start.
async fn wait_for_runtime(runtime: &dyn Runtime, socket: &Path) {
    loop {
        match runtime.version().await {
            Ok(version) => {
                let (name, version) = (version.name, version.version);
                info!(socket = %socket.display(), name, version, "container runtime found");
                return;
            }
            Err(error) => {
                warn!(socket = %socket.display(), %error, "container runtime does not answer; trying again");
                tokio::time::sleep(RUNTIME_RETRY).await;
            }
        }
    }
}
