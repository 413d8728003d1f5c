//! Settings of pull credentials and of the verification of access to images.

use std::path::{Path, PathBuf};

use config::KubeletConfiguration;
use images::decide::verification::VerificationPolicy;
use images::{NodeConfigDirectories, ProviderSettings};

/// Upstream's sizes of the caches of records, for the most pods.
const INTENTS_PER_POD: usize = 2;
const RECORDS_PER_POD: usize = 5;

/// Which credentials images are pulled with, and which pods may use which images.
#[derive(Debug, Clone)]
pub struct ImageAccessSettings {
    /// Where the docker configuration of the node may be.
    pub directories: NodeConfigDirectories,
    /// The credential provider plugins; `None` where no flag names them.
    pub providers: Option<ProviderSettings>,
    /// For which images pods must prove their access; `None` if no records are kept.
    pub verification: Option<VerificationPolicy>,
    /// How many pull intents are kept in memory.
    pub most_intents: usize,
    /// How many pull records are kept in memory.
    pub most_records: usize,
}

impl Default for ImageAccessSettings {
    fn default() -> Self {
        Self {
            directories: NodeConfigDirectories::default(),
            providers: None,
            verification: Some(VerificationPolicy::NeverPreloaded),
            most_intents: 220,
            most_records: 550,
        }
    }
}

impl ImageAccessSettings {
    /// The settings of a configuration; credential providers are read from their own files.
    pub(crate) fn new(config: &KubeletConfiguration, root_dir: &Path) -> Self {
        let gate = config.features().enabled("KubeletEnsureSecretPulledImages");
        let policy = config.image_pull_credentials_verification_policy.filter(|_| gate);
        let allowlist = &config.preloaded_images_verification_allowlist;
        let count = |number: Option<i32>| number.and_then(|number| usize::try_from(number).ok());
        let pods = usize::try_from(config.max_pods).unwrap_or(usize::MAX);
        let pulls = count(config.max_parallel_image_pulls).unwrap_or(0);
        Self {
            directories: node_config_directories(root_dir),
            providers: None,
            verification: policy.map(|policy| VerificationPolicy::new(policy, allowlist)),
            most_intents: pods.max(pulls).saturating_mul(INTENTS_PER_POD),
            most_records: pods.saturating_mul(RECORDS_PER_POD),
        }
    }
}

/// Where the docker configuration of the node may be.
fn node_config_directories(root_dir: &Path) -> NodeConfigDirectories {
    #[expect(
        clippy::disallowed_methods,
        reason = "as upstream, $HOME alone: files of a user that the service does not name are not the node's"
    )]
    let home = std::env::var_os("HOME").map(PathBuf::from);
    // Relative to the working directory, like upstream.
    let working = std::env::current_dir().unwrap_or_else(|_| PathBuf::from("/"));
    let home = home.map_or_else(|| working.clone(), |home| working.join(home));
    NodeConfigDirectories { root: working.join(root_dir), working, home }
}

#[cfg(test)]
mod tests {
    use super::*;

    // behaviour: PULL-31
    #[test]
    fn gate_turns_verification_off() {
        let mut config = KubeletConfiguration::of_empty_file();
        let settings = ImageAccessSettings::new(&config, Path::new("/r"));
        assert_eq!(settings.verification, Some(VerificationPolicy::NeverPreloaded));
        assert_eq!((settings.most_intents, settings.most_records), (220, 550));
        assert_eq!(settings.directories.root, Path::new("/r"));
        config.feature_gates.insert("KubeletEnsureSecretPulledImages".to_owned(), false);
        let settings = ImageAccessSettings::new(&config, Path::new("/r"));
        assert_eq!(settings.verification, None);
    }
}
