//! The command line of `ferrolet run`: the kubelet's flags and syntax.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use config::flags::{FlagError, FlagSet};
use config::{CgroupVersion, ConfigError, FerroletConfiguration, KubeletConfiguration, Warning};
use model::chain::Chain;
use tracing::warn;

use crate::cluster_mode::CertificateSettings;
use crate::collection_rules::{CollectionRules, dead_containers, wrong_pins};
use crate::decide::node_resources::NodeFlags;
use crate::supported_settings::without_effect;

/// The settings of a start.
#[derive(Debug)]
pub struct RunArgs {
    /// The configuration: file, drop-ins and flags together.
    pub config: KubeletConfiguration,
    /// The agent's own settings.
    pub own: FerroletConfiguration,
    /// Warnings for the operator.
    pub warnings: Vec<Warning>,
    /// Drop-ins that were skipped for their names.
    pub skipped: Vec<PathBuf>,
    /// Flags and fields that are set but have no effect yet.
    pub without_effect: Vec<String>,
    /// Directory for the agent's files.
    pub(crate) root_dir: PathBuf,
    /// The kubeconfig; without one, the node runs without an API server.
    pub(crate) kubeconfig: Option<PathBuf>,
    /// The settings of the node's certificates.
    pub(crate) certificates: CertificateSettings,
    /// Name of this node instead of the machine's host name.
    pub hostname_override: Option<String>,
    /// The node's addresses; empty to detect them.
    pub(crate) node_ip: String,
    /// The node's labels, in addition to the standard ones.
    pub(crate) node_labels: BTreeMap<String, String>,
    /// Whether an external cloud provider manages the node too.
    pub(crate) external_cloud: bool,
    /// Where credential providers are configured.
    pub(crate) provider_paths: ProviderPaths,
    /// Further settings of the node that only flags have.
    pub(crate) node: NodeFlags,
    /// The rules of garbage collection.
    pub(crate) collection: CollectionRules,
    /// Whether no certificate for the node's API is configured, so that one is generated.
    pub(crate) generates_certificate: bool,
    /// The flags, for `/flagz`.
    pub(crate) flags: Vec<(String, String)>,
}

/// Where credential provider plugins are configured, and where their programs are; empty if there are none.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct ProviderPaths {
    /// A file, or a directory of files.
    pub(crate) config: PathBuf,
    /// The directory of the programs.
    pub(crate) bin_dir: PathBuf,
}

impl RunArgs {
    /// Logs the warnings about the settings.
    pub(crate) fn warn_of_settings(&self) {
        for warning in &self.warnings {
            warn!(%warning, "Configuration warning");
        }
        for file in &self.skipped {
            warn!(file = %file.display(), "Skipping drop-in: name must end in .conf");
        }
        if !self.without_effect.is_empty() {
            let settings = self.without_effect.join(", ");
            warn!(settings, "Settings have no effect yet");
        }
    }
}

/// The request of a command line.
#[derive(Debug)]
pub enum Invocation {
    /// Run the agent.
    Run(Box<RunArgs>),
    /// Print the flags.
    Help,
    /// Print the version.
    Version,
}

/// Why the arguments are refused.
#[derive(Debug, thiserror::Error)]
pub enum ArgsError {
    /// An argument is not UTF-8.
    #[error("argument {0:?} is not UTF-8")]
    NotText(OsString),
    /// The flags are invalid.
    #[error(transparent)]
    Flags(FlagError),
    /// The configuration is invalid.
    #[error(transparent)]
    Config(Refused),
}

/// The reasons why files or flags cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.iter().map(|error| Chain(error).to_string()).collect::<Vec<_>>().join("; "))]
pub struct Refused(pub Vec<ConfigError>);

/// Parses the arguments after `run`, and reads the files that they name.
pub fn parse(
    args: impl IntoIterator<Item = OsString>,
    machine: CgroupVersion,
) -> Result<Invocation, ArgsError> {
    let texts = args.into_iter().map(OsString::into_string);
    let texts: Vec<String> = texts.collect::<Result<_, _>>().map_err(ArgsError::NotText)?;
    let flags = FlagSet::parse(texts).map_err(ArgsError::Flags)?;
    if flags.is_on("help") {
        return Ok(Invocation::Help);
    }
    if flags.is_on("version") || flags.text("version") == "raw" {
        return Ok(Invocation::Version);
    }
    let args = load(&flags, machine).map_err(ArgsError::Config)?;
    Ok(Invocation::Run(Box::new(args)))
}

/// Reads the files that the flags name, and merges all settings.
pub fn load(flags: &FlagSet, machine: CgroupVersion) -> Result<RunArgs, Refused> {
    let path = |flag: &str| Some(flags.text(flag)).filter(|text| !text.is_empty()).map(Path::new);
    let loaded = config::load_sources_for(machine, path("config"), path("config-dir"), flags);
    let read = |file: &Path| config::load_ferrolet(file, wrong_pins);
    let own = path("ferrolet-config").map_or_else(|| Ok(<_>::default()), read);
    let (loaded, own, dead) = match (loaded, own, dead_containers(flags)) {
        (Ok(loaded), Ok(own), Ok(dead)) => (loaded, own, dead),
        (loaded, own, dead) => {
            let errors = [loaded.err(), own.err(), dead.err()];
            return Err(Refused(errors.into_iter().flatten().collect()));
        }
    };
    let name = Some(flags.text("hostname-override")).filter(|name| !name.is_empty());
    let without_effect = without_effect(flags, &loaded.config);
    let mut config = loaded.config;
    config.settle_reserved_cpus();
    let has_certificate =
        !config.tls_cert_file.is_empty() || !config.tls_private_key_file.is_empty();
    let generates_certificate = !has_certificate && !config.server_tls_bootstrap;
    config.settle_server_certificate(Path::new(flags.text("cert-dir")));
    let certificates = CertificateSettings {
        bootstrap: path("bootstrap-kubeconfig").map(Path::to_owned),
        directory: PathBuf::from(flags.text("cert-dir")),
        rotates: config.rotate_certificates,
        serves: config.server_tls_bootstrap && config.enable_server,
        allows_dns_only: config.features().enabled("AllowDNSOnlyNodeCSR"),
    };
    Ok(RunArgs {
        collection: CollectionRules::new(&config, &own, dead),
        without_effect,
        config,
        own,
        warnings: loaded.warnings,
        skipped: loaded.skipped,
        root_dir: PathBuf::from(flags.text("root-dir")),
        kubeconfig: path("kubeconfig").map(Path::to_owned),
        certificates,
        hostname_override: name.map(str::to_owned),
        node_ip: flags.text("node-ip").to_owned(),
        node_labels: flags.node_labels(),
        external_cloud: flags.text("cloud-provider") == "external",
        generates_certificate,
        provider_paths: ProviderPaths {
            config: flags.text("image-credential-provider-config").into(),
            bin_dir: flags.text("image-credential-provider-bin-dir").into(),
        },
        flags: flags.shown(),
        node: NodeFlags {
            seccomp_default: flags.is_on("seccomp-default"),
            ignores_eviction: flags.is_on("experimental-allocatable-ignore-eviction"),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(args: &[&str]) -> Result<Invocation, String> {
        parse(args.iter().map(OsString::from), CgroupVersion::V2).map_err(|error| error.to_string())
    }

    fn run(args: &[&str]) -> RunArgs {
        match parsed(args) {
            Ok(Invocation::Run(args)) => *args,
            other => panic!("{args:?}: {other:?}"),
        }
    }

    #[test]
    fn kubelet_flags_override_the_file() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("config.yaml");
        let text = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n\
                    syncFrequency: 7s\nfileCheckFrequency: 8s\nlogging: {verbosity: 2}\nvolumePluginDir: /v\n";
        hostfs::replace(&file, text.as_bytes()).unwrap();
        let file = file.to_str().unwrap();
        let args = run(&["--config", file, "--sync_frequency=9s", "-v5", "--root-dir", "/r"]);
        assert_eq!(args.config.sync_frequency.to_std().as_secs(), 9);
        assert_eq!(args.config.file_check_frequency.to_std().as_secs(), 8);
        assert_eq!(args.config.logging.verbosity, 5);
        assert_eq!((args.root_dir, args.hostname_override), (PathBuf::from("/r"), None));
        assert_eq!(args.without_effect, ["volumePluginDir"]);
    }

    // behaviour: CFG-60
    #[test]
    fn settings_without_effect_are_one_warning() {
        let logged = testkit::logged::Logged::new();
        run(&["--root-dir=/r", "--node-ip=::1"]).warn_of_settings();
        let about = |warnings: &[String], words: &str| {
            warnings.iter().filter(|line| line.contains(words)).count()
        };
        assert_eq!(about(&logged.warnings(), "Settings have no effect yet"), 0);
        run(&["--lock-file=/l", "--volume-plugin-dir=/v"]).warn_of_settings();
        let warnings = logged.warnings();
        let about = |words: &str| about(&warnings, words);
        let counts = (about("deprecated"), about("Settings have no effect yet"));
        assert_eq!(counts, (1, 1), "{warnings:?}");
        assert_eq!(about("--lock-file, volumePluginDir"), 1, "{warnings:?}");
    }

    #[test]
    fn start_without_flags_has_kubelet_defaults() {
        let args = run(&[]);
        assert_eq!(args.root_dir, PathBuf::from("/var/lib/kubelet"));
        assert_eq!(args.config.logging.verbosity, 0);
        assert_eq!(args.without_effect, [""; 0]);
        assert_eq!(args.kubeconfig, None);
        assert_eq!(run(&["--kubeconfig=/k"]).kubeconfig, Some(PathBuf::from("/k")));
        assert_eq!(run(&["--hostname-override=n"]).hostname_override.as_deref(), Some("n"));
        assert!(!args.external_cloud);
        let args = run(&["--cloud-provider=external"]);
        assert!(args.external_cloud && args.without_effect.is_empty());
    }

    #[test]
    fn runtime_handler_image_tracking_follows_the_feature_gate() {
        let rows = [
            (&[][..], false),
            (&["--feature-gates=RuntimeClassInImageCriApi=true"], true),
            (&["--feature-gates=AllAlpha=true"], true),
            (&["--feature-gates=AllAlpha=true,RuntimeClassInImageCriApi=false"], false),
        ];
        for (args, expected) in rows {
            let args = run(args);
            assert_eq!(args.collection.images.policy.per_handler, expected, "{args:?}");
            let named = args.without_effect.iter().any(|field| field.contains("RuntimeClass"));
            assert!(!named, "{:?}", args.without_effect);
        }
    }

    #[test]
    fn node_flags_without_a_field_are_kept_apart() {
        let flags = ["--seccomp-default", "--experimental-allocatable-ignore-eviction"];
        let args = run(&flags);
        assert!(args.node.seccomp_default && args.node.ignores_eviction);
        assert!(!args.config.seccomp_default, "the field is unchanged, as upstream shows it");
        assert_eq!(args.without_effect, [""; 0]);
        assert_eq!(run(&["--seccomp-default=false"]).node, NodeFlags::default());
    }

    // behaviour: CFG-4
    #[test]
    fn help_and_version_are_handled_before_any_file_is_read() {
        for args in [&["--help"][..], &["-h", "--config=/nowhere"]] {
            assert!(matches!(parsed(args), Ok(Invocation::Help)), "{args:?}");
        }
        for args in [&["--version"][..], &["--version=raw"], &["--version=true", "--config=/no"]] {
            assert!(matches!(parsed(args), Ok(Invocation::Version)), "{args:?}");
        }
    }

    #[test]
    fn invalid_arguments_are_named() {
        let rows = [
            (&["--nonsense"][..], "unknown flag --nonsense"),
            (&["--network-plugin=cni"], "flag --network-plugin was removed"),
            (&["--enable-server", "false"], "unexpected argument \"false\""),
            (&["--config"], "flag --config needs a value"),
            (&["--config=/nowhere/at/all"], "/nowhere/at/all"),
            (&["--sync-frequency=often"], "--sync-frequency"),
        ];
        for (args, expected) in rows {
            let error = parsed(args).expect_err("wrong");
            assert!(error.contains(expected), "{args:?}: {error}");
        }
    }
}
