//! Image GC on a small disk.

mod soak;

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::containerd;
use e2e::cri_proxy::CriProxy;
use e2e::node::Node;
use e2e::own_settings::own_settings;
use serde_json::Value;
use test_images::{Entry, Image, Layer, noise};
use testbed::{Options, wait};

const MIB: u64 = 1 << 20;

/// The disk: room for four images that share most of their layers.
const DISK: u64 = 128 * MIB;
/// The size of the shared layer, and of the own layer of each image. Both are stored twice: compressed and unpacked.
const SHARED: usize = 20 << 20;
const OWN: usize = 4 << 20;

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// The timeout of a pass: several removals, each of which may wait for the disk.
const PASS: Duration = Duration::from_mins(1);

/// The full name of a test image.
fn tagged(name: &str) -> String {
    format!("ferrolet.test/{name}:1")
}

/// A node whose images are on a small disk, with four more of them.
struct SmallNode {
    node: Node,
    proxy: Option<CriProxy>,
}

impl SmallNode {
    /// Only with the images of every instance.
    fn bare() -> Result<Self> {
        let options = Options { containerd_disk: Some(DISK), ..Options::default() };
        Ok(Self { node: Node::start_with(&options)?, proxy: None })
    }

    fn start() -> Result<Self> {
        let small = Self::bare()?;
        let content = noise("shared", SHARED);
        let shared = Layer::default().with("shared", Entry::File { content, mode: 0o644 });
        for name in NAMES {
            small.import(&Image::new(&tagged(name), shared.clone()).padded(OWN))?;
        }
        Ok(small)
    }

    fn import(&self, image: &Image) -> Result<()> {
        let directory = self.node.instance().dir().join("images");
        fs::create_dir_all(&directory)?;
        let archive = image.write(&directory)?;
        self.ctr(&["images", "import", archive.to_str().context("a path that is text")?])?;
        Ok(fs::remove_file(archive)?)
    }

    fn ctr(&self, args: &[&str]) -> Result<String> {
        let output = self.node.instance().ctr(args)?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{args:?}: {stderr}");
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// With a proxy between the agent and the runtime.
    fn start_with_proxy() -> Result<Self> {
        let mut node = Self::start()?;
        node.proxy = Some(node.node.put_proxy_before_runtime()?);
        Ok(node)
    }

    fn proxy(&self) -> Result<&CriProxy> {
        self.proxy.as_ref().context("there is no proxy")
    }

    /// Capacity and available bytes of the disk, as `df` reports them.
    fn disk(&self) -> Result<(u64, u64)> {
        let args = ["-B1", "--output=size,avail", "/var/lib/containerd"];
        let table = self.node.run("df", &args)?;
        let line = table.lines().nth(1).context("df has no output")?;
        let numbers: Vec<u64> = line.split_whitespace().filter_map(|n| n.parse().ok()).collect();
        Ok((*numbers.first().context("no size")?, *numbers.get(1).context("nothing available")?))
    }

    /// Sets the thresholds so that the disk is above the high one, and this many more bytes must be available; returns
    /// the bytes that must be available.
    fn want(&self, more: u64) -> Result<u64> {
        let ((capacity, _), used) = (self.disk()?, self.used()?);
        let low = used - (more * 100).div_ceil(capacity);
        self.node.configure(&format!(
            "imageMinimumGCAge: 1ms\nimageGCHighThresholdPercent: {used}\n\
             imageGCLowThresholdPercent: {low}\nruntimeRequestTimeout: 5s"
        ))?;
        Ok(capacity * (100 - low) / 100)
    }

    /// The usage of the disk in per cent, rounded up.
    fn used(&self) -> Result<u64> {
        let (capacity, available) = self.disk()?;
        Ok(100 - available * 100 / capacity)
    }

    /// The names of all images of the testbed.
    fn images(&self) -> Result<Vec<String>> {
        let mut images = containerd::images(self.node.instance())?;
        images.retain(|name| name.starts_with("ferrolet.test/"));
        Ok(images)
    }

    /// The remaining ones of the four images.
    fn left(&self) -> Result<Vec<&'static str>> {
        let images = self.images()?;
        let is_there = |name: &&str| images.contains(&tagged(name));
        Ok(NAMES.into_iter().filter(is_there).collect())
    }

    fn use_times(&self) -> PathBuf {
        self.node.root_dir().join("ferrolet/state/image-use.json")
    }

    /// An agent observes all images while there is enough space, and stops once the pods run: unused images may be
    /// removed. The next agent has their records.
    fn let_an_agent_see_all(&mut self, pods: &[&str]) -> Result<String> {
        self.node.configure("imageMinimumGCAge: 1ms\nimageGCHighThresholdPercent: 99")?;
        self.let_an_agent_see(NAMES.len(), pods)
    }

    /// Like `let_an_agent_see_all`, for this many images in addition to those of every instance, with the agent's current
    /// configuration.
    fn let_an_agent_see(&mut self, images: usize, pods: &[&str]) -> Result<String> {
        self.node.start_agent()?;
        let path = self.use_times();
        let seen = self.node.explained(wait::until("all images are recorded", PASS, || {
            let text = fs::read_to_string(&path).unwrap_or_default();
            let count = text.matches("firstDetected").count();
            Ok(if count == images + 3 { Ok(text) } else { Err(text) })
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
            let state = format!("{available} of {wanted} bytes, {left:?} left");
            Ok(if available >= wanted { Ok(()) } else { Err(state) })
        }))
    }

    /// Writes settings of our agent that pin images; returns the flag for them.
    fn pin(&self, pins: &[&str]) -> Result<String> {
        own_settings(&self.node, &format!("gc: {{images: {{pin: {pins:?}}}}}"))
    }

    /// The output of a pass that is requested now, even if it fails.
    fn pass_now(&self) -> String {
        self.node.ferrolet(&["gc", "run"]).unwrap_or_else(|error| format!("{error:#}"))
    }

    /// Checks that the journal has the removal of each missing one of these images, for lack of space.
    fn are_on_record(&self, before: &[String]) -> Result<()> {
        let left = self.images()?;
        for gone in before.iter().filter(|name| !left.contains(name)) {
            let why = self.node.ferrolet(&["gc", "why", gone])?;
            let rule = "disk-over-high-threshold";
            ensure!(why.contains("was removed") && why.contains(rule), "{gone}: {why}");
        }
        Ok(())
    }

    /// Checks that a fault of a method was met.
    fn met(&self, method: &str) -> Result<()> {
        let spoilt = self.proxy()?.spoilt()?;
        ensure!(spoilt.get(method).is_some_and(|calls| *calls > 0), "no {method}: {spoilt:?}");
        self.proxy()?.clear()
    }

    /// Waits for the end of the pass, successful or not.
    fn wait_for_pass(&self) -> Result<String> {
        self.node.wait_for_log(&["Image garbage collection"])
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

/// The default thresholds of a node.
const HIGH: u64 = 85;
const LOW: u64 = 80;

/// Images that share nearly all layers with removable ones and are kept: by a pod, by the runtime, and by two pins
/// of our agent.
const KEPT: [(&str, &str); 4] = [
    ("used", "image-in-use"),
    ("pinned", "image-pinned"),
    ("by-name", "pinned-by-name"),
    ("by-label", "pinned-by-label"),
];
const PINS: [&str; 2] = ["ferrolet.test/by-n*", "label:test.keep=yes"];

/// Images that share the layer of their program.
struct Family {
    shared: Layer,
}

impl Family {
    /// The size of their shared layer, without the program.
    const SHARED: usize = 16 << 20;
    /// The size of the own layer of the kept images.
    const LITTLE: usize = 64 << 10;

    fn new(small: &mut SmallNode) -> Result<Self> {
        small.node.write_manifest("web.yaml", POD)?;
        small.node.start_agent()?;
        let program = small.node.instance().dir().join("workload");
        let (pid, path) = (small.node.wait_running("web")?.pid, program.display().to_string());
        small.node.run("cp", &[&format!("/proc/{pid}/exe"), &path])?;
        small.node.kill_agent()?;
        let file = |content, mode| Entry::File { content, mode };
        let shared = Layer::default()
            .with("workload", file(fs::read(program)?, 0o755))
            .with("shared", file(noise("family", Self::SHARED), 0o644));
        Ok(Self { shared })
    }

    fn member(&self, name: &str) -> Image {
        Image::new(&tagged(name), self.shared.clone()).entrypoint(&["/workload"])
    }

    /// Four unused images, and those that always stay.
    fn import(&self, small: &SmallNode) -> Result<()> {
        for name in NAMES {
            small.import(&self.member(name).padded(OWN))?;
            let other = format!("ferrolet.test/also-{name}:2");
            small.ctr(&["images", "tag", &tagged(name), &other])?;
        }
        for (name, _) in KEPT {
            let image = self.member(name).padded(Self::LITTLE);
            let keep = if name == "by-label" { "yes" } else { "no" };
            small.import(&image.label("test.keep", keep))?;
        }
        let pin = "io.cri-containerd.pinned=pinned";
        small.ctr(&["images", "label", &tagged("pinned"), pin])?;
        small.node.write_manifest("user.yaml", &pod("user", "used"))
    }
}

/// Adds images until the disk is well above the high threshold; returns their number. They share nothing: a repeated
/// layer is stored twice for a moment.
fn fill(small: &SmallNode) -> Result<usize> {
    for number in 0.. {
        if small.used()? >= HIGH + 4 {
            return Ok(number);
        }
        let name = tagged(&format!("new{number}"));
        let file = Entry::File { content: noise(&name, OWN), mode: 0o644 };
        small.import(&Image::new(&name, Layer::default().with("new", file)))?;
    }
    unreachable!("there is no end of numbers");
}

fn pod(name: &str, image: &str) -> String {
    POD.replace("name: web", &format!("name: {name}")).replace("workload:1", &format!("{image}:1"))
}

/// Checks the journal's record of an image that was removed for lack of space.
fn was_needed(small: &SmallNode, called: &str, wanted: u64) -> Result<()> {
    let why: Value =
        serde_json::from_str(&small.node.ferrolet(&["gc", "why", called, "-o", "json"])?)?;
    let entry = &why["entries"][0];
    let of = |name: &str| entry["detail"][name].as_u64().unwrap_or_default();
    ensure!(entry["rule"] == "disk-over-high-threshold", "{why:#}");
    ensure!(entry["outcome"] == "removed", "{why:#}");
    ensure!(of("usedPercent") > HIGH && of("highThresholdPercent") == HIGH, "{why:#}");
    ensure!(of("lowThresholdPercent") == LOW && of("availableWanted") == wanted, "{why:#}");
    ensure!(of("availableBefore") < wanted, "there was enough: {why:#}");
    Ok(())
}

/// The rule by which an image stays, or would be removed.
fn rule_of(small: &SmallNode, name: &str) -> Result<String> {
    let plan: Value = serde_json::from_str(&small.node.ferrolet(&["gc", "plan", "-o", "json"])?)?;
    let mut items = plan["items"].as_array().into_iter().flatten();
    let item = items.find(|item| item["name"] == tagged(name));
    let item = item.with_context(|| format!("no {name} in {plan:#}"))?;
    Ok(item["rule"].as_str().unwrap_or_default().to_owned())
}

// behaviour: IMG-6, IMG-10, IMG-28, IMG-40, IMG-44, IMG-50, IMG-51
#[test]
fn image_gc_frees_a_full_disk_down_to_the_low_threshold() -> Result<()> {
    let mut small = SmallNode::bare()?;
    small.node.configure("imageMinimumGCAge: 1ms")?;
    Family::new(&mut small)?.import(&small)?;
    let seen = small.let_an_agent_see(NAMES.len() + KEPT.len(), &["web", "user"])?;
    ensure!(small.used()? < HIGH, "there should be space: {:?}", small.disk()?);
    ensure!(small.left()? == NAMES, "nothing is removed while there is space");
    let new = fill(&small)?;
    let (capacity, before) = small.disk()?;
    let wanted = capacity * (100 - LOW) / 100;
    println!("{new} more images; {before} bytes of {capacity} are available, {wanted} should be");
    let own = small.pin(&PINS)?;
    small.node.start_agent_with_flags(&[&own])?;
    small.wait_for_room(wanted)?;
    small.wait_for_pass()?;
    let (used, (_, available)) = (small.used()?, small.disk()?);
    ensure!(used <= LOW, "{used} % are used");
    // By the reported sizes one image would be enough. Its removal frees only its own layer, compressed and unpacked.
    let one = 2 * OWN as u64 + MIB;
    ensure!(available < wanted + one, "{available} bytes are available, {wanted} would be enough");
    let left = small.left()?;
    ensure!((1..=2).contains(&left.len()), "{left:?} are left");
    // `image why` works with each of its names.
    for name in NAMES.into_iter().filter(|name| !left.contains(name)) {
        for called in [tagged(name), format!("also-{name}:2")] {
            was_needed(&small, &called, wanted)?;
        }
    }
    // Images in use, pinned images, the sandbox image and new images stay.
    let images = small.images()?;
    for name in (0..new).map(|number| format!("new{number}")).chain(["pause".to_owned()]) {
        ensure!(images.contains(&tagged(&name)), "{name} is not in {images:?}");
    }
    for (name, rule) in KEPT {
        ensure!(rule_of(&small, name)? == rule, "{name} is kept by {}", rule_of(&small, name)?);
    }
    // The last agent had the first-seen times of the agent before it.
    let now = fs::read_to_string(small.use_times())?;
    let at = seen.find("firstDetected").context("when images were first seen")?;
    let first: String = seen[at..].chars().take(40).collect();
    ensure!(now.contains(&first), "{seen} became {now}");
    // Their shared layer is complete.
    small.node.write_manifest("next.yaml", &pod("next", left[0]))?;
    for pod in ["web", "user", "next"] {
        small.node.wait_running(pod)?;
    }
    small.node.stop()
}
