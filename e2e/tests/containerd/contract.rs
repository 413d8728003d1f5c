//! containerd, through the agent's client, passes the contract of the runtime port.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use std::{fs, io};

use anyhow::{Context as _, Result, bail, ensure};
use async_trait::async_trait;
use cri::{CriRuntime, Deadlines, Endpoint};
use e2e::registry::Registry;
use model::ids::{ObjectId, PodName, PodUid};
use model::ports::runtime::{Code, ImageService, Runtime};
use model::verdict::Subject;
use model::wanted::SandboxConfig;
use testbed::{Cache, Instance, Options};
use testkit::clock::VirtualClock;
use testkit::contract::runtime::{CASES, Harness};
use testkit::contract::{self, assert_kept};
use testkit::runtime::{MemoryRuntime, RemoteImage};
use testkit::wanted::removal;
use tokio::task::block_in_place;

const IMAGE: &str = "ferrolet.test/workload:1";
const DISPOSABLE: &str = "ferrolet.test/disposable:1";

/// How long a change may take inside of containerd.
const SOON: Duration = Duration::from_secs(20);
const PAUSE: Duration = Duration::from_millis(20);

/// containerd in its own instance, with a registry.
#[derive(Debug)]
struct Containerd {
    runtime: Arc<CriRuntime>,
    registry: Registry,
    pods: AtomicU32,
    instance: Instance,
}

impl Containerd {
    async fn start() -> Result<Self> {
        let instance = block_in_place(|| Instance::start(&Options::default()))?;
        let registry = block_in_place(|| Registry::start(&instance))?;
        let socket = instance.containerd_socket();
        let endpoint = Endpoint::parse(&format!("unix://{}", socket.display()))?;
        let runtime = Arc::new(CriRuntime::new(&endpoint, &endpoint, Deadlines::default()));
        let world = Self { runtime, registry, pods: AtomicU32::new(0), instance };
        world.forget(DISPOSABLE).await?;
        Ok(world)
    }

    fn ctr(&self, args: &[&str]) -> Result<()> {
        let output = block_in_place(|| self.instance.ctr(args))?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "ctr {}: {stderr}", args.join(" "));
        Ok(())
    }

    /// Removes an image with all its names, so that a pull downloads its layers.
    async fn forget(&self, name: &str) -> Result<()> {
        let image = self.runtime.image_status(name).await?.context("the image was imported")?;
        self.runtime.remove_image(&removal(Subject::Image(image.id))).await?;
        Ok(())
    }

    /// Imports an image. The CRI plugin sees it a moment later.
    async fn import(&self, file_name: &str, name: &str) -> Result<()> {
        let archive = Cache::from_env()?.parts().images_dir().join(file_name);
        self.ctr(&["images", "import", &archive.display().to_string()])?;
        let end = Instant::now() + SOON;
        while self.runtime.image_status(name).await?.is_none() {
            ensure!(Instant::now() < end, "{name} is not there {SOON:?} after its import");
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    }

    /// The log directory, which is readable from outside.
    fn logs(&self) -> PathBuf {
        self.instance.dir().join("pods")
    }
}

#[async_trait]
impl Harness for Containerd {
    fn runtime(&self) -> Runtime {
        Runtime::new(Arc::clone(&self.runtime))
    }

    fn image(&self) -> String {
        IMAGE.into()
    }

    fn absent_image(&self) -> String {
        self.registry.image("absent:1")
    }

    fn unused_pod(&self) -> (PodName, PodUid) {
        let number = self.pods.fetch_add(1, Ordering::Relaxed);
        let name = PodName::new("contract", format!("pod-{number}"));
        (name, format!("uid-{number}").into())
    }

    fn adapt(&self, config: &mut SandboxConfig) {
        config.log_directory = self.logs().join(config.pod_uid.as_str()).display().to_string();
    }

    async fn await_output(&self, log_path: &str, text: &str) -> Result<()> {
        let end = Instant::now() + SOON;
        loop {
            let log = match fs::read_to_string(log_path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
                other => other.with_context(|| format!("read {log_path}"))?,
            };
            if log.contains(text) {
                return Ok(());
            }
            ensure!(Instant::now() < end, "no {text:?} in {log_path} after {SOON:?}: {log}");
            tokio::time::sleep(PAUSE).await;
        }
    }

    async fn kill(&self, id: &ObjectId) -> bool {
        self.ctr(&["task", "kill", "--signal", "SIGKILL", &id.to_string()]).is_ok()
    }

    fn pullable_image(&self) -> Option<String> {
        Some(self.registry.image("disposable:1"))
    }

    async fn disposable_image(&self) -> Option<String> {
        self.import("disposable-1.tar", DISPOSABLE).await.expect("an archive can be imported");
        Some(DISPOSABLE.into())
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn containerd_passes_every_case_of_the_contract() -> Result<()> {
    let world = Containerd::start().await?;
    let reports = contract::runtime::run(&world).await;
    assert_eq!(reports.len(), CASES.len());
    assert_eq!(assert_kept(&reports), [], "these cases were skipped");
    let requests = world.registry.requests();
    for what in ["manifests/", "blobs/sha256:"] {
        let begin = format!("GET /v2/ferrolet/disposable/{what}");
        let fetched =
            requests.iter().any(|line| line.starts_with(&begin) && line.ends_with(" 200"));
        ensure!(fetched, "{what} was not fetched: {requests:#?}");
    }
    Ok(world.instance.stop()?)
}

/// An environment without a registry and without a spare image.
#[derive(Debug)]
struct MinimalHarness;

impl Harness for MinimalHarness {
    fn runtime(&self) -> Runtime {
        let runtime = MemoryRuntime::new(Arc::new(VirtualClock::new()));
        runtime.add_image(&RemoteImage::new(IMAGE));
        Runtime::new(Arc::new(runtime))
    }

    fn image(&self) -> String {
        IMAGE.into()
    }

    fn absent_image(&self) -> String {
        "ferrolet.test/absent:1".into()
    }

    fn unused_pod(&self) -> (PodName, PodUid) {
        (PodName::new("contract", "pod"), "uid".into())
    }
}

#[tokio::test]
async fn skipped_contract_case_is_noticed() {
    let mut reports = Vec::new();
    for case in CASES.iter().filter(|case| case.name.contains("image_is_")) {
        reports.push(case.run(&MinimalHarness).await);
    }
    let skipped = assert_kept(&reports);
    let expected = [
        ("pulled_image_is_present", "pull images"),
        ("removed_image_is_gone", "provide a disposable image"),
    ];
    assert_eq!(skipped, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn image_is_pulled_by_digest() -> Result<()> {
    let world = Containerd::start().await?;
    let (by_tag, runtime) = (world.registry.image("disposable:1"), &world.runtime);
    let reference = runtime.pull_image(&by_tag, None, None).await?;
    let image = runtime.image_status(&by_tag).await?.context("it was pulled")?;
    let [by_digest] = &image.repo_digests[..] else {
        bail!("one digest was expected: {image:?}");
    };
    ensure!(by_digest.starts_with(&world.registry.image("disposable@sha256:")), "{by_digest}");
    world.forget(&by_tag).await?;
    let again = runtime.pull_image(by_digest, None, None).await?;
    ensure!(again == reference, "{reference} became {again}");
    let image = runtime.image_status(by_digest).await?.context("it was pulled")?;
    ensure!(image.repo_tags.is_empty(), "a tag that was not requested: {image:?}");
    ensure!(image.repo_digests == [by_digest.clone()], "{image:?}");

    let absent = format!("{}{}", world.registry.image("disposable@sha256:"), "0".repeat(64));
    let error = runtime.pull_image(&absent, None, None).await.expect_err("no registry has it");
    ensure!(error.code == Code::NotFound, "{error:?}");
    Ok(world.instance.stop()?)
}
