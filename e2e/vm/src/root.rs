//! The files of a machine.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::cpio::Archive;

#[derive(Debug)]
enum Entry {
    Directory,
    Text(String),
    Copy(PathBuf),
    Link(String),
}

/// The files of a machine, by their paths, in memory; the machine may change them.
#[derive(Debug, Default)]
pub struct Root {
    entries: BTreeMap<String, Entry>,
}

impl Root {
    /// A directory, with its parents.
    pub fn directory(&mut self, path: &str) {
        self.put(path, Entry::Directory);
    }

    /// A file with this text.
    pub fn text(&mut self, path: &str, text: impl Into<String>) {
        self.put(path, Entry::Text(text.into()));
    }

    /// A symbolic link.
    pub fn link(&mut self, path: &str, target: &str) {
        self.put(path, Entry::Link(target.to_owned()));
    }

    /// A copy of a file of the host.
    pub fn copy(&mut self, path: &str, source: &Path) {
        self.put(path, Entry::Copy(source.to_owned()));
    }

    /// Copies all files below a directory of the host; links are skipped.
    pub fn tree(&mut self, path: &str, source: &Path) -> Result<()> {
        let list = || format!("list {}", source.display());
        self.directory(path);
        for entry in fs::read_dir(source).with_context(list)? {
            let entry = entry.with_context(list)?;
            let place = format!("{path}/{}", entry.file_name().to_string_lossy());
            let kind = entry.file_type().with_context(list)?;
            if kind.is_dir() {
                self.tree(&place, &entry.path())?;
            } else if kind.is_file() {
                self.copy(&place, &entry.path());
            }
        }
        Ok(())
    }

    /// A program of the host with its libraries, at their paths.
    pub fn program(&mut self, path: &str, source: &Path) -> Result<()> {
        for library in libraries(source)? {
            self.copy(&library, Path::new(&library));
        }
        self.copy(path, source);
        Ok(())
    }

    fn put(&mut self, path: &str, entry: Entry) {
        for above in Path::new(path).ancestors().skip(1) {
            let above = above.to_string_lossy();
            if above != "/" {
                self.entries.entry(above.into_owned()).or_insert(Entry::Directory);
            }
        }
        self.entries.insert(path.to_owned(), entry);
    }

    /// Writes everything as an archive. Paths are sorted, so directories come first.
    pub(crate) fn write(&self, to: &Path) -> Result<()> {
        let file = File::create(to).with_context(|| format!("make {}", to.display()))?;
        let mut archive = Archive::new(BufWriter::new(file));
        for (path, entry) in &self.entries {
            put(&mut archive, path, entry).with_context(|| format!("put {path} into the root"))?;
        }
        archive.finish().with_context(|| format!("write {}", to.display()))?;
        Ok(())
    }
}

fn put(archive: &mut Archive<BufWriter<File>>, path: &str, entry: &Entry) -> Result<()> {
    let name = path.trim_start_matches('/');
    match entry {
        Entry::Directory => archive.directory(name)?,
        Entry::Text(text) => archive.file(name, text.as_bytes(), false)?,
        Entry::Link(target) => archive.link(name, target)?,
        Entry::Copy(source) => {
            let content = fs::read(source).with_context(|| format!("read {}", source.display()))?;
            archive.file(name, &content, true)?;
        }
    }
    Ok(())
}

/// The libraries of a program, as the dynamic loader finds them.
fn libraries(program: &Path) -> Result<Vec<String>> {
    let output = Command::new("ldd").arg(program).output().context("run ldd")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let missing = text.lines().find(|line| line.contains("not found"));
    ensure!(missing.is_none(), "{}: {}", program.display(), missing.unwrap_or_default().trim());
    Ok(text.lines().filter_map(library).collect())
}

/// A line is `NAME => PATH (ADDRESS)`, or `PATH (ADDRESS)` for the loader itself.
fn library(line: &str) -> Option<String> {
    let place = line.split_once("=>").map_or(line, |(_, place)| place).trim();
    let path = place.split_whitespace().next()?;
    path.starts_with('/').then(|| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_without_a_file_are_skipped() {
        let lines = [
            ("\tlinux-vdso.so.1 (0x00007fbe86625000)", None),
            ("\tlibm.so.6 => /lib/x/libm.so.6 (0x00007fbe86514000)", Some("/lib/x/libm.so.6")),
            ("\t/lib64/ld-linux-x86-64.so.2 (0x00007f)", Some("/lib64/ld-linux-x86-64.so.2")),
            ("\tstatically linked", None),
            ("\tnot a dynamic executable", None),
        ];
        for (line, expected) in lines {
            assert_eq!(library(line).as_deref(), expected, "{line}");
        }
    }

    #[test]
    fn tree_is_copied_with_all_its_content() {
        let source = tempfile::tempdir().unwrap();
        fs::create_dir_all(source.path().join("a/b")).unwrap();
        fs::write(source.path().join("a/b/file"), "text").unwrap();
        let mut root = Root::default();
        root.tree("/etc/x", source.path()).unwrap();
        let paths: Vec<&str> = root.entries.keys().map(String::as_str).collect();
        assert_eq!(paths, ["/etc", "/etc/x", "/etc/x/a", "/etc/x/a/b", "/etc/x/a/b/file"]);
    }

    #[test]
    fn parent_directories_precede_their_file() {
        let mut root = Root::default();
        root.text("/etc/x/config", "text");
        root.directory("/etc");
        let paths: Vec<&str> = root.entries.keys().map(String::as_str).collect();
        assert_eq!(paths, ["/etc", "/etc/x", "/etc/x/config"]);
        assert!(matches!(root.entries["/etc/x"], Entry::Directory));
    }
}
