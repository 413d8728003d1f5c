//! The images of the testbed.

use crate::{Entry, Image, Layer};

/// The subdirectory of those of [`extra`].
pub const EXTRA: &str = "extra";

/// Every image that is built for the testbed, and that each of its instances has.
pub fn catalogue(executable: &[u8]) -> Vec<Image> {
    vec![pause(executable.to_vec()), workload(executable.to_vec()), disposable(executable.to_vec())]
}

/// Images for a few tests, which import them.
pub fn extra(executable: &[u8]) -> Vec<Image> {
    // Neither is root, but only the first shows it without its files.
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

/// The pause image of sandboxes.
pub fn pause(executable: Vec<u8>) -> Image {
    Image::new("ferrolet.test/pause:1", system(executable))
        .entrypoint(&["/workload", "pause"])
        .user("65535:65535")
}

/// The image of most tests: the command of a container is the workload's own.
pub fn workload(executable: Vec<u8>) -> Image {
    Image::new("ferrolet.test/workload:1", system(executable)).entrypoint(&["/workload"])
}

/// An image that a test may remove: no other image has its id, nor its largest layer.
pub fn disposable(executable: Vec<u8>) -> Image {
    workload(executable).named("ferrolet.test/disposable:1").padded(1 << 16)
}

/// The smallest layer that looks like a system, with the workload. One of its users has a supplementary group.
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
