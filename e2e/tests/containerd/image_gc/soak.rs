//! Rules that lower levels test too: `make soak PART=end-to-end` runs these.
#![allow(clippy::wildcard_imports, reason = "tests of the module above, run elsewhere")]

use super::*;

#[test]
fn image_gc_continues_after_an_agent_killed_in_mid_pass() -> Result<()> {
    let mut small = SmallNode::start_with_proxy()?;
    small.let_an_agent_see_all(&[])?;
    small.want(12 * MIB)?;
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
    ensure!(left.len() + 1 == before.len(), "one image was removed: {before:?} became {left:?}");
    // It is on record although no agent runs.
    small.are_on_record(&before)?;
    small.proxy()?.clear()?;
    // The one that was removed may have freed so much that the disk is below the threshold.
    let wanted = small.want(4 * MIB)?;
    small.node.start_agent()?;
    small.wait_for_room(wanted)?;
    small.wait_for_pass()?;
    ensure!(small.left()?.len() >= 2, "{:?}", small.left()?);
    small.are_on_record(&before)?;
    small.node.stop()
}

#[test]
fn failed_calls_remove_no_image_and_the_next_pass_frees_space() -> Result<()> {
    let mut small = SmallNode::start_with_proxy()?;
    small.let_an_agent_see_all(&[])?;
    let wanted = small.want(12 * MIB)?;
    for fault in ["ListImages=unavailable", "ImageFsInfo=hang", "ImageFsInfo=deadline"] {
        small.proxy()?.fault(fault)?;
        small.node.start_agent()?;
        let output = small.wait_for_pass()?;
        ensure!(output.contains("failed once"), "{fault}: {output}");
        ensure!(small.left()? == NAMES, "an image was removed despite {fault}");
        small.node.stop_agent()?;
    }
    // One removal fails; the others compensate it.
    small.proxy()?.fault("RemoveImage=unavailable")?;
    small.node.start_agent()?;
    let output = small.wait_for_pass()?;
    ensure!(output.contains("errors in image deletion"), "{output}");
    small.wait_for_room(wanted)?;
    ensure!(small.left()?.len() >= 2, "{:?}", small.left()?);
    small.node.stop()
}

#[test]
fn image_stays_while_the_runtime_cannot_list_containers() -> Result<()> {
    let mut small = SmallNode::start_with_proxy()?;
    small.node.write_manifest("web.yaml", POD)?;
    small.let_an_agent_see_all(&["web"])?;
    let wanted = small.want(12 * MIB)?;
    let own = small.pin(&["label:missing.example"])?;
    // Errors of an agent that has just started.
    for (method, expected) in [
        ("ContainerStatus", "inspect the mounts of a container"),
        ("PodSandboxStatus", "inspect sandboxes for their image"),
        // Any of them may have a label that pins it.
        ("ImageStatus", "Insufficient free disk space"),
        // Space is needed, and no removal succeeds.
        ("RemoveImage", "errors in image deletion"),
    ] {
        small.proxy()?.fault(&format!("{method}=unavailable times=all"))?;
        small.node.start_agent_with_flags(&[&own])?;
        let output = small.wait_for_pass()?;
        ensure!(output.contains(expected), "{method}: {output}");
        ensure!(small.left()? == NAMES, "an image was removed although {method} failed");
        small.met(method)?;
        if method != "RemoveImage" {
            small.node.stop_agent()?;
        }
    }
    // Errors of a running agent.
    small.proxy()?.fault("ListContainers=unavailable times=all")?;
    let output = small.pass_now();
    ensure!(output.contains("list image uses of containers"), "{output}");
    ensure!(small.left()? == NAMES, "an image was removed although the list of containers failed");
    small.met("ListContainers")?;
    // The sandbox image is cached by now.
    small.proxy()?.fault("ListPodSandbox=unavailable times=all")?;
    let output = small.pass_now();
    small.met("ListPodSandbox")?;
    small.wait_for_room(wanted).with_context(|| output)?;
    let images = small.images()?;
    for name in ["ferrolet.test/workload:1", "ferrolet.test/pause:1"] {
        ensure!(images.iter().any(|image| image == name), "{images:?}");
    }
    small.node.wait_running("web")?;
    small.node.stop()
}
