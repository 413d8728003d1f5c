//! `ferrolet node clean`: stops and removes all pods of the node's runtime.

pub mod decide;
mod lock;
pub mod remove_pods;
mod volumes;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use config::{FerroletConfiguration, KubeletConfiguration};
use cri::{CriRuntime, Deadlines, Endpoint};
use ferrolet::node_cgroups;
use ferrolet::run::JOURNAL;
use ferrolet::runtime_note::{CgroupsNote, RuntimeNote};
use hostfs::HostSegments;
use journal::{DiskJournal, ExistenceChecks, Ledger, Recording};
use model::cgroup::{CgroupDriver, CgroupName};
use model::chain::Chain;
use model::image_claims::ImageClaims;
use model::intercept::Intercepted;
use model::ports::cgroups::Cgroups;
use model::ports::runtime::{Runtime, RuntimeInfo as _};
use process::clock::SystemClock;
use process::version::FERROLET;
use prometheus::Registry;
use runtime::LogLayout;

use self::remove_pods::Cleaner;
use super::Place;

/// The minimum timeout of a call, as in `run`.
const SHORTEST_TIMEOUT: Duration = Duration::from_secs(1);

/// The arguments of `node clean`.
#[derive(Debug, Clone, clap::Args)]
pub struct Args {
    #[command(flatten)]
    pub place: Place,
    /// The agent's `KubeletConfiguration`, if it left no runtime note.
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The container runtime, instead of the one that the agent used.
    #[arg(long, value_name = "SOCKET", alias = "runtime-endpoint")]
    pub container_runtime_endpoint: Option<String>,
    /// If an agent runs, stop it first.
    #[arg(long)]
    pub force: bool,
}

pub(crate) async fn run(args: &Args) -> Result<()> {
    let files = hostfs::Host::default();
    let root_dir = &args.place.root_dir;
    let _claim = lock::lock(&args.place.agent(), root_dir, args.force).await?;
    let note = RuntimeNote::read(&files, root_dir).await;
    let config = args.config.as_deref().map(config::load).transpose();
    let config = config.map_err(|error| anyhow::anyhow!("{}", Chain(&error)))?;
    // A malformed note is an error only if there is no other source.
    let note = match (&args.container_runtime_endpoint, &config, note) {
        (_, _, Ok(note)) => note,
        (None, None, Err(error)) => return Err(error.into()),
        (_, _, Err(_)) => None,
    };
    let config = config.as_ref().map(|loaded| &loaded.config);
    let target = target(args, config, note)?;
    let endpoint = Endpoint::parse(&target.endpoint)?;
    let deadlines = Deadlines { request: request_timeout(config), ..Deadlines::default() };
    let runtime = CriRuntime::new(&endpoint, &endpoint, deadlines);
    runtime.version().await.with_context(|| {
        format!("connect to the container runtime at {}", endpoint.path().display())
    })?;
    let segments = HostSegments::new(root_dir.join(JOURNAL));
    let max_bytes = FerroletConfiguration::default().gc.journal.max_bytes.into();
    let clock = Arc::new(SystemClock);
    let journal = Arc::new(DiskJournal::new(Arc::new(segments), clock, FERROLET, max_bytes));
    let ledger = Ledger::new(Arc::clone(&journal) as _, &Registry::new());
    let ledger = Arc::new(ledger.context("count removals")?);
    let (runtime, files) = (Runtime::new(Arc::new(runtime)), Arc::new(files));
    let checks = ExistenceChecks {
        runtime: Some(runtime.clone()),
        files: Some(Arc::clone(&files) as _),
        cgroups: None,
    };
    checks.settle(&journal).await;
    let recording = Arc::new(Recording::new(ledger, ImageClaims::default()));
    let cleaner = Cleaner {
        runtime: runtime.intercepted(&recording),
        volumes: Arc::new(files.volumes()),
        files: Arc::new(Intercepted::new(files as _, &recording)),
        cgroups: target.cgroups.map(|note| cgroups(&note, &recording)).transpose()?,
        clock: Arc::new(SystemClock),
        logs: target.logs,
        pods: root_dir.join("pods"),
    };
    let report = |line: &str| drop(writeln!(io::stdout(), "{line}"));
    let outcome = cleaner.clean(&report).await.context("list the pods of the runtime");
    journal.sync();
    let outcome = outcome?;
    if outcome.failed.is_empty() || outcome.removed > 0 {
        report(&summary(outcome.removed));
    }
    if outcome.failed.is_empty() {
        return Ok(());
    }
    let failed: Vec<String> = outcome.failed.iter().map(ToString::to_string).collect();
    bail!("not removed: {}", failed.join(", "))
}

/// The host's cgroups, and the cgroup of all pods.
fn cgroups(
    note: &CgroupsNote,
    recording: &Arc<Recording>,
) -> Result<(Arc<dyn Cgroups>, CgroupName)> {
    let driver = if note.systemd { CgroupDriver::Systemd } else { CgroupDriver::Cgroupfs };
    let root = CgroupName::parse(&note.root).context("read the pod cgroup root of the note")?;
    let (inner, _) = node_cgroups::open(driver)?;
    Ok((Arc::new(Intercepted::new(inner, recording)), root))
}

fn summary(removed: usize) -> String {
    match removed {
        0 => "no pods to remove".to_owned(),
        1 => "1 pod removed".to_owned(),
        many => format!("{many} pods removed"),
    }
}

/// The timeout of a runtime call: as configured, with the agent's lower limit.
fn request_timeout(config: Option<&KubeletConfiguration>) -> Duration {
    let timeout = match config {
        Some(config) => config.runtime_request_timeout,
        None => KubeletConfiguration::default().runtime_request_timeout,
    };
    timeout.to_std().max(SHORTEST_TIMEOUT)
}

/// The runtime and directories to clean.
#[derive(Debug)]
struct Target {
    endpoint: String,
    logs: LogLayout,
    /// The cgroups of pods, if pods have any.
    cgroups: Option<CgroupsNote>,
}

/// The runtime and the log directory: from the flag, else from the configuration, else
/// from the agent's note.
fn target(
    args: &Args,
    config: Option<&KubeletConfiguration>,
    note: Option<RuntimeNote>,
) -> Result<Target> {
    let configured = config.map(|config| config.container_runtime_endpoint.clone());
    let noted = note.as_ref().map(|note| note.runtime_endpoint.clone());
    let Some(endpoint) = args.container_runtime_endpoint.clone().or(configured).or(noted) else {
        bail!(
            "no agent has left a runtime note in {}: pass --container-runtime-endpoint or --config",
            args.place.root_dir.display()
        );
    };
    let links = note.as_ref().map(|note| note.container_links_dir.clone());
    let cgroups = note.as_ref().and_then(|note| note.pod_cgroups.clone());
    let configured = config.map(|config| PathBuf::from(&config.pod_logs_dir));
    let noted = note.map(|note| note.pod_logs_dir);
    let default = || PathBuf::from(KubeletConfiguration::default().pod_logs_dir);
    Ok(Target {
        endpoint,
        cgroups,
        logs: LogLayout {
            pod_logs: configured.or(noted).unwrap_or_else(default),
            container_links: links.unwrap_or_else(|| Path::new("/var/log/containers").to_owned()),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(endpoint: Option<&str>) -> Args {
        Args {
            place: Place { root_dir: "/var/lib/kubelet".into() },
            config: None,
            container_runtime_endpoint: endpoint.map(str::to_owned),
            force: false,
        }
    }

    #[test]
    fn runtime_calls_use_the_configured_timeout() {
        let rows = [("2s", 2), ("0s", 1), ("5m", 300)];
        for (text, seconds) in rows {
            let config = KubeletConfiguration {
                runtime_request_timeout: text.parse().unwrap(),
                ..KubeletConfiguration::default()
            };
            assert_eq!(request_timeout(Some(&config)), Duration::from_secs(seconds), "{text}");
        }
        assert_eq!(request_timeout(None), Duration::from_mins(2));
    }

    #[test]
    fn runtime_endpoint_is_from_the_flag_else_configuration_else_the_note() {
        let config = KubeletConfiguration {
            container_runtime_endpoint: "configured".to_owned(),
            pod_logs_dir: "/configured".to_owned(),
            ..KubeletConfiguration::default()
        };
        let note = RuntimeNote::new("noted".to_owned(), "/noted".into(), "/links".into());
        let rows = [
            (Some("asked"), Some(&config), Some(&note), "asked", "/configured"),
            (Some("asked"), None, Some(&note), "asked", "/noted"),
            (Some("asked"), None, None, "asked", "/var/log/pods"),
            (None, Some(&config), Some(&note), "configured", "/configured"),
            (None, None, Some(&note), "noted", "/noted"),
        ];
        for (requested, config, note, endpoint, logs) in rows {
            let target = target(&args(requested), config, note.cloned()).unwrap();
            assert_eq!((&*target.endpoint, target.logs.pod_logs), (endpoint, logs.into()));
        }
        assert!(target(&args(None), None, None).is_err());
    }
}
