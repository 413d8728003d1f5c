//! The images that the testbed has.

use crate::{Entry, Image, Layer};

/// Where those of [`extra`] are, in the directory of the others.
pub const EXTRA: &str = "extra";

/// Every image that is written for the testbed, and that each of its instances has.
pub fn catalogue(executable: &[u8]) -> Vec<Image> {
    vec![pause(executable.to_vec()), workload(executable.to_vec()), disposable(executable.to_vec())]
}

/// Images that few tests want, which import them.
pub fn extra(executable: &[u8]) -> Vec<Image> {
    // Neither is root, and only of the first can that be seen without its files.
    let users = [("ferrolet.test/numbered-user:1", "33"), ("ferrolet.test/named-user:1", "www")];
    let users = users.map(|(name, user)| workload(executable.to_vec()).named(name).user(user));
    users.into_iter().chain([tools(executable.to_vec())]).collect()
}

/// The workload, with the programs that kubectl runs in containers.
pub fn tools(executable: Vec<u8>) -> Image {
    let program = Entry::Symlink { target: "/workload".to_owned() };
    let system = system(executable).with("bin/tar", program);
    Image::new("ferrolet.test/tools:1", system).entrypoint(&["/workload"])
}

/// What holds a sandbox open.
pub fn pause(executable: Vec<u8>) -> Image {
    Image::new("ferrolet.test/pause:1", system(executable))
        .entrypoint(&["/workload", "pause"])
        .user("65535:65535")
}

/// What tests run: the command of a container is the workload's own.
pub fn workload(executable: Vec<u8>) -> Image {
    Image::new("ferrolet.test/workload:1", system(executable)).entrypoint(&["/workload"])
}

/// What a test may remove: no other image has its id, nor its largest layer.
pub fn disposable(executable: Vec<u8>) -> Image {
    workload(executable).named("ferrolet.test/disposable:1").padded(1 << 16)
}

/// The least that looks like a system, with the workload in it. One of its users is in another group besides their
/// own.
fn system(executable: Vec<u8>) -> Layer {
    let text = |text: &str| Entry::File { content: text.into(), mode: 0o644 };
    let passwd = "root:x:0:0:root:/:/workload\nwww:x:33:33:www:/:/workload\n\
                  guest:x:65534:65534:guest:/:/workload\n";
    let group = "root:x:0:\nwww:x:33:\nstaff:x:50:www\nguest:x:65534:\n";
    Layer::default()
        .with("etc/group", text(group))
        .with("etc/passwd", text(passwd))
        .with("tmp", Entry::Directory { mode: 0o1777 })
        .with("workload", Entry::File { content: executable, mode: 0o755 })
}
