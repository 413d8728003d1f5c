//! Reading definitions, ours with an edit if wanted, and upstream's from the testbed.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use protox::Compiler;
use protox::file::{File, FileResolver};
use protox::prost_reflect::DescriptorPool;

/// The version whose definitions ours follow; also the testbed's.
const UPSTREAM: &str = "v0.36.3";

/// The folder of our definitions of the package `runtime.v1`.
pub(crate) fn folder() -> PathBuf {
    root().join("runtime/v1")
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("proto")
}

/// Our definition files, sorted by name.
pub(crate) fn files() -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder()).context("read our definitions")?;
    let mut files = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    files.retain(|path| path.extension().is_some_and(|extension| extension == "proto"));
    files.sort();
    Ok(files)
}

/// A change to one of our files, made while reading it.
#[derive(Clone, Copy)]
pub(crate) struct Edit {
    pub(crate) file: &'static str,
    pub(crate) from: &'static str,
    pub(crate) to: &'static str,
}

struct Source(Option<Edit>);

impl FileResolver for Source {
    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        let source = std::fs::read_to_string(root().join(name))
            .map_err(|_| protox::Error::file_not_found(name))?;
        match self.0 {
            Some(edit) if name == format!("runtime/v1/{}", edit.file) => {
                File::from_source(name, &source.replace(edit.from, edit.to))
            }
            _ => File::from_source(name, &source),
        }
    }
}

pub(crate) fn ours() -> Result<DescriptorPool> {
    compile(None)
}

/// Ours with `edit` applied; it has to match in exactly one place.
pub(crate) fn ours_with(edit: Edit) -> Result<DescriptorPool> {
    let source =
        std::fs::read_to_string(folder().join(edit.file)).context("read the edited file")?;
    let places = source.matches(edit.from).count();
    ensure!(places == 1, "`{}` is in {} {places} times", edit.from, edit.file);
    compile(Some(edit))
}

fn compile(edit: Option<Edit>) -> Result<DescriptorPool> {
    let mut compiler = Compiler::with_file_resolver(Source(edit));
    for path in files()? {
        let name = path.strip_prefix(root()).context("a file of ours")?;
        let name = name.to_str().context("a name in UTF-8")?;
        compiler.open_file(name).with_context(|| format!("compile {name}"))?;
    }
    Ok(compiler.descriptor_pool())
}

/// Where the testbed keeps what it downloads.
pub(crate) fn cache() -> PathBuf {
    let home = || std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache"));
    std::env::var_os("XDG_CACHE_HOME")
        .filter(|path| !path.is_empty())
        .map(PathBuf::from)
        .or_else(home)
        .expect("HOME is set")
}

pub(crate) fn upstream(cache: &Path) -> Result<DescriptorPool> {
    let folder = cache.join("ferrolet/testbed/cri-api").join(UPSTREAM);
    let path = folder.join("api.proto");
    ensure!(path.exists(), "{} is missing: run `make testbed`", path.display());
    let mut compiler = Compiler::new([&folder])?;
    compiler.open_file("api.proto").with_context(|| format!("compile {}", path.display()))?;
    Ok(compiler.descriptor_pool())
}
