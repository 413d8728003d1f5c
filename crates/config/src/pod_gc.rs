//! The command line of the Pod GC controller: the flags of upstream's controller manager that apply
//! to it, under their names, and some of its own.

mod check;
mod table;

use std::path::PathBuf;
use std::time::Duration;

use model::selector::Selector;

use crate::duration::GoDuration;
use crate::flags::{Flag, FlagError, FlagSet};

/// The controller's name, like upstream, and its alias.
const CONTROLLER: [&str; 2] = ["pod-garbage-collector-controller", "podgc"];

/// The TLS versions that upstream supports, the newest last.
const TLS_VERSIONS: [&str; 4] = ["VersionTLS10", "VersionTLS11", "VersionTLS12", NEWEST_TLS];
const NEWEST_TLS: &str = "VersionTLS13";

/// A flag and its meaning.
#[derive(Debug, Clone, Copy)]
pub struct FlagHelp {
    /// Its name.
    pub name: &'static str,
    /// The placeholder of its value; empty for a boolean flag.
    pub value: &'static str,
    /// Its meaning; empty for a flag without effect.
    pub meaning: &'static str,
    /// Whether upstream has it too.
    pub is_upstreams: bool,
}

/// Every flag with its meaning, by name.
pub fn flag_help() -> &'static [FlagHelp] {
    table::HELP
}

/// Every flag, by name.
pub fn flags() -> &'static [Flag] {
    table::FLAGS
}

/// The settings of the controller.
#[derive(Debug, Clone, PartialEq)]
pub struct PodGcArguments {
    /// How to reach the API server.
    pub server: Server,
    /// The time from the end of one cycle to the start of the next.
    pub check_period: Duration,
    /// How long a node must be missing before its pods are deleted.
    pub quarantine: Duration,
    /// The limits of terminated pods.
    pub terminated: Terminated,
    /// Pods with these labels are excluded.
    pub exclude_labels: Selector,
    /// Pods with these annotations are excluded.
    pub exclude_annotations: Selector,
    /// The maximum percentage of all pods that a cycle may remove.
    pub max_deletion_percent: Option<f64>,
    /// The maximum number of concurrent deletions.
    pub concurrency: usize,
    /// Whether deletions are only logged.
    pub dry_run: bool,
    /// Whether each deletion gets an event.
    pub events: bool,
    /// Leader election; `None` if every process is a leader.
    pub election: Option<Election>,
    /// The port of health and metrics.
    pub serving: Serving,
    /// The directory of the journal.
    pub state_dir: PathBuf,
    /// The maximum size of the journal in bytes.
    pub journal_bytes: u64,
    /// Whether log lines are JSON.
    pub json_logs: bool,
    /// The log level.
    pub verbosity: u8,
    /// Flags that were given and have no effect.
    pub without_effect: Vec<&'static str>,
    /// How long the parts may take to stop.
    pub shutdown_timeout: Duration,
    /// How long to wait before the start.
    pub start_interval: Duration,
}

/// How to reach the API server.
#[derive(Debug, Clone, PartialEq)]
pub struct Server {
    /// A kubeconfig.
    pub kubeconfig: Option<PathBuf>,
    /// The address; replaces the address in the kubeconfig.
    pub master: Option<String>,
    /// Requests per second.
    pub qps: f64,
    /// Requests in one burst.
    pub burst: u32,
}

/// The limits of terminated pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Terminated {
    /// Their number; zero or less for no limit.
    pub threshold: i64,
    /// Their age.
    pub ttl: Option<Duration>,
    /// Their number per namespace.
    pub per_namespace: Option<u32>,
    /// Their number per node.
    pub per_node: Option<u32>,
    /// Whether pods are ordered by their end instead of their creation.
    pub by_finish: bool,
}

/// Leader election.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Election {
    /// The namespace of the lease.
    pub namespace: String,
    /// The name of the lease.
    pub name: String,
    /// The duration of the lease.
    pub lease_duration: Duration,
    /// How long the leader tries to renew it.
    pub renew_deadline: Duration,
    /// The time between attempts.
    pub retry_period: Duration,
}

impl Election {
    fn of(flags: &FlagSet) -> Self {
        Self {
            namespace: flags.text("leader-elect-resource-namespace").to_owned(),
            name: flags.text("leader-elect-resource-name").to_owned(),
            lease_duration: span(flags, "leader-elect-lease-duration"),
            renew_deadline: span(flags, "leader-elect-renew-deadline"),
            retry_period: span(flags, "leader-elect-retry-period"),
        }
    }
}

impl Default for Election {
    /// The settings without flags: upstream's times.
    fn default() -> Self {
        let flags = FlagSet::parse_with(table::FLAGS, [""; 0]);
        Self::of(&flags.expect("no arguments cannot be invalid"))
    }
}

/// The port of health and metrics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Serving {
    /// The address.
    pub address: String,
    /// The port; zero for none.
    pub port: u16,
    /// The certificate; generated if there is none.
    pub cert_file: Option<PathBuf>,
    /// Its key.
    pub key_file: Option<PathBuf>,
    /// The CA certificates of clients.
    pub client_ca_file: Option<PathBuf>,
    /// Whether clients must speak TLS 1.3.
    pub newest_tls_only: bool,
    /// Authorization on the port.
    pub access: Access,
}

/// Authorization on the port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Access {
    /// Public paths; a `*` at the end matches any suffix.
    pub open_paths: Vec<String>,
    /// How long the user of a token is cached.
    pub token_ttl: Duration,
    /// How long an allowed path is cached.
    pub allowed_ttl: Duration,
    /// How long a denied path is cached.
    pub denied_ttl: Duration,
}

/// The request of a command line.
#[derive(Debug, Clone, PartialEq)]
pub enum Invocation {
    /// Run the controller.
    Run(Box<PodGcArguments>),
    /// Print the flags.
    Help,
    /// Print the version.
    Version,
}

/// Why a command line is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ArgumentsError {
    /// Its syntax is wrong.
    #[error(transparent)]
    Flags(FlagError),
    /// Its values are invalid.
    #[error("{}", .0.join("; "))]
    Senseless(Vec<String>),
}

/// Parses the arguments after `pod-gc`.
pub fn parse<I>(args: I) -> Result<Invocation, ArgumentsError>
where
    I: IntoIterator<Item: Into<String>>,
{
    let flags = FlagSet::parse_with(table::FLAGS, args).map_err(ArgumentsError::Flags)?;
    if flags.is_on("help") {
        return Ok(Invocation::Help);
    }
    if flags.is_on("version") || flags.text("version") == "raw" {
        return Ok(Invocation::Version);
    }
    let problems = check::problems(&flags);
    if !problems.is_empty() {
        return Err(ArgumentsError::Senseless(problems));
    }
    Ok(Invocation::Run(Box::new(arguments(&flags))))
}

/// The duration of a flag or its default.
fn span(flags: &FlagSet, name: &str) -> Duration {
    flags.duration(name).unwrap_or(GoDuration::ZERO).to_std()
}

fn arguments(flags: &FlagSet) -> PodGcArguments {
    let count = |name: &str| u32::try_from(flags.integer(name).unwrap_or_default()).ok();
    let path = |name: &str| Some(flags.text(name)).filter(|text| !text.is_empty()).map(Into::into);
    let span = |name: &str| span(flags, name);
    let text = |name: &str| flags.text(name).to_owned();
    let selector = |name: &str| flags.text(name).parse::<Selector>().unwrap_or_default();
    let without_effect = flag_help().iter().filter(|flag| flag.meaning.is_empty());
    let without_effect = without_effect.map(|flag| flag.name).filter(|name| flags.is_given(name));
    PodGcArguments {
        server: Server {
            kubeconfig: path("kubeconfig"),
            master: Some(text("master")).filter(|address| !address.is_empty()),
            qps: flags.number("kube-api-qps").unwrap_or_default(),
            burst: count("kube-api-burst").unwrap_or_default(),
        },
        check_period: span("gc-check-period"),
        quarantine: span("quarantine-time"),
        terminated: Terminated {
            threshold: flags.integer("terminated-pod-gc-threshold").unwrap_or_default(),
            ttl: Some(span("terminated-pod-ttl")).filter(|ttl| !ttl.is_zero()),
            per_namespace: count("terminated-pods-per-namespace").filter(|cap| *cap > 0),
            per_node: count("terminated-pods-per-node").filter(|cap| *cap > 0),
            by_finish: flags.text("terminated-pod-order") == "finish",
        },
        exclude_labels: selector("exclude-labels"),
        exclude_annotations: selector("exclude-annotations"),
        max_deletion_percent: flags.number("max-deletion-percent").filter(|share| *share > 0.0),
        concurrency: count("concurrent-deletions").unwrap_or(1) as usize,
        dry_run: flags.is_on("dry-run"),
        events: flags.is_on("deletion-events"),
        election: flags.is_on("leader-elect").then(|| Election::of(flags)),
        serving: Serving {
            address: text("bind-address"),
            port: u16::try_from(flags.integer("secure-port").unwrap_or_default()).unwrap_or(0),
            cert_file: path("tls-cert-file"),
            key_file: path("tls-private-key-file"),
            client_ca_file: path("client-ca-file"),
            newest_tls_only: flags.text("tls-min-version") == NEWEST_TLS,
            access: Access {
                open_paths: flags.list("authorization-always-allow-paths"),
                token_ttl: span("authentication-token-webhook-cache-ttl"),
                allowed_ttl: span("authorization-webhook-cache-authorized-ttl"),
                denied_ttl: span("authorization-webhook-cache-unauthorized-ttl"),
            },
        },
        state_dir: PathBuf::from(flags.text("state-dir")),
        journal_bytes: u64::try_from(flags.integer("journal-max-bytes").unwrap_or(0)).unwrap_or(0),
        json_logs: flags.text("logging-format") == "json",
        verbosity: u8::try_from(flags.integer("v").unwrap_or(0)).unwrap_or(u8::MAX),
        without_effect: without_effect.collect(),
        shutdown_timeout: span("controller-shutdown-timeout"),
        start_interval: span("controller-start-interval"),
    }
}
