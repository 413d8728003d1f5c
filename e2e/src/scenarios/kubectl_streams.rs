//! kubectl commands that stream data both ways, on a node that serves its API.

use std::fs;
use std::io::{Read as _, Write as _};

use anyhow::{Context, Result, ensure};

use crate::cluster_node::{ClusterNode, NAMESPACE};
use crate::node_api::{kubectl, kubectl_with_input, kubectl_words, make_reader, spawn_kubectl};
use crate::terminal::Terminal;

/// `kubectl attach` sends input to the container and prints its output, until the container ends.
pub fn attach(cluster: &ClusterNode) -> Result<()> {
    make_reader(cluster, "reader")?;
    let printed = kubectl_with_input(cluster, &["attach", "-i", "reader"], "one\ntwo\n")?;
    ensure!(printed.ends_with("one\ntwo\n"), "{printed:?}");
    cluster.wait_over(&ClusterNode::pod_path("reader"))?;
    Ok(())
}

/// A program in a container sees each size of the terminal that kubectl runs in.
pub fn resize(cluster: &ClusterNode, pod: &str) -> Result<()> {
    let words = kubectl_words(cluster, &["exec", "-it", pod, "--", "/workload", "terminal"])?;
    let mut terminal = Terminal::start(&words, 30, 100)?;
    for (rows, columns) in [(30, 100), (41, 132), (7, 20)] {
        terminal.resize(rows, columns)?;
        terminal.wait_for(&format!("{rows} rows, {columns} columns"))?;
    }
    // The end of the input, as typed.
    terminal.write("\u{4}")?;
    let status = terminal.wait_end()?;
    ensure!(status.success(), "{status}");
    Ok(())
}

/// A file of this size is the same after it was copied to a container and back.
pub fn copy(cluster: &ClusterNode, pod: &str, size: usize) -> Result<()> {
    let directory = tempfile::tempdir().context("make a directory")?;
    let (here, back) = (directory.path().join("here"), directory.path().join("back"));
    let mut content = Vec::new();
    fs::File::open("/dev/urandom")?.take(u64::try_from(size)?).read_to_end(&mut content)?;
    fs::write(&here, &content)?;
    let there = format!("{NAMESPACE}/{pod}:/tmp/there");
    kubectl(cluster, &["cp", &here.display().to_string(), &there])?;
    kubectl(cluster, &["cp", &there, &back.display().to_string()])?;
    ensure!(fs::read(&back)? == content, "the copy of {size} bytes differs");
    Ok(())
}

/// A debug container is added to a running pod and attached to.
pub fn debug(cluster: &ClusterNode, pod: &str, image: &str) -> Result<()> {
    let args =
        ["debug", pod, "-i", "--quiet", "--image", image, "--target", "main", "-c", "doctor"];
    let mut running = spawn_kubectl(cluster, &[&args[..], &["--", "/workload", "copy"]].concat())?;
    let mut input = running.0.stdin.take().context("its standard input")?;
    input.write_all(b"pulse\n")?;
    let mut output = running.0.stdout.take().context("its standard output")?;
    let mut printed = [0; 6];
    output.read_exact(&mut printed).context("read what the debug container printed")?;
    ensure!(&printed == b"pulse\n", "{:?}", String::from_utf8_lossy(&printed));
    Ok(())
}
