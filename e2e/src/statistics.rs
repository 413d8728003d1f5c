//! Resource usage of a node, read from its read-only port.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::node::Node;

/// The read-only port.
pub const PORT: u16 = 10255;
/// A mebibyte.
pub const MEBIBYTE: u64 = 1 << 20;
/// The memory that the container `main` of the [holder](HOLDER) takes.
pub const HELD: u64 = 64 * MEBIBYTE;

/// The UID of the holder.
pub const UID: &str = "0c6e5f5e-0000-4000-8000-000000000034";

/// A pod with a container that takes memory, one that writes logs, and a volume.
pub const HOLDER: &str = "\
apiVersion: v1
kind: Pod
metadata: {name: holder, namespace: shop, uid: 0c6e5f5e-0000-4000-8000-000000000034}
spec:
  terminationGracePeriodSeconds: 1
  volumes: [{name: data, emptyDir: {}}]
  containers:
  - name: main
    image: ferrolet.test/workload:1
    args: [hold, '64']
    resources: {limits: {memory: 128Mi, cpu: 500m}}
    volumeMounts: [{name: data, mountPath: /data}]
  - name: busy
    image: ferrolet.test/workload:1
    args: [logs, --rate, '2000', --size, '100']
";

/// Writes 3 MiB to the volume of the holder.
pub fn write_to_volume(node: &Node) -> Result<()> {
    let volume = format!("pods/{UID}/volumes/kubernetes.io~empty-dir/data/file");
    std::fs::write(node.root_dir().join(volume), vec![1; 3 << 20]).context("write to the volume")
}

/// The body of a page.
pub fn page(node: &Node, path: &str) -> Result<String> {
    let address = SocketAddr::from((node.instance().node_ip(), PORT));
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_secs(5))?;
    stream.set_read_timeout(Some(Duration::from_secs(30)))?;
    write!(stream, "GET {path} HTTP/1.0\r\nhost: node\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").context("no body")?;
    ensure!(head.split(' ').nth(1) == Some("200"), "{path}: {answer}");
    Ok(body.to_owned())
}

/// The summary.
pub fn summary(node: &Node, query: &str) -> Result<Value> {
    Ok(serde_json::from_str(&page(node, &format!("/stats/summary{query}"))?)?)
}

/// The summary once layers, volumes and memory of the holder were measured; else what was found.
pub fn complete_summary(node: &Node) -> Result<Value, String> {
    let found = summary(node, "").map_err(|error| format!("{error:#}"))?;
    let is_complete = || {
        let pod = found["pods"].as_array()?.first()?;
        let has = |part: &str, name: &str| {
            pod["containers"].as_array().is_some_and(|all| {
                all.iter().all(|one| one.pointer(&format!("/{part}/{name}")).is_some())
            })
        };
        let volume = pod.pointer("/volume/0/usedBytes")?.as_u64()?;
        let held = pod.pointer("/memory/workingSetBytes")?.as_u64()?;
        let is_measured = has("rootfs", "usedBytes") && has("cpu", "usageNanoCores");
        (is_measured && volume > 3 * MEBIBYTE && held > HELD).then_some(())
    };
    if is_complete().is_some() { Ok(found) } else { Err(found.to_string()) }
}

/// The element of a list with a name.
pub fn named<'a>(list: &'a Value, name: &str) -> Result<&'a Value> {
    let found = list.as_array().and_then(|all| all.iter().find(|one| one["name"] == name));
    found.with_context(|| format!("no {name} in {list}"))
}

/// The number at a path.
pub fn number(value: &Value, path: &str) -> Result<u64> {
    value.pointer(path).and_then(Value::as_u64).with_context(|| format!("no {path} in {value}"))
}

/// The sample of a series: its value and its time in milliseconds.
pub fn sample(text: &str, metric: &str, labels: &[&str]) -> Result<(f64, i64)> {
    let is_of = |line: &&str| {
        let rest = line.strip_prefix(metric).unwrap_or_default();
        rest.starts_with(['{', ' ']) && labels.iter().all(|label| rest.contains(label))
    };
    let line = text.lines().find(is_of).with_context(|| format!("no {metric} {labels:?}"))?;
    let mut fields = line.rsplit(' ');
    let time = fields.next().context("no time")?.parse()?;
    Ok((fields.next().context("no value")?.parse()?, time))
}

/// All paths in a document. Elements of lists are called by their names.
pub fn paths(value: &Value) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    collect_paths(value, String::new(), &mut found);
    found
}

fn collect_paths(value: &Value, path: String, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                collect_paths(value, format!("{path}/{name}"), found);
            }
        }
        Value::Array(elements) => {
            for element in elements {
                let name = element["name"].as_str().or(element["podRef"]["name"].as_str());
                collect_paths(element, format!("{path}/{}", name.unwrap_or("?")), found);
            }
        }
        _ => drop(found.insert(path)),
    }
}

/// The series of a page by metric: their label names and values, without the samples.
pub fn series(text: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut all: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, rest) = line.split_once(['{', ' ']).unwrap_or((line, ""));
        let labels = rest.rsplit_once('}').map(|(labels, _)| labels).unwrap_or_default();
        let mut labels: Vec<&str> =
            labels.split("\",").map(|one| one.trim_end_matches('"')).collect();
        labels.sort_unstable();
        all.entry(name.to_owned()).or_default().insert(labels.join(" "));
    }
    all
}
