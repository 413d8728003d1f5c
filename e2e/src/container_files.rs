//! The files of a running container, as the container sees them. Test images have no shell, so they are read from
//! outside.

use anyhow::{Context, Result};

use crate::node::Node;

/// The root directory of a running container.
#[derive(Debug, Clone, Copy)]
pub struct ContainerFiles<'a> {
    node: &'a Node,
    pid: u32,
}

impl<'a> ContainerFiles<'a> {
    /// Of the container with this process.
    pub fn of(node: &'a Node, pid: u32) -> Self {
        Self { node, pid }
    }

    /// The path of a container's file on the node.
    pub fn path(&self, path: &str) -> String {
        format!("/proc/{}/root{path}", self.pid)
    }

    /// The content of a file.
    pub fn read(&self, path: &str) -> Result<String> {
        self.node.run("cat", &[&self.path(path)])
    }

    /// Mode, owner and group of a file, such as `644 0:0`.
    pub fn mode(&self, path: &str) -> Result<String> {
        let found = self.node.run("stat", &["-L", "-c", "%a %u:%g", &self.path(path)])?;
        Ok(found.trim().to_owned())
    }

    /// Writes a file.
    pub fn write(&self, path: &str, text: &str) -> Result<()> {
        let command = format!("printf %s '{text}' > '{}'", self.path(path));
        self.node.run("sh", &["-c", &command]).map(drop)
    }

    /// File system and options of the mount at a path, such as `tmpfs ro,relatime rw,size=1024k`.
    pub fn mount(&self, path: &str) -> Result<String> {
        let table = self.table()?;
        let found = table.lines().find_map(|line| {
            let (mount, file_system) = line.split_once(" - ")?;
            let mount: Vec<&str> = mount.split(' ').collect();
            let file_system: Vec<&str> = file_system.split(' ').collect();
            (mount.get(4) == Some(&path))
                .then(|| format!("{} {} {}", file_system[0], mount[5], file_system[2]))
        });
        found.with_context(|| format!("nothing is mounted at {path}: {table}"))
    }

    /// All mounts, as the kernel lists them.
    pub fn table(&self) -> Result<String> {
        self.node.run("cat", &[&format!("/proc/{}/mountinfo", self.pid)])
    }
}

/// The node's mounts in the directories of its pods, as the kernel lists them.
pub fn pod_mounts(node: &Node) -> Result<Vec<String>> {
    let pods = node.root_dir().join("pods").display().to_string();
    let table = node.run("cat", &["/proc/self/mountinfo"])?;
    Ok(table.lines().filter(|line| line.contains(&pods)).map(ToOwned::to_owned).collect())
}
