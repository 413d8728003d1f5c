//! Sets the sysctls that a node requires, or refuses to start if they differ (`protectKernelDefaults`).

use config::KubeletConfiguration;
use hostfs::KernelSettings;
use tracing::{info, warn};

use crate::decide::kernel_settings::{WANTED, WrongKernel, to_set};

/// Sets sysctls that differ. A failure aborts the start, except in a user namespace.
pub(crate) fn set_kernel(
    config: &KubeletConfiguration,
    kernel: &KernelSettings,
    in_user_namespace: bool,
) -> Result<(), WrongKernel> {
    let found = WANTED.map(|(name, _)| (name, kernel.get(name).map_err(|error| error.to_string())));
    let mut failed = Vec::new();
    let may_fail = in_user_namespace && config.features().enabled("KubeletInUserNamespace");
    for (name, value) in to_set(&found, config.protect_kernel_defaults)? {
        match kernel.set(name, value) {
            Ok(()) => info!(name, value, "Sysctl set"),
            Err(error) if may_fail => {
                warn!(name, value, %error, "Cannot set sysctl in user namespace");
            }
            Err(error) => failed.push(format!("set {name} to {value}: {error}")),
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(WrongKernel(failed)) }
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "the kernel of a test is files")]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn write(place: &Path, name: &str, value: &str) {
        let path = place.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, value).unwrap();
    }

    fn kernel() -> (tempfile::TempDir, KernelSettings) {
        let place = tempfile::tempdir().unwrap();
        for (name, _) in WANTED {
            write(place.path(), name, "7\n");
        }
        let kernel = KernelSettings::below(place.path());
        (place, kernel)
    }

    fn all(kernel: &KernelSettings) -> Vec<i64> {
        WANTED.iter().map(|(name, _)| kernel.get(name).unwrap()).collect()
    }

    // behaviour: NODE-57, NODE-58
    #[test]
    fn sysctls_are_set_unless_protect_kernel_defaults_is_on() {
        let (_place, kernel) = kernel();
        let config = |protect| KubeletConfiguration {
            protect_kernel_defaults: protect,
            ..KubeletConfiguration::default()
        };
        let error = set_kernel(&config(true), &kernel, false).unwrap_err();
        assert_eq!(error.0.len(), WANTED.len(), "{error}");
        assert_eq!(all(&kernel), [7; 6]);
        set_kernel(&config(false), &kernel, false).unwrap();
        assert_eq!(all(&kernel), WANTED.map(|(_, value)| value));
        set_kernel(&config(true), &kernel, false).unwrap();
    }

    // behaviour: NODE-57
    #[test]
    fn sysctl_failure_aborts_start_except_in_user_namespace() {
        let (place, kernel) = kernel();
        // A file of the kernel that is read-only also for root.
        let path = place.path().join("vm/overcommit_memory");
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/proc/self/oom_score", &path).unwrap();
        let mut config = KubeletConfiguration::default();
        let error = set_kernel(&config, &kernel, false).unwrap_err().to_string();
        assert!(error.starts_with("set vm/overcommit_memory to 1: "), "{error}");
        set_kernel(&config, &kernel, true).unwrap_err();
        config.feature_gates.insert("KubeletInUserNamespace".to_owned(), true);
        set_kernel(&config, &kernel, true).unwrap();
        set_kernel(&config, &kernel, false).unwrap_err();
    }
}
