//! Images with the names that upstream's end-to-end suite pulls. They have programs of this machine in place of
//! Alpine's and busybox's own, so the suite needs no network.

use std::fs;
use std::path::Path;

use crate::{Entry, Error, Image, Layer, pause};

/// The registry of the suite's images.
const REGISTRY: &str = "registry.k8s.io/e2e-test-images";

/// The content of the images.
#[derive(Debug)]
pub struct Inputs {
    /// The workload of the testbed.
    workload: Vec<u8>,
    /// busybox and a shell.
    base: Layer,
    /// Like `base`, with curl, ip and nc.
    base_with_tools: Layer,
    /// Upstream's program for test containers.
    agnhost: Vec<u8>,
    certificate: Vec<u8>,
    key: Vec<u8>,
}

impl Inputs {
    /// Reads the output of `e2e/parts/build.sh conformance` in the testbed's directory.
    pub fn read(testbed: &Path, workload: &[u8]) -> Result<Self, Error> {
        let file = |name: &str| {
            let path = testbed.join("conformance").join(name);
            fs::read(&path).map_err(|source| Error::Read { path, source })
        };
        let userland = testbed.join("userland");
        let base = system().with_tree(&userland.join("base"))?;
        Ok(Self {
            workload: workload.to_vec(),
            base_with_tools: base.clone().with_tree(&userland.join("tools"))?,
            base,
            agnhost: file("agnhost")?,
            certificate: file("localhost.crt")?,
            key: file("localhost.key")?,
        })
    }
}

/// Every image that the `NodeConformance` specs use, in the versions that upstream v1.36.3 names.
pub fn images(inputs: &Inputs) -> Vec<Image> {
    let busybox =
        |name: &str| Image::new(&format!("{REGISTRY}/{name}"), inputs.base.clone()).cmd(&["sh"]);
    let agnhost = |tag: &str| {
        Image::new(&format!("{REGISTRY}/agnhost:{tag}"), agnhost(inputs))
            .entrypoint(&["/agnhost"])
            .cmd(&["pause"])
            // Two versions of an image must have different IDs.
            .label("version", tag)
    };
    let nnp = Entry::File { content: inputs.workload.clone(), mode: 0o6755 };
    vec![
        pause(inputs.workload.clone()).named("registry.k8s.io/pause:3.10.2"),
        busybox("busybox:1.37.0-1"),
        busybox("nonroot:1.5").user("1234"),
        // For its resolver test: the programs are linked to glibc.
        busybox("glibc-dns-testing:2.0.0"),
        busybox("nonewprivs:1.4")
            .layer(Layer::default().with("usr/local/bin/nnp", nnp))
            .cmd(&["/usr/local/bin/nnp", "uid"]),
        agnhost("2.63.0"),
        agnhost("2.55"),
    ]
}

/// The directories and users that every image has.
fn system() -> Layer {
    let directories = ["dev", "home", "mnt", "opt", "proc", "root", "sys", "usr/local/bin", "var"];
    let layer = directories
        .iter()
        .fold(Layer::default(), |layer, path| layer.with(path, Entry::Directory { mode: 0o755 }));
    layer
        .with("tmp", Entry::Directory { mode: 0o1777 })
        .with("etc/passwd", text("root:x:0:0:root:/root:/bin/sh\n"))
        .with("etc/group", text("root:x:0:\n"))
}

/// A spec expects a user with the number 1000 that the image puts into another group.
fn agnhost(inputs: &Inputs) -> Layer {
    let user = "user-defined-in-image";
    let passwd = format!("root:x:0:0:root:/root:/bin/sh\n{user}:x:1000:1000::/home:/bin/sh\n");
    let group = format!("root:x:0:\n{user}:x:1000:\ngroup-defined-in-image:x:50000:{user}\n");
    let file = |content: &[u8], mode| Entry::File { content: content.to_vec(), mode };
    inputs
        .base_with_tools
        .clone()
        .with("agnhost", file(&inputs.agnhost, 0o755))
        .with("agnhost-2", Entry::Symlink { target: "agnhost".to_owned() })
        .with("localhost.crt", file(&inputs.certificate, 0o644))
        .with("localhost.key", file(&inputs.key, 0o644))
        .with("uploads", Entry::Directory { mode: 0o755 })
        .with("etc/passwd", text(&passwd))
        .with("etc/group", text(&group))
}

fn text(text: &str) -> Entry {
    Entry::File { content: text.into(), mode: 0o644 }
}
