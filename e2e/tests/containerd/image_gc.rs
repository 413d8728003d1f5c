//! Unused images go when their disk is too full, on a disk of their own.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::cri_proxy::CriProxy;
use e2e::node::Node;
use test_images::{Entry, Image, Layer, noise};
use testbed::{Options, wait};

const MIB: u64 = 1 << 20;

/// The disk: room for four images that share most of what they are.
const DISK: u64 = 128 * MIB;
/// What the images share, and what each has of its own. Both lie there twice: as they came, and
/// unpacked.
const SHARED: usize = 20 << 20;
const OWN: usize = 4 << 20;

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// How long a pass may take: several removals, after each of which the disk may be waited for.
const PASS: Duration = Duration::from_mins(1);

/// A node whose images lie on a small disk, with four more of them.
struct SmallNode {
    node: Node,
    proxy: Option<CriProxy>,
}

impl SmallNode {
    fn start() -> Result<Self> {
        let options = Options { containerd_disk: Some(DISK), ..Options::default() };
        let node = Node::start_with(&options)?;
        let directory = node.instance().dir().join("images");
        fs::create_dir_all(&directory)?;
        let content = noise("shared", SHARED);
        let shared = Layer::default().with("shared", Entry::File { content, mode: 0o644 });
        for name in NAMES {
            let image = Image::new(&format!("ferrolet.test/{name}:1"), shared.clone()).padded(OWN);
            let archive = image.write(&directory)?;
            let path = archive.to_str().context("a path that is text")?;
            let output = node.instance().ctr(&["images", "import", path])?;
            let stderr = String::from_utf8_lossy(&output.stderr);
            ensure!(output.status.success(), "import {name}: {stderr}");
            fs::remove_file(archive)?;
        }
        Ok(Self { node, proxy: None })
    }

    /// The same with something between the agent and the runtime.
    fn start_with_proxy() -> Result<Self> {
        let mut node = Self::start()?;
        node.proxy = Some(node.node.put_proxy_before_runtime()?);
        Ok(node)
    }

    fn proxy(&self) -> Result<&CriProxy> {
        self.proxy.as_ref().context("there is no proxy")
    }

    /// Capacity of the disk and what is available, as `df` tells.
    fn disk(&self) -> Result<(u64, u64)> {
        let args = ["-B1", "--output=size,avail", "/var/lib/containerd"];
        let table = self.node.run("df", &args)?;
        let line = table.lines().nth(1).context("df tells nothing")?;
        let numbers: Vec<u64> = line.split_whitespace().filter_map(|n| n.parse().ok()).collect();
        Ok((*numbers.first().context("no size")?, *numbers.get(1).context("nothing available")?))
    }

    /// Sets the thresholds such that the disk is too full as it is, and that about this much more must
    /// be available; answers how much must be.
    fn want(&self, more: u64) -> Result<u64> {
        let (capacity, available) = self.disk()?;
        let used = 100 - available * 100 / capacity;
        let low = used - (more * 100).div_ceil(capacity);
        self.node.configure(&format!(
            "imageMinimumGCAge: 1ms\nimageGCHighThresholdPercent: {used}\n\
             imageGCLowThresholdPercent: {low}\nruntimeRequestTimeout: 5s"
        ))?;
        Ok(capacity * (100 - low) / 100)
    }

    /// The names of all images, as containerd's own client tells.
    fn images(&self) -> Result<Vec<String>> {
        let output = self.node.instance().ctr(&["images", "ls", "-q"])?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let names = String::from_utf8_lossy(&output.stdout).into_owned();
        Ok(names
            .lines()
            .filter(|name| name.starts_with("ferrolet.test/"))
            .map(Into::into)
            .collect())
    }

    /// Which of the four are there.
    fn left(&self) -> Result<Vec<&'static str>> {
        let images = self.images()?;
        let is_there = |name: &&str| images.contains(&format!("ferrolet.test/{name}:1"));
        Ok(NAMES.into_iter().filter(is_there).collect())
    }

    fn use_times(&self) -> PathBuf {
        self.node.root_dir().join("ferrolet/state/image-use.json")
    }

    /// An agent sees all images, with room in plenty, and ends once the pods run: an image that nobody uses
    /// yet may go. The next one knows them already.
    fn let_an_agent_see_all(&mut self, pods: &[&str]) -> Result<String> {
        self.node.configure("imageMinimumGCAge: 1ms\nimageGCHighThresholdPercent: 99")?;
        self.node.start_agent()?;
        let path = self.use_times();
        // Four, and the three that every instance has.
        let seen = self.node.explained(wait::until("all images are noted down", PASS, || {
            let text = fs::read_to_string(&path).unwrap_or_default();
            let count = text.matches("firstDetected").count();
            Ok(if count == NAMES.len() + 3 { Ok(text) } else { Err(text) })
        }))?;
        for pod in pods {
            self.node.wait_running(pod)?;
        }
        self.node.kill_agent()?;
        Ok(seen)
    }

    fn wait_for_room(&self, wanted: u64) -> Result<()> {
        self.node.explained(wait::until("there is room", PASS, || {
            let (_, available) = self.disk()?;
            let left = self.left()?;
            let told = format!("{available} of {wanted} bytes, {left:?} left");
            Ok(if available >= wanted { Ok(()) } else { Err(told) })
        }))
    }

    /// Settings of the agent's own by which labels of images count; answers the flag that names them.
    fn pin_by_label(&self) -> Result<String> {
        let path = self.node.root_dir().with_file_name("own.yaml");
        let settings = "apiVersion: ferrolet/v1alpha1\nkind: FerroletConfiguration\n\
                        gc: {images: {pin: ['label:nobody.has.it']}}\n";
        fs::write(&path, settings)?;
        Ok(format!("--ferrolet-config={}", path.display()))
    }

    /// What a pass says that is made now, whether or not it goes well.
    fn pass_now(&self) -> String {
        self.node.ask(&["gc", "run"]).unwrap_or_else(|error| format!("{error:#}"))
    }

    /// A fault of a method was met.
    fn met(&self, method: &str) -> Result<()> {
        let spoilt = self.proxy()?.spoilt()?;
        ensure!(spoilt.get(method).is_some_and(|calls| *calls > 0), "no {method}: {spoilt:?}");
        self.proxy()?.clear()
    }

    /// Waits until the pass is over, whatever it came to.
    fn wait_for_pass(&self) -> Result<String> {
        self.node.wait_for_log(&["image garbage collection"])
    }
}

const POD: &str = "
apiVersion: v1
kind: Pod
metadata:
  name: web
spec:
  containers:
  - name: main
    image: ferrolet.test/workload:1
    args: [sleep, forever]
";

#[test]
fn a_disk_that_is_too_full_is_freed_to_the_low_threshold_and_no_further() -> Result<()> {
    let mut small = SmallNode::start()?;
    small.node.write_manifest("web.yaml", POD)?;
    for name in NAMES {
        let (name, other) =
            (format!("ferrolet.test/{name}:1"), format!("ferrolet.test/also-{name}:2"));
        let output = small.node.instance().ctr(&["images", "tag", &name, &other])?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let seen = small.let_an_agent_see_all(&["web"])?;
    ensure!(small.left()? == NAMES, "nothing goes while there is room");
    // By their sizes one image would do: 24 MiB. What goes with one is its own layer, 8 MiB.
    let wanted = small.want(12 * MIB)?;
    small.node.start_agent()?;
    small.wait_for_room(wanted)?;
    small.wait_for_pass()?;
    let left = small.left()?;
    ensure!(left.len() == 2, "{left:?} are left");
    // What is used stays, and what sandboxes are made from.
    small.node.wait_running("web")?;
    let images = small.images()?;
    for name in ["ferrolet.test/workload:1", "ferrolet.test/pause:1"] {
        ensure!(images.iter().any(|image| image == name), "{images:?}");
    }
    // The second agent knew since when the images are there.
    let now = fs::read_to_string(small.use_times())?;
    let first = |text: &str| {
        let at = text.find("firstDetected").unwrap_or_default();
        text[at..].chars().take(40).collect::<String>()
    };
    ensure!(seen.contains(&first(&now)), "{seen} became {now}");
    // Why an image went can be asked by each of its names.
    for name in NAMES.into_iter().filter(|name| !left.contains(name)) {
        for called in [format!("ferrolet.test/{name}:1"), format!("also-{name}:2")] {
            let why = small.node.ask(&["gc", "why", &called])?;
            ensure!(
                why.contains("was removed") && why.contains("disk-over-high-threshold"),
                "{why}"
            );
        }
    }
    small.node.stop()
}

#[test]
fn an_agent_that_is_killed_in_the_middle_of_a_pass_leaves_the_rest_to_the_next() -> Result<()> {
    let mut small = SmallNode::start_with_proxy()?;
    small.let_an_agent_see_all(&[])?;
    let wanted = small.want(12 * MIB)?;
    let before = small.images()?;
    small.proxy()?.fault("RemoveImage=hang skip=1")?;
    small.node.start_agent()?;
    let met = || {
        let (left, _) = small.proxy()?.left()?;
        Ok(if left.is_empty() { Ok(()) } else { Err(format!("{left:?}")) })
    };
    small.node.explained(wait::until("the second removal hangs", PASS, met))?;
    small.node.kill_agent()?;
    let left = small.images()?;
    ensure!(left.len() + 1 == before.len(), "one image went: {before:?} became {left:?}");
    small.proxy()?.clear()?;
    small.node.start_agent()?;
    small.wait_for_room(wanted)?;
    small.wait_for_pass()?;
    ensure!(small.left()?.len() >= 2, "{:?}", small.left()?);
    small.node.stop()
}

#[test]
fn calls_that_go_wrong_cost_no_image_and_the_next_pass_makes_room() -> Result<()> {
    let mut small = SmallNode::start_with_proxy()?;
    small.let_an_agent_see_all(&[])?;
    let wanted = small.want(12 * MIB)?;
    for fault in ["ListImages=unavailable", "ImageFsInfo=hang", "ImageFsInfo=deadline"] {
        small.proxy()?.fault(fault)?;
        small.node.start_agent()?;
        let said = small.wait_for_pass()?;
        ensure!(said.contains("failed once"), "{fault}: {said}");
        ensure!(small.left()? == NAMES, "{fault} costs an image");
        small.node.stop_agent()?;
    }
    // One removal fails; the others make up for it.
    small.proxy()?.fault("RemoveImage=unavailable")?;
    small.node.start_agent()?;
    let said = small.wait_for_pass()?;
    ensure!(said.contains("errors in image deletion"), "{said}");
    small.wait_for_room(wanted)?;
    ensure!(small.left()?.len() >= 2, "{:?}", small.left()?);
    small.node.stop()
}

#[test]
fn an_image_stays_while_the_runtime_does_not_tell_who_uses_it() -> Result<()> {
    let mut small = SmallNode::start_with_proxy()?;
    small.node.write_manifest("web.yaml", POD)?;
    small.let_an_agent_see_all(&["web"])?;
    let wanted = small.want(12 * MIB)?;
    let own = small.pin_by_label()?;
    // What an agent hears that has just started.
    for (method, expected) in [
        ("ContainerStatus", "look at the mounts of a container"),
        ("PodSandboxStatus", "look at the image of sandboxes"),
        // Any of them may have a label that pins it.
        ("ImageStatus", "Insufficient free disk space"),
        // Room is wanted, and nothing makes it.
        ("RemoveImage", "errors in image deletion"),
    ] {
        small.proxy()?.fault(&format!("{method}=unavailable times=all"))?;
        small.node.start_agent_with_flags(&[&own])?;
        let said = small.wait_for_pass()?;
        ensure!(said.contains(expected), "{method}: {said}");
        ensure!(small.left()? == NAMES, "{method} costs an image");
        small.met(method)?;
        if method != "RemoveImage" {
            small.node.stop_agent()?;
        }
    }
    // What an agent hears that runs.
    small.proxy()?.fault("ListContainers=unavailable times=all")?;
    let said = small.pass_now();
    ensure!(said.contains("list what containers use"), "{said}");
    ensure!(small.left()? == NAMES, "a list of containers that fails costs an image");
    small.met("ListContainers")?;
    // What sandboxes are made from is known by now.
    small.proxy()?.fault("ListPodSandbox=unavailable times=all")?;
    let said = small.pass_now();
    small.met("ListPodSandbox")?;
    small.wait_for_room(wanted).with_context(|| said)?;
    let images = small.images()?;
    for name in ["ferrolet.test/workload:1", "ferrolet.test/pause:1"] {
        ensure!(images.iter().any(|image| image == name), "{images:?}");
    }
    small.node.wait_running("web")?;
    small.node.stop()
}
