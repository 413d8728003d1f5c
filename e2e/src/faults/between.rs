//! The actions of a round between the start and the end of the pods.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use test_images::{Entry, Image, Layer, noise};
use testbed::wait;

use super::{Fault, FaultyNode, IMPATIENT, LARGE, STAGE};
use crate::containerd::{self, RuntimeContainer};
use crate::node::NODE_NAME;
use crate::own_settings::own_settings;

/// An image that no pod uses.
const UNUSED: &str = "ferrolet.test/unused:1";
/// The pull timeout, far above the duration of a pull.
const PULL: &str = "4s";
/// Images that stay, used or not: pods of the next round need them, and no registry has them.
const PINNED: &str = "ferrolet.test/workload:*";

impl FaultyNode {
    /// Starts the agent; one that removes images does so soon after their last use.
    pub(super) fn start_agent(&mut self, removes_images: bool) -> Result<()> {
        let ages =
            if removes_images { "imageMinimumGCAge: 1ms\nimageMaximumGCAge: 1s" } else { "" };
        self.node.configure(&format!("{IMPATIENT}\n{ages}"))?;
        let settings =
            format!("images: {{pullTimeout: {PULL}}}\ngc: {{images: {{pin: ['{PINNED}']}}}}");
        let own = own_settings(&self.node, &settings)?;
        self.node.start_agent_with_flags(&[&own])
    }

    /// Resizes pods while these faults happen: they get the resources, and their processes keep running.
    pub(super) fn resize<'a>(
        &self,
        pods: &[&str],
        faults: impl Iterator<Item = &'a Fault>,
    ) -> Result<()> {
        let before: Vec<RuntimeContainer> =
            pods.iter().map(|pod| self.main(pod)).collect::<Result<_>>()?;
        self.add(faults)?;
        for pod in pods {
            self.node.write_manifest(&format!("{pod}.yaml"), &self.manifest(pod, LARGE))?;
        }
        self.wait_until_met()?;
        self.wait_until_done()?;
        for (pod, before) in pods.iter().zip(before) {
            let file = self.cpu_quota_file(before.pid)?;
            self.node.explained(wait::until(&format!("{pod} may use more"), STAGE, || {
                let quota = self.node.read(&file)?;
                let quota = quota.split_whitespace().next().unwrap_or_default().to_owned();
                Ok(if quota == (LARGE * 1000).to_string() { Ok(()) } else { Err(quota) })
            }))?;
            let after = self.main(pod)?;
            ensure!(after == before, "{before:?} became {after:?}");
        }
        self.proxy.clear()
    }

    /// The first container of a pod.
    pub(super) fn main(&self, pod: &str) -> Result<RuntimeContainer> {
        let pod = format!("{pod}-{NODE_NAME}");
        let mut containers = containerd::containers(self.node.instance())?;
        containers.retain(|one| one.pod == pod && one.name == "main" && one.is_alive());
        ensure!(containers.len() == 1, "main of {pod} runs as {containers:?}");
        containers.pop().context("it was counted")
    }

    /// The file that begins with the CPU quota of a process's container, in microseconds for each tenth of a second.
    fn cpu_quota_file(&self, pid: u32) -> Result<String> {
        let cgroups = self.node.run("cat", &[&format!("/proc/{pid}/cgroup")])?;
        let mut found = cgroups.lines().filter_map(|line| {
            let (_, path) = line.split_once("/kubepods/")?;
            let mut parts = line.splitn(3, ':');
            Some((parts.nth(1)?.to_owned(), path.to_owned()))
        });
        let is_cpu = |(controllers, _): &(String, String)| {
            controllers.is_empty() || controllers.split(',').any(|one| one == "cpu")
        };
        let found = found.find(is_cpu);
        let (controllers, path) = found.with_context(|| format!("not in kubepods: {cgroups}"))?;
        Ok(if controllers.is_empty() {
            format!("/sys/fs/cgroup/kubepods/{path}/cpu.max")
        } else {
            format!("/sys/fs/cgroup/cpu/kubepods/{path}/cpu.cfs_quota_us")
        })
    }

    /// Runs GC passes until an unused image is gone, while these faults happen.
    pub(super) fn collect_images<'a>(&self, faults: impl Iterator<Item = &'a Fault>) -> Result<()> {
        self.import_unused()?;
        self.add(faults)?;
        let pause = Duration::from_millis(500);
        self.node.explained(wait::every(pause, "the unused image is gone", STAGE, || {
            let gc_output =
                self.node.ferrolet(&["gc", "run"]).unwrap_or_else(|error| format!("{error:#}"));
            let is_there = self.has_image(UNUSED)?;
            let (left, _) = self.proxy.left()?;
            let over = !is_there && left.is_empty();
            Ok(if over { Ok(()) } else { Err(format!("{left:?} are left, {gc_output}")) })
        }))?;
        self.wait_until_done()?;
        ensure!(self.has_image("ferrolet.test/workload:1")?, "an image in use was removed");
        self.proxy.clear()
    }

    fn import_unused(&self) -> Result<()> {
        let content = noise(UNUSED, 4096);
        let layer = Layer::default().with("noise", Entry::File { content, mode: 0o644 });
        let archive = Image::new(UNUSED, layer).write(self.node.instance().dir())?;
        let path = archive.to_str().context("a path that is text")?;
        let output = self.node.instance().ctr(&["images", "import", path])?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "import {UNUSED}: {stderr}");
        Ok(())
    }

    fn has_image(&self, name: &str) -> Result<bool> {
        Ok(containerd::images(self.node.instance())?.iter().any(|image| image == name))
    }
}
