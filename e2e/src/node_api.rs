//! A node that serves its API, and the real kubectl as a client of its API server.

use std::io::Write as _;
use std::process::{Child, Command, Output, Stdio};

use anyhow::{Context, Result, ensure};
use model::ports::runtime::ImageService as _;
use serde_json::{Value, json};
use testbed::{Cache, ControlPlaneOptions, Options, wait};

use crate::agent::Agent;
use crate::cluster_node::{ClusterNode, NAMESPACE, pod};
use crate::https::file;
use crate::node::{NODE_NAME, Node, PATIENCE};
use crate::plane::Plane;

/// The image with the programs that kubectl runs in containers.
pub const TOOLS: &str = "ferrolet.test/tools:1";

/// The timeout of kubectl in seconds. It stays in the process group of its terminal, which sends it signals.
const LONGEST: &str = "300";

/// Starts a cluster whose node serves its API; its agent gets these flags too.
pub fn start(agent: Agent, more: &[&str]) -> Result<ClusterNode> {
    let options = ControlPlaneOptions::default();
    let mut cluster = ClusterNode::start_with(&Options::default(), &options, agent)?;
    serve(&mut cluster, more)?;
    Ok(cluster)
}

/// Starts the agent of a cluster's node with its API port and these additional flags.
pub fn serve(cluster: &mut ClusterNode, more: &[&str]) -> Result<()> {
    let authority = format!("--client-ca-file={}", file(cluster, "ca.crt"));
    cluster.start_agent_with_flags(&[&["--enable-server=true", &authority], more].concat())?;
    cluster.wait_node_ready()?;
    // The API server connects to the node's address, which may be in the node's status only after it is ready.
    cluster.wait_for(&format!("/api/v1/nodes/{NODE_NAME}"), "the node has an address", |node| {
        let addresses = node?["status"]["addresses"].as_array()?;
        addresses.iter().any(|address| address["type"] == "InternalIP").then_some(())
    })
}

/// Imports the image with tools.
pub fn import_tools(node: &Node) -> Result<()> {
    let directory = Cache::from_env()?.parts().images_dir().join(test_images::EXTRA);
    let archive = directory.join("tools-1.tar").display().to_string();
    let output = node.instance().ctr(&["images", "import", &archive])?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "import {archive}: {stderr}");
    // The CRI plugin sees it a moment later.
    wait::until("the runtime has the tools", PATIENCE, || {
        let found = node.with_runtime(async |runtime| Ok(runtime.image_status(TOOLS).await?));
        Ok(found?.map(drop).ok_or_else(|| "it has not".to_owned()))
    })
}

/// Creates a pod with the tools, and waits until it is ready.
pub fn make_tools(cluster: &ClusterNode, name: &str) -> Result<Value> {
    let mut tools = pod(name, &["sleep", "forever"]);
    tools["spec"]["containers"][0]["image"] = TOOLS.into();
    cluster.api().create(crate::cluster_node::PODS, &tools)?;
    cluster.wait_ready(&ClusterNode::pod_path(name))
}

/// Creates a pod that prints its attached standard input, once.
pub fn make_reader(cluster: &ClusterNode, name: &str) -> Result<Value> {
    let mut reader = pod(name, &["copy"]);
    reader["spec"]["restartPolicy"] = "Never".into();
    let container = &mut reader["spec"]["containers"][0];
    container["image"] = TOOLS.into();
    container["stdin"] = json!(true);
    container["stdinOnce"] = json!(true);
    cluster.api().create(crate::cluster_node::PODS, &reader)?;
    cluster.wait_ready(&ClusterNode::pod_path(name))
}

/// The command line of kubectl in the namespace of the tests, for a program outside of the instance.
pub fn kubectl_words(plane: &Plane, args: &[&str]) -> Result<Vec<String>> {
    let program = Cache::from_env()?.parts().program("kubectl").display().to_string();
    let kubeconfig = plane.control_plane().admin_kubeconfig().display().to_string();
    let fixed =
        ["timeout", "--foreground", LONGEST, &program, "--kubeconfig", &kubeconfig, "--namespace"];
    let words = fixed.into_iter().chain([NAMESPACE]).chain(args.iter().copied());
    Ok(words.map(str::to_owned).collect())
}

fn kubectl_command(plane: &Plane, args: &[&str]) -> Result<Command> {
    let words = kubectl_words(plane, args)?;
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Ok(command)
}

/// Runs kubectl outside of the instance.
pub fn kubectl_output(plane: &Plane, args: &[&str]) -> Result<Output> {
    kubectl_command(plane, args)?.output().context("run kubectl")
}

/// Runs kubectl outside of the instance, and returns what it printed. It must succeed.
pub fn kubectl(plane: &Plane, args: &[&str]) -> Result<String> {
    printed(args, &kubectl_output(plane, args)?)
}

/// Like `kubectl`, with this on its standard input.
pub fn kubectl_with_input(plane: &Plane, args: &[&str], input: &str) -> Result<String> {
    let mut child = kubectl_command(plane, args)?.stdin(Stdio::piped()).spawn()?;
    child.stdin.take().context("its standard input")?.write_all(input.as_bytes())?;
    printed(args, &child.wait_with_output()?)
}

/// Starts kubectl outside of the instance, with a pipe to each of its streams. It is killed when the value is dropped.
pub fn spawn_kubectl(plane: &Plane, args: &[&str]) -> Result<Running> {
    let mut command = kubectl_command(plane, args)?;
    Ok(Running(command.stdin(Stdio::piped()).stderr(Stdio::inherit()).spawn()?))
}

fn printed(args: &[&str], output: &Output) -> Result<String> {
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "kubectl {args:?}: {}: {stderr}", output.status);
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A program that is killed when it is dropped.
#[derive(Debug)]
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        // `timeout` forwards the signal; the program may have ended already.
        if let Some(pid) = i32::try_from(self.0.id()).ok().and_then(rustix::process::Pid::from_raw)
        {
            _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        }
        _ = self.0.wait();
    }
}
