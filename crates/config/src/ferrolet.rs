//! `FerroletConfiguration`: settings that the kubelet does not have.
//!
//! Strict, unlike the kubelet's own file: no other program writes these fields, so an unknown one
//! is a mistake.

use std::path::Path;

use crate::decode::{DocumentKind, Duplicates, decode};
use crate::duration::GoDuration;
use crate::finding::{At, FieldError, FieldErrors, Findings, Warning};
use crate::load::ConfigError;
use crate::setting::{Setting, settings};

/// The agent's own document.
pub const FERROLET: DocumentKind =
    DocumentKind { api_version: "ferrolet/v1alpha1", kind: "FerroletConfiguration" };

settings! {
    /// Settings of this agent that the kubelet does not have.
    pub struct FerroletConfiguration {
        /// How the container runtime is observed.
        pleg: Observation = "pleg", absent(Observation::default());
        /// How many events are kept for `describe` and `get pods`.
        events: EventBookLimits = "events", absent(EventBookLimits::default());
        /// The directory of symlinks to container logs.
        container_links_dir: String = "containerLinksDir", absent("/var/log/containers".into());
        /// How images are pulled.
        images: ImageFetching = "images", absent(ImageFetching::default());
        /// Garbage collection.
        gc: GarbageCollection = "gc", absent(GarbageCollection::default());
        /// The logs of containers.
        logs: ContainerLogs = "logs", absent(ContainerLogs::default());
        /// The node's API.
        server: NodeServer = "server", absent(NodeServer::default());
    }
}

settings! {
    /// The logs of containers.
    pub struct ContainerLogs {
        /// How many bytes all logs of a pod may take; 0: no limit.
        max_bytes_per_pod: i64 = "maxBytesPerPod", absent(0);
    }
}

/// The smallest limit of the logs of a pod.
const SMALLEST_POD_LOGS: i64 = 1 << 20;

settings! {
    /// The node's API.
    pub struct NodeServer {
        /// Whether `get nodes/proxy` is enough for exec, attach, run and port-forward by GET, as upstream has it.
        get_nodes_proxy_allows_exec: bool = "getNodesProxyAllowsExec", absent(false);
    }
}

settings! {
    /// How images are pulled.
    pub struct ImageFetching {
        /// The timeout of a pull.
        pull_timeout: GoDuration = "pullTimeout", absent(GoDuration::from_secs(3600));
    }
}

settings! {
    /// Garbage collection.
    pub struct GarbageCollection {
        /// Dead containers.
        containers: ContainerCollection = "containers", absent(ContainerCollection::default());
        /// The journal of removals.
        journal: JournalLimits = "journal", absent(JournalLimits::default());
        /// Images.
        images: ImageCollection = "images", absent(ImageCollection::default());
    }
}

settings! {
    /// Garbage collection of dead containers.
    pub struct ContainerCollection {
        /// The time from the end of a periodic pass to the start of the next.
        period: GoDuration = "period", absent(GoDuration::from_secs(60));
        /// The start of their age: `created` or `finished`.
        age_by: String = "ageBy", absent(CREATED.into());
    }
}

/// The age of a dead container counts from its creation.
const CREATED: &str = "created";
/// The age of a dead container counts from its end.
const FINISHED: &str = "finished";

impl ContainerCollection {
    /// Whether the age of dead containers counts from their end.
    pub fn is_by_end(&self) -> bool {
        self.age_by == FINISHED
    }
}

settings! {
    /// Which images are never collected.
    pub struct ImageCollection {
        /// Images with these names, patterns, and labels.
        pin: Vec<String> = "pin", absent(Vec::new());
        /// Images of static and critical pods.
        keep_static_and_critical: bool = "keepStaticAndCritical", absent(false);
    }
}

settings! {
    /// How the container runtime is observed.
    pub struct Observation {
        /// The time from the end of a relist to the start of the next, without events of the runtime.
        relist_period: GoDuration = "relistPeriod", absent(GoDuration::from_secs(1));
        /// Like `relist_period`, while the runtime sends events.
        relist_period_with_hints: GoDuration =
            "relistPeriodWithHints", absent(GoDuration::from_secs(60));
        /// The maximum age of the last relist of a healthy agent.
        relist_threshold: GoDuration = "relistThreshold", absent(GoDuration::from_secs(180));
        /// The timeout for reading one pod from the runtime.
        inspection_deadline: GoDuration = "inspectionDeadline", absent(GoDuration::from_secs(10));
        /// How many pods are read at the same time.
        parallel_inspections: u32 = "parallelInspections", absent(16);
    }
}

settings! {
    /// How many events are stored; the oldest ones are dropped.
    pub struct EventBookLimits {
        /// Of one pod.
        per_pod: u32 = "perPod", absent(50);
        /// Of all pods.
        in_all: u32 = "inAll", absent(2000);
    }
}

settings! {
    /// The journal of removals, for `gc why`.
    pub struct JournalLimits {
        /// Its maximum size in bytes; the oldest entries are dropped.
        max_bytes: u32 = "maxBytes", absent(8 << 20);
    }
}

/// Reads the agent's own settings, applies defaults and validates them. Errors of further checks are passed
/// in, so that all errors are reported at once.
pub fn load_ferrolet(
    path: &Path,
    others: impl FnOnce(&FerroletConfiguration) -> Vec<FieldError>,
) -> Result<FerroletConfiguration, ConfigError> {
    let text = std::fs::read_to_string(path)
        .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
    let mut findings = Findings::default();
    let document = decode(&text, path, FERROLET, Duplicates::LastWins, &mut findings)
        .map_err(ConfigError::Decode)?;
    let config = FerroletConfiguration::read(&document.into(), &At::ROOT, &mut findings);
    let config = config.unwrap_or_default();
    for warning in std::mem::take(&mut findings.warnings) {
        match warning {
            Warning::UnknownField { field } => findings.error(field, "no such field"),
            Warning::DuplicateField { field } => findings.error(field, "written more than once"),
            Warning::FurtherDocuments => {
                findings.error("", "the file holds more than one document");
            }
            other => findings.warnings.push(other),
        }
    }
    check(&config, &mut findings);
    findings.errors.extend(others(&config));
    if findings.errors.is_empty() {
        return Ok(config);
    }
    for error in &mut findings.errors {
        error.source = Some(path.display().to_string());
    }
    Err(ConfigError::Invalid { source: FieldErrors(findings.errors), warnings: findings.warnings })
}

fn check(config: &FerroletConfiguration, findings: &mut Findings) {
    let pleg = &config.pleg;
    let shortest = GoDuration::from_millis(100);
    for (field, period) in [
        ("pleg.relistPeriod", pleg.relist_period),
        ("pleg.relistPeriodWithHints", pleg.relist_period_with_hints),
        ("pleg.inspectionDeadline", pleg.inspection_deadline),
        ("gc.containers.period", config.gc.containers.period),
    ] {
        findings.require(period >= shortest, field, format_args!("must be at least {shortest}"));
    }
    let longest = pleg.relist_period.max(pleg.relist_period_with_hints);
    findings.require(
        pleg.relist_threshold > longest,
        "pleg.relistThreshold",
        format_args!("must be longer than a relist period, which is {longest}"),
    );
    findings.require(
        (1..=1024).contains(&pleg.parallel_inspections),
        "pleg.parallelInspections",
        "must be from 1 to 1024",
    );
    let (pull, shortest) = (config.images.pull_timeout, GoDuration::from_secs(1));
    findings.require(
        pull >= shortest,
        "images.pullTimeout",
        format_args!("must be at least {shortest}"),
    );
    let events = &config.events;
    findings.require(events.per_pod >= 1, "events.perPod", "must be at least 1");
    findings.require(
        (events.per_pod..=1_000_000).contains(&events.in_all),
        "events.inAll",
        "must be at least events.perPod and at most 1000000",
    );
    findings.require(
        (1 << 20..=1 << 30).contains(&config.gc.journal.max_bytes),
        "gc.journal.maxBytes",
        "must be from 1048576 to 1073741824",
    );
    let pod_logs = config.logs.max_bytes_per_pod;
    findings.require(
        pod_logs == 0 || pod_logs >= SMALLEST_POD_LOGS,
        "logs.maxBytesPerPod",
        "must be 0 or at least 1048576",
    );
    findings.require(
        [CREATED, FINISHED].contains(&config.gc.containers.age_by.as_str()),
        "gc.containers.ageBy",
        "must be created or finished",
    );
    findings.require(
        config.container_links_dir.starts_with('/'),
        "containerLinksDir",
        "must be an absolute path",
    );
}
