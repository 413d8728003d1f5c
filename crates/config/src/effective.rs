//! Values that depend on more than one field.

use std::path::Path;
use std::time::Duration;

use crate::as_written::AsWritten;
use crate::cpu_list::cpu_count;
use crate::defaults::MAX_CONTAINER_RESTART_PERIOD;
use crate::fields::{KubeletConfiguration, ReservedResource};
use crate::paths::clean;

/// The back-off of a failing container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RestartBackOff {
    /// The initial delay.
    pub initial: Duration,
    /// The maximum delay.
    pub max: Duration,
}

impl KubeletConfiguration {
    /// The socket of the image service.
    pub fn image_endpoint(&self) -> &str {
        if self.image_service_endpoint.is_empty() {
            &self.container_runtime_endpoint
        } else {
            &self.image_service_endpoint
        }
    }

    /// Sets the path of the certificate that the server generates if none is configured.
    pub fn settle_server_certificate(&mut self, directory: &Path) {
        let given = [&self.tls_cert_file, &self.tls_private_key_file];
        if !self.server_tls_bootstrap && given.iter().all(|path| path.is_empty()) {
            let path = |name: &str| clean(&directory.join(name)).to_string_lossy().into_owned();
            self.tls_cert_file = path("kubelet.crt");
            self.tls_private_key_file = path("kubelet.key");
        }
    }

    /// The number of CPUs that are reserved by list, if any are; then amounts of CPU have no effect.
    pub fn reserved_cpus(&self) -> Option<usize> {
        cpu_count(&self.reserved_system_cpus)
    }

    /// Replaces reserved amounts by reserved CPUs: the amount for Kubernetes is part of them, and the system's is
    /// their number. An amount that is not configured is not added, as in the kubelet.
    pub fn settle_reserved_cpus(&mut self) {
        let Some(count) = self.reserved_cpus() else {
            return;
        };
        self.kube_reserved.remove(&ReservedResource::Cpu);
        if !self.system_reserved.is_empty() {
            let count = AsWritten::known(&count.to_string());
            self.system_reserved.insert(ReservedResource::Cpu, count);
        }
    }

    /// The configuration without the headers of the HTTP source, which may contain secrets: safe to
    /// log.
    #[must_use]
    pub fn masked(&self) -> Self {
        let mut masked = self.clone();
        for values in masked.static_pod_url_header.values_mut() {
            *values = vec!["<masked>".to_owned()];
        }
        masked
    }

    /// The back-off of a failing container.
    pub fn restart_back_off(&self) -> RestartBackOff {
        let reduced = self.features().enabled("ReduceDefaultCrashLoopBackOffDecay");
        let (initial, max) = if reduced {
            (Duration::from_secs(1), Duration::from_mins(1))
        } else {
            (Duration::from_secs(10), MAX_CONTAINER_RESTART_PERIOD.to_std())
        };
        // An explicit value takes precedence over both.
        let max = self.crash_loop_back_off.max_container_restart_period.map_or(max, Duration::from);
        RestartBackOff { initial: initial.min(max), max }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::GoDuration;

    #[test]
    fn image_endpoint_defaults_to_the_runtime_endpoint() {
        let mut config = KubeletConfiguration::default();
        assert_eq!(config.image_endpoint(), "unix:///run/containerd/containerd.sock");
        config.image_service_endpoint = "unix:///run/images.sock".to_owned();
        assert_eq!(config.image_endpoint(), "unix:///run/images.sock");
    }

    #[test]
    fn server_without_certificate_generates_one() {
        let settled = |cert: &str, bootstrap| {
            let mut config = KubeletConfiguration {
                tls_cert_file: cert.to_owned(),
                server_tls_bootstrap: bootstrap,
                ..KubeletConfiguration::default()
            };
            config.settle_server_certificate(Path::new("/pki"));
            (config.tls_cert_file, config.tls_private_key_file)
        };
        let pair = |cert: &str, key: &str| (cert.to_owned(), key.to_owned());
        assert_eq!(settled("", false), pair("/pki/kubelet.crt", "/pki/kubelet.key"));
        assert_eq!(settled("/c", false), pair("/c", ""));
        assert_eq!(settled("", true), pair("", ""));
    }

    #[test]
    fn headers_are_not_logged() {
        let mut config = KubeletConfiguration::default();
        config
            .static_pod_url_header
            .insert("Authorization".to_owned(), vec!["Bearer 123".to_owned()]);
        let logged = format!("{:?}", config.masked());
        assert!(logged.contains("Authorization") && !logged.contains("Bearer 123"));
    }

    #[test]
    fn maximum_back_off_also_limits_the_initial_one() {
        for (reduced, period, initial, max) in [
            (false, None, 10, 300),
            (false, Some(300), 10, 300),
            (false, Some(5), 5, 5),
            (true, None, 1, 60),
            (true, Some(300), 1, 300),
        ] {
            let mut config = KubeletConfiguration::default();
            config.feature_gates.insert("ReduceDefaultCrashLoopBackOffDecay".to_owned(), reduced);
            config.crash_loop_back_off.max_container_restart_period =
                period.map(GoDuration::from_secs);
            let expected = RestartBackOff {
                initial: Duration::from_secs(initial),
                max: Duration::from_secs(max),
            };
            assert_eq!(config.restart_back_off(), expected, "{reduced} {period:?}");
        }
    }
}
