//! The images of a cluster that kubeadm sets up, with the names that `kubeadm config images list` prints.

use std::fs;
use std::path::Path;

use crate::{Entry, Error, Image, Layer, pause, workload};

const REGISTRY: &str = "registry.k8s.io";
/// The user of the image of `CoreDNS`.
const NOT_ROOT: &str = "65532:65532";

/// The versions in the names of the images.
#[derive(Debug)]
pub struct Versions {
    pub kubernetes: String,
    pub coredns: String,
    pub etcd: String,
}

/// Reads the programs that `e2e/parts/build.sh` left in the testbed's directory, and puts them into images.
pub fn images(testbed: &Path, executable: &[u8], versions: &Versions) -> Result<Vec<Image>, Error> {
    let program = |directory: &str, name: &str| {
        let path = testbed.join(directory).join(name);
        let content = fs::read(&path).map_err(|source| Error::Read { path, source })?;
        Ok(Entry::File { content, mode: 0o755 })
    };
    let component = |directory: &str, name: &str| {
        let layer = system().with(&format!("usr/local/bin/{name}"), program(directory, name)?);
        Ok(Image::new(&format!("{REGISTRY}/{name}:{}", versions.kubernetes), layer))
    };
    let etcd = system().with("usr/local/bin/etcd", program("bin", "etcd")?);
    let coredns = system().with("coredns", program("kubeadm", "coredns")?);
    let packet_filter = Layer::default().with_tree(&testbed.join("userland-proxy"))?;
    Ok(vec![
        component("bin", "kube-apiserver")?,
        component("bin", "kube-controller-manager")?,
        component("bin", "kube-scheduler")?,
        component("kubeadm", "kube-proxy")?.layer(packet_filter),
        Image::new(&format!("{REGISTRY}/etcd:{}", versions.etcd), etcd),
        Image::new(&format!("{REGISTRY}/coredns/coredns:{}", versions.coredns), coredns)
            .entrypoint(&["/coredns"])
            .user(NOT_ROOT),
        pause(executable.to_vec()).named(&format!("{REGISTRY}/pause:3.10.2")),
        add_on(testbed, executable)?,
    ])
}

/// The image of all add-ons: the workload, and network plugins that it copies to the node.
fn add_on(testbed: &Path, executable: &[u8]) -> Result<Image, Error> {
    let copies = Entry::Symlink { target: "/workload".to_owned() };
    let layer = Layer::default().with_files_below("opt/cni/bin", &testbed.join("cni"))?;
    Ok(workload(executable.to_vec())
        .named("ferrolet.test/add-on:1")
        .layer(layer.with("bin/cp", copies)))
}

/// The directories and users that every image has.
fn system() -> Layer {
    let text = |text: &str| Entry::File { content: text.into(), mode: 0o644 };
    Layer::default()
        .with("tmp", Entry::Directory { mode: 0o1777 })
        .with("var/lib", Entry::Directory { mode: 0o755 })
        .with(
            "etc/passwd",
            text("root:x:0:0:root:/root:/sbin/nologin\nnonroot:x:65532:65532::/:/sbin/nologin\n"),
        )
        .with("etc/group", text("root:x:0:\nnonroot:x:65532:\n"))
}
