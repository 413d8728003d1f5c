//! A recorded request, without values that may differ. Each such place says why.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use prost::Message;
use proto::runtime_v1 as cri;

/// The hollow runtime's pod network: addresses follow the order of sandboxes, which depends on timing.
const POD_NETWORK: &str = "10.0.0.";

/// A request to create something.
#[derive(Debug)]
pub(crate) enum Request {
    Sandbox(Box<cri::RunPodSandboxRequest>),
    Container(Box<cri::CreateContainerRequest>),
    Image(Box<cri::PullImageRequest>),
}

impl Request {
    /// The whole request, a field on each line.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Sandbox(request) => format!("{request:#?}"),
            Self::Container(request) => format!("{request:#?}"),
            Self::Image(request) => format!("{request:#?}"),
        }
    }
}

/// The first request for each sandbox (`pod`), container (`pod/container`) and image (`pod pulls image`) in a directory of
/// recorded requests. `own` is the agent's own directory.
pub(crate) fn read(directory: &Path, own: &Path) -> Result<BTreeMap<String, Request>> {
    let mut requests = BTreeMap::new();
    let mut paths: Vec<_> =
        fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    paths.sort();
    for path in paths {
        let name = path.file_name().and_then(|name| name.to_str()).context("a name")?.to_owned();
        if name.starts_with('.') {
            continue;
        }
        let bytes = fs::read(&path)?;
        let (key, request) = match name.split_once('-').map(|(_, method)| method) {
            Some("RunPodSandbox") => {
                let mut request = cri::RunPodSandboxRequest::decode(&*bytes)?;
                let config = request.config.as_mut().context("no sandbox")?;
                let key = config.metadata.as_ref().context("no name")?.name.clone();
                normalize_sandbox(config, own);
                (key, Request::Sandbox(Box::new(request)))
            }
            Some("CreateContainer") => {
                let mut request = cri::CreateContainerRequest::decode(&*bytes)?;
                let sandbox = request.sandbox_config.as_mut().context("no sandbox")?;
                let pod = sandbox.metadata.as_ref().context("no name")?.name.clone();
                normalize_sandbox(sandbox, own);
                let config = request.config.as_mut().context("no container")?;
                let key = format!("{pod}/{}", config.metadata.as_ref().context("no name")?.name);
                normalize_container(config, own);
                // The runtime chooses it.
                request.pod_sandbox_id.clear();
                (key, Request::Container(Box::new(request)))
            }
            Some("PullImage") => {
                let mut request = cri::PullImageRequest::decode(&*bytes)?;
                let sandbox = request.sandbox_config.as_mut().context("no sandbox")?;
                let pod = sandbox.metadata.as_ref().context("no name")?.name.clone();
                normalize_sandbox(sandbox, own);
                let image = request.image.as_mut().context("no image")?;
                normalize_annotations(&mut image.annotations);
                (format!("{pod} pulls {}", image.image), Request::Image(Box::new(request)))
            }
            _ => bail!("{name} is no request"),
        };
        requests.entry(key).or_insert(request);
    }
    Ok(requests)
}

/// Each agent has its own directory.
fn without(own: &Path, text: &mut String) {
    *text = text.replace(&own.display().to_string(), "OWN");
}

/// A text without the pod's address.
pub(crate) fn without_address(text: &str) -> String {
    let Some(at) = text.find(POD_NETWORK) else { return text.to_owned() };
    let rest = &text[at + POD_NETWORK.len()..];
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    format!("{}POD-IP{}", &text[..at], without_address(&rest[end..]))
}

fn normalize_sandbox(config: &mut cri::PodSandboxConfig, own: &Path) {
    without(own, &mut config.log_directory);
    normalize_annotations(&mut config.annotations);
    if let Some(dns) = &mut config.dns_config {
        // Upstream iterates over a Go map of options, in random order.
        dns.options.sort();
    }
    let linux = config.linux.get_or_insert_default();
    let context = linux.security_context.get_or_insert_default();
    normalize_namespaces(context.namespace_options.as_mut());
}

fn normalize_annotations(annotations: &mut BTreeMap<String, String>) {
    // Upstream stores it in a file.
    annotations.remove("io.ferrolet.pod.sizes");
    // The time at which the agent first saw the pod; upstream writes it in the machine's time zone.
    if let Some(seen) = annotations.get_mut("kubernetes.io/config.seen")
        && seen.parse::<jiff::Timestamp>().is_ok()
    {
        "A-TIME".clone_into(seen);
    }
}

fn normalize_namespaces(options: Option<&mut cri::NamespaceOption>) {
    let Some(users) = options.and_then(|options| options.userns_options.as_mut()) else { return };
    normalize_ids(&mut users.uids);
    normalize_ids(&mut users.gids);
}

/// Upstream takes a random range, this agent the first free one; both take one that begins at a multiple of its length
/// and not at 0.
fn normalize_ids(ids: &mut [cri::IdMapping]) {
    for range in ids {
        if range.host_id >= range.length && range.host_id % range.length == 0 {
            range.host_id = range.length;
        }
    }
}

fn namespaces_of(config: &cri::ContainerConfig) -> cri::NamespaceOption {
    let context = config.linux.as_ref().and_then(|linux| linux.security_context.as_ref());
    context.and_then(|context| context.namespace_options.clone()).unwrap_or_default()
}

fn normalize_container(config: &mut cri::ContainerConfig, own: &Path) {
    // Upstream iterates over a Go map of variables, in random order.
    config.envs.sort_by(|one, other| one.key.cmp(&other.key));
    for env in &mut config.envs {
        env.value = without_address(&String::from_utf8_lossy(&env.value)).into_bytes();
    }
    // A pod on the host's network has the node's address. Upstream reports it only in a cluster, this agent always.
    let on_host = namespaces_of(config).network() == cri::NamespaceMode::Node;
    config.envs.retain(|env| !(on_host && env.key == "POD_IP"));
    // Upstream stores it in a file.
    config.annotations.remove("io.ferrolet.container.size");
    let message_path = config.annotations.get("io.kubernetes.container.terminationMessagePath");
    for mount in &mut config.mounts {
        without(own, &mut mount.host_path);
        // The termination message file has a random name.
        if Some(&mount.container_path) == message_path {
            let directory = mount.host_path.rsplit_once('/').map(|(directory, _)| directory);
            mount.host_path = format!("{}/BY-CHANCE", directory.unwrap_or_default());
        }
        normalize_ids(&mut mount.uid_mappings);
        normalize_ids(&mut mount.gid_mappings);
    }
    let linux = config.linux.get_or_insert_default();
    // Upstream has them in the order of a directory listing.
    let resources = linux.resources.get_or_insert_default();
    resources.hugepage_limits.sort_by(|one, other| one.page_size.cmp(&other.page_size));
    let context = linux.security_context.get_or_insert_default();
    normalize_namespaces(context.namespace_options.as_mut());
    if let Some(seccomp) = &mut context.seccomp {
        without(own, &mut seccomp.localhost_ref);
    }
}
