//! Garbage collection of images, with its connections to pods.

use std::sync::Arc;

use gc::decide::images::{Keeper, KeptImage, Pins, Policy};
use gc::images::{
    ImageGc, ImageGcMetrics, ImageGcParts, ImageGcSettings, ImageGcTask, ImagesLeft, PodImages,
    image_gc, mounted_images,
};
use k8s_openapi::api::core::v1::Pod;
use model::ids::{ContainerId, PodUid};
use model::image_claims::ImageClaims;
use model::panics::PanicGuard;
use model::seq::Seq;
use podspec::view;
use process::tasks::Tasks;
use status::store::StatusReader;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::wiring::{Ports, Settings};

/// The rules of image garbage collection.
#[derive(Debug, Clone, Default)]
pub struct ImageRules {
    /// When images are removed.
    pub policy: Policy,
    /// Images that are never removed.
    pub pins: Pins,
    /// Whether images of static and critical pods are kept.
    pub keep_static_and_critical: bool,
}

/// The images that pods use.
#[derive(Debug)]
pub(crate) struct PodsAndImages {
    pub(crate) cache: pleg::cache::Reader,
    pub(crate) statuses: StatusReader,
}

impl PodImages for PodsAndImages {
    fn mounted(&self, pod: &PodUid, container: &ContainerId) -> Option<Vec<String>> {
        let status = self.cache.get(pod).ok()?;
        if let Some(instance) = status.containers.iter().find(|one| one.id == *container) {
            return Some(mounted_images(instance));
        }
        // All instances of a container mount the same volumes; only the image that a
        // reference resolves to may change.
        let older = status.older.iter().find(|one| one.id == *container)?;
        let mounted = mounted_images(status.latest(&older.name)?);
        mounted.is_empty().then_some(mounted)
    }

    fn named(&self) -> Option<Vec<KeptImage>> {
        // Read first: later entries only add pods.
        let is_complete = self.statuses.sources_complete();
        let entries = self.statuses.entries();
        let kept = entries.values().flat_map(|entry| kept_images(&entry.pod)).collect();
        is_complete.then_some(kept)
    }
}

/// The images of a pod that is static or critical.
fn kept_images(pod: &Pod) -> Vec<KeptImage> {
    let keeper = if view::is_static(pod) {
        Keeper::Static
    } else if view::is_critical(pod) {
        Keeper::Critical
    } else {
        return Vec::new();
    };
    let containers = view::init_containers(pod).iter().chain(view::containers(pod));
    let ephemeral = view::ephemeral_containers(pod).into_iter().map(|container| container.image);
    let names = containers.map(|container| container.image.clone()).chain(ephemeral).flatten();
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let mounted = volumes.filter_map(|volume| volume.image.as_ref()?.reference.clone());
    let names = names.chain(mounted).filter(|name| !name.is_empty());
    let kept = names.map(|name| KeptImage { name, keeper, pod: view::pod_name(pod) });
    kept.collect()
}

/// The image collector, before its task runs.
#[derive(Debug)]
pub(crate) struct ImageCollection {
    /// Claims images that must not be removed.
    pub(crate) claims: ImageClaims,
    handle: ImageGc,
    task: ImageGcTask,
    cache: pleg::cache::Reader,
}

impl ImageCollection {
    pub(crate) fn new(
        settings: &Settings,
        ports: &Ports,
        pods: PodsAndImages,
        claims: ImageClaims,
        panics: &PanicGuard,
    ) -> Self {
        let cache = pods.cache.clone();
        let needs = ImageGcParts {
            runtime: ports.runtime.clone(),
            disks: Arc::clone(&ports.disks),
            files: Arc::clone(&ports.files),
            clock: Arc::clone(&ports.clock),
            events: Arc::clone(&ports.node_events),
            claims: claims.clone(),
            pods: Arc::new(pods),
            metrics: ImageGcMetrics::new(&ports.metrics)
                .expect("a new registry has no metrics yet"),
            panics: panics.clone(),
        };
        let ImageRules { policy, pins, keep_static_and_critical } = settings.images.clone();
        let keep_pods = keep_static_and_critical;
        let state = settings.state();
        let (handle, task) = image_gc(needs, ImageGcSettings { policy, pins, keep_pods, state });
        Self { claims, handle, task, cache }
    }

    /// The images that collections leave.
    pub(crate) fn left(&self) -> watch::Receiver<Option<Arc<ImagesLeft>>> {
        self.handle.left()
    }

    /// Starts the task; returns the handle for requests.
    pub(crate) fn start(self, tasks: &mut Tasks) -> ImageGc {
        let handle = self.handle.clone();
        tasks.spawn("image garbage collection", |stop| self.run(stop));
        handle
    }

    /// Runs the collector, once the runtime was listed: then the images that containers mount are known without a
    /// request for each.
    async fn run(self, stop: CancellationToken) {
        let no_pod = PodUid::from("");
        let listed = self.cache.newer_than(&no_pod, Seq::START);
        // Biased: a stop comes once.
        let stopped = tokio::select! {
            biased;
            () = stop.cancelled() => true,
            _ = listed => false,
        };
        if !stopped {
            self.task.run(stop).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::{
        Container, EphemeralContainer, ImageVolumeSource, PodSpec, Volume,
    };

    use super::*;

    const CRITICAL: i32 = 2_000_000_000;

    // behaviour: IMG-52
    #[test]
    fn images_of_static_and_critical_pods_are_kept() {
        let container =
            |image: &str| Container { image: Some(image.into()), ..Container::default() };
        let volume = |image: &str| Volume {
            image: Some(ImageVolumeSource { reference: Some(image.into()), ..<_>::default() }),
            ..Volume::default()
        };
        let pod = |source: &str, priority: i32| {
            let mut pod = Pod::default();
            let annotation = (podspec::annotations::CONFIG_SOURCE.to_owned(), source.to_owned());
            pod.metadata.annotations = Some([annotation].into());
            pod.spec = Some(PodSpec {
                priority: Some(priority),
                init_containers: Some(vec![container("first")]),
                ephemeral_containers: Some(vec![EphemeralContainer {
                    image: Some("third".to_owned()),
                    ..<_>::default()
                }]),
                containers: vec![container("second")],
                volumes: Some(vec![Volume::default(), volume("fourth")]),
                ..PodSpec::default()
            });
            pod
        };
        let rows = [
            ("file", 0, Some(Keeper::Static)),
            ("http", CRITICAL, Some(Keeper::Static)),
            ("api", CRITICAL, Some(Keeper::Critical)),
            ("api", CRITICAL - 1, None),
        ];
        for (source, priority, expected) in rows {
            let kept = kept_images(&pod(source, priority));
            let names: Vec<_> = kept.iter().map(|image| image.name.as_str()).collect();
            let wanted: &[&str] =
                if expected.is_some() { &["first", "second", "third", "fourth"] } else { &[] };
            assert_eq!(names, wanted, "{source} {priority}");
            assert!(kept.iter().all(|image| Some(image.keeper) == expected));
        }
    }
}
