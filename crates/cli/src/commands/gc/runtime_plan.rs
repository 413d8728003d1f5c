//! A plan from the state of the container runtime, without an agent.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::{Context, Result};
use async_trait::async_trait;
use config::{GoDuration, KubeletConfiguration};
use cri::{CriRuntime, Deadlines, Endpoint};
use ferrolet::collection::{check_lists, check_version, planned, policy};
use gc::containers::{ContainerGcParts, Removals, StopUnknown, container_gc};
use gc::decide::NoAgent;
use gc::decide::images::{KeptImage, Pins, Policy};
use gc::images::{ImageGcMetrics, ImageGcParts, ImageGcSettings, PodImages, image_gc};
use gc::policy::ContainerPolicy;
use jiff::SignedDuration;
use model::ids::{ContainerId, PodUid};
use model::image_claims::ImageClaims;
use model::log_layout::LogLayout;
use model::observed::{Container, ContainerStatus};
use model::panics::PanicGuard;
use model::ports::clock::WallClock;
use model::ports::events::{NodeEvent, NodeEvents};
use model::ports::runtime::Runtime;
use process::clock::SystemClock;
use prometheus::Registry;
use server::wire::{GcPlan, GcSource};

/// The limits of dead containers without an agent, as the flags of `ferrolet run`.
#[derive(Debug, Clone, clap::Args)]
pub struct DeadContainerLimits {
    /// With --container-runtime-endpoint: the minimum age of a dead container for removal.
    #[arg(
        long,
        value_name = "DURATION",
        default_value = "0s",
        allow_hyphen_values = true,
        requires = "container_runtime_endpoint"
    )]
    pub minimum_container_ttl_duration: GoDuration,
    /// With --container-runtime-endpoint: how many dead instances of each container are kept; negative
    /// for any number.
    #[arg(
        long,
        value_name = "COUNT",
        default_value_t = 1,
        value_parser = config::flags::integer,
        allow_negative_numbers = true,
        requires = "container_runtime_endpoint"
    )]
    pub maximum_dead_containers_per_container: i64,
    /// With --container-runtime-endpoint: how many dead containers are kept on the node; negative for
    /// any number.
    #[arg(
        long,
        value_name = "COUNT",
        default_value_t = -1,
        value_parser = config::flags::integer,
        allow_negative_numbers = true,
        requires = "container_runtime_endpoint"
    )]
    pub maximum_dead_containers: i64,
    /// With --container-runtime-endpoint: the directory of pod logs.
    #[arg(
        long,
        value_name = "DIR",
        default_value = "/var/log/pods",
        requires = "container_runtime_endpoint"
    )]
    pub pod_logs_dir: PathBuf,
    /// With --container-runtime-endpoint: the directory of symlinks to container logs.
    #[arg(
        long,
        value_name = "DIR",
        default_value = "/var/log/containers",
        requires = "container_runtime_endpoint"
    )]
    pub container_links_dir: PathBuf,
}

/// Settings that are not known here: the agent's defaults.
const ASSUMED: [&str; 5] = [
    "containerAgeBy",
    "minimumImageAge",
    "maximumImageAge",
    "imageHighThresholdPercent",
    "imageLowThresholdPercent",
];

/// What a pass would do if only the limits are applied. Changes nothing.
pub async fn plan(endpoint: &str, limits: &DeadContainerLimits) -> Result<GcPlan> {
    let endpoint = Endpoint::parse(endpoint)?;
    let min_age = SignedDuration::from_nanos(limits.minimum_container_ttl_duration.nanos());
    let per_container = limits.maximum_dead_containers_per_container;
    let containers = ContainerPolicy::new(min_age, per_container, limits.maximum_dead_containers)
        .context("--minimum-container-ttl-duration")?;
    let kubelet = KubeletConfiguration::default();
    let deadlines =
        Deadlines { request: kubelet.runtime_request_timeout.to_std(), ..Deadlines::default() };
    let runtime = Runtime::new(Arc::new(CriRuntime::new(&endpoint, &endpoint, deadlines)));
    let connecting =
        || format!("connect to the container runtime at {}", endpoint.path().display());
    check_version(&*runtime.info).await.with_context(connecting)?;
    check_lists(&runtime).await.with_context(connecting)?;
    let images = default_image_policy(&kubelet);
    let host = hostfs::Host::default();
    let (_, container_gc) = container_gc(ContainerGcParts {
        runtime: runtime.clone(),
        files: Arc::new(host.clone()),
        clock: Arc::new(SystemClock),
        pods: Arc::new(NoAgent),
        stop: Arc::new(Noop),
        events: Arc::new(Noop),
        logs: LogLayout {
            pod_logs: limits.pod_logs_dir.clone(),
            container_links: limits.container_links_dir.clone(),
        },
        policy: containers,
        removals: Removals::default(),
        panics: PanicGuard::default(),
    });
    let parts = ImageGcParts {
        runtime,
        disks: Arc::new(host.clone()),
        files: Arc::new(host),
        clock: Arc::new(SystemClock),
        events: Arc::new(Noop),
        claims: ImageClaims::default(),
        pods: Arc::new(Noop),
        metrics: ImageGcMetrics::new(&Registry::new()).context("count images")?,
        panics: PanicGuard::default(),
    };
    let mut reported = policy(&containers, &images);
    reported.0.push(("assumed".to_owned(), ASSUMED.to_vec().into()));
    let (pins, state) = (Pins::default(), PathBuf::new());
    let (image_gc, _) =
        image_gc(parts, ImageGcSettings { policy: images, pins, keep_pods: false, state });
    let generated_at = SystemClock.now();
    let (containers, images) = tokio::join!(container_gc.plan(), image_gc.plan_unobserved());
    let (items, warnings, problems) = planned(&containers, &images);
    Ok(GcPlan {
        generated_at,
        source: GcSource::Runtime,
        policy: reported,
        items,
        warnings,
        problems,
    })
}

fn default_image_policy(kubelet: &KubeletConfiguration) -> Policy {
    Policy {
        minimum_age: kubelet.image_minimum_gc_age.to_std(),
        maximum_age: kubelet.image_maximum_gc_age.to_std(),
        high_threshold: kubelet.image_gc_high_threshold_percent,
        low_threshold: kubelet.image_gc_low_threshold_percent,
        ..Policy::default()
    }
}

/// Stands in for the parts of an agent. A plan stops nothing and reports nothing.
#[derive(Debug)]
struct Noop;

#[async_trait]
impl StopUnknown for Noop {
    async fn stop(&self, _: &Container, _: &ContainerStatus) -> Result<(), String> {
        Err("a plan stops nothing".to_owned())
    }
}

impl NodeEvents for Noop {
    fn record(&self, _: NodeEvent) {}
}

impl PodImages for Noop {
    fn mounted(&self, _: &PodUid, _: &ContainerId) -> Option<Vec<String>> {
        None
    }

    fn named(&self) -> Option<Vec<KeptImage>> {
        None
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    #[test]
    fn assumed_settings_are_part_of_the_policy() {
        let reported = policy(&ContainerPolicy::default(), &Policy::default());
        let names: Vec<&str> = reported.0.iter().map(|(name, _)| name.as_str()).collect();
        assert!(ASSUMED.iter().all(|name| names.contains(name)), "{names:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn plan_fails_early_when_the_runtime_does_not_answer() {
        let place = tempfile::tempdir().unwrap();
        let socket = place.path().join("runtime.sock");
        let _silent_listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        let endpoint = format!("unix://{}", socket.display());
        let line = Line::parse_from(["gc", "--container-runtime-endpoint", &endpoint]);
        let error = plan(&endpoint, &line.limits).await.unwrap_err();
        let expected = format!(
            "connect to the container runtime at {}: the container runtime does not answer: requested its version 5s ago",
            socket.display()
        );
        assert_eq!(format!("{error:#}"), expected);
    }

    #[derive(clap::Parser)]
    struct Line {
        #[arg(long)]
        container_runtime_endpoint: String,
        #[command(flatten)]
        limits: DeadContainerLimits,
    }

    #[tokio::test]
    async fn invalid_configuration_is_reported_with_its_message() {
        let rows = [
            ("tcp://1.2.3.4:5", "0s", "endpoint \"tcp://1.2.3.4:5\": only unix sockets"),
            ("/nope.sock", "-1s", "--minimum-container-ttl-duration: invalid minimum"),
        ];
        for (endpoint, age, expected) in rows {
            let flags =
                ["--container-runtime-endpoint", endpoint, "--minimum-container-ttl-duration", age];
            let line = Line::parse_from(["gc"].iter().chain(&flags));
            let error = plan(&line.container_runtime_endpoint, &line.limits).await.unwrap_err();
            assert!(format!("{error:#}").starts_with(expected), "{error:#}");
        }
    }
}
