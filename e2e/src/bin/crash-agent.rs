//! The agent with ports that kill it with SIGKILL before or after its n-th effect, as the OOM killer would.
//!
//! The agent is the library's own, on the host's real files and a real socket; only the ports are wrapped.
#![allow(clippy::disallowed_methods, reason = "a test tool: its clock is the machine's")]

use std::future::pending;
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use async_trait::async_trait;
use cri::{CriRuntime, Deadlines, Endpoint};
use ferrolet::wiring::{Agent, Ports, Registry, Settings};
use fetch::{Fetcher, ProbeDialer};
use jiff::Timestamp;
use lexopt::prelude::*;
use model::intercept::Intercepted;
use model::ports::clock::WallClock;
use model::ports::events::{Events, NodeEvent, NodeEvents, PodEvent};
use model::ports::files::HostFiles;
use model::ports::runtime::Runtime;
use runtime::decide::NodeSettings;
use rustix::process::{Signal, getpid, kill_process};
use testkit::crash_point::{CrashPoint, Death, Moment};
use tokio::signal::unix::{SignalKind, signal};

const USAGE: &str = "usage: crash-agent --socket PATH --root DIR [--die before:N|after:N]";

/// Kills the process.
#[derive(Debug)]
struct Kill;

#[async_trait]
impl Death for Kill {
    async fn die(&self) {
        kill_process(getpid(), Signal::KILL).expect("a process may kill itself");
        pending::<()>().await;
    }

    fn is_over(&self) -> bool {
        false
    }
}

#[derive(Debug)]
struct Clock;

impl WallClock for Clock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}

/// Prints events, for the output of a failed test.
#[derive(Debug)]
struct PrintedEvents;

impl Events for PrintedEvents {
    fn record(&self, event: PodEvent) {
        eprintln!("{} {}: {}", event.pod, event.reason, event.message);
    }
}

impl NodeEvents for PrintedEvents {
    fn record(&self, event: NodeEvent) {
        eprintln!("node {}: {}", event.reason, event.message);
    }
}

struct Args {
    socket: String,
    root: PathBuf,
    die: Option<Moment>,
}

fn args() -> Result<Args> {
    let (mut socket, mut root, mut die) = (None, None, None);
    let mut parser = lexopt::Parser::from_env();
    while let Some(arg) = parser.next()? {
        match arg {
            Long("socket") => socket = Some(parser.value()?.string()?),
            Long("root") => root = Some(PathBuf::from(parser.value()?)),
            Long("die") => die = Some(parser.value()?.string()?.parse()?),
            other => return Err(other.unexpected().into()),
        }
    }
    Ok(Args { socket: socket.context(USAGE)?, root: root.context(USAGE)?, die })
}

fn settings(root: &std::path::Path) -> Settings {
    let node = NodeSettings {
        root_dir: root.join("root"),
        cluster_dns: vec![[10, 96, 0, 10].into()],
        ids_per_pod: 65_536,
        ..NodeSettings::default()
    };
    Settings {
        manifests: Some(root.join("manifests")),
        pod_logs: root.join("pods"),
        container_links: root.join("links"),
        ..Settings::new("node", "hollow", node)
    }
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let args = args()?;
    let mut terminate = signal(SignalKind::terminate()).context("handle SIGTERM")?;
    println!("crash-agent: ready");
    let endpoint = Endpoint::parse(&format!("unix://{}", args.socket)).context("--socket")?;
    let crash = Arc::new(CrashPoint::new(args.die, Kill));
    let runtime = Arc::new(CriRuntime::new(&endpoint, &endpoint, Deadlines::default()));
    let host = hostfs::Host::default();
    let ports = Ports {
        runtime: Runtime::new(runtime).intercepted(&crash),
        files: Arc::new(Intercepted::new(Arc::new(host.clone()) as Arc<dyn HostFiles>, &crash)),
        volumes: Arc::new(host.volumes()),
        http: Arc::new(Fetcher::new("crash-agent")),
        pod_http: Arc::new(Fetcher::trusting_any_server("crash-agent")),
        probes: Arc::new(ProbeDialer::default()),
        logs: Arc::new(host.logs()),
        log_files: None,
        programs: Arc::new(hostfs::HostPrograms::default()),
        clock: Arc::new(Clock),
        events: Arc::new(PrintedEvents),
        journal: Arc::new(hostfs::HostSegments::new(args.root.join("journal"))),
        node_events: Arc::new(PrintedEvents),
        disks: Arc::new(host.clone()),
        cgroups: None,
        usage: None,
        packet_filter: None,
        cluster: None,
        pools: vec![host.pool().clone()],
        metrics: Registry::new(),
        probe_metrics: Registry::new(),
    };
    let mut agent = Agent::start(&settings(&args.root), ports, None);
    // Biased: a signal is delivered once.
    tokio::select! {
        biased;
        _ = terminate.recv() => agent.stop().await,
        ended = agent.task_ended() => return Err(ended.into()),
    }
    Ok(())
}
