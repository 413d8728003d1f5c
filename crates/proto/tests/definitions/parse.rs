//! Reading definitions, ours with an edit if wanted, and upstream's from the testbed.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use protox::Compiler;
use protox::file::{File, FileResolver};
use protox::prost_reflect::DescriptorPool;

/// The version whose definitions ours follow; also the testbed's.
const UPSTREAM: &str = "v0.36.3";

/// A package of definitions.
#[derive(Clone, Copy)]
pub(crate) struct Protocol {
    /// What it is called on the wire.
    pub(crate) package: &'static str,
    /// Where ours are, below `proto`.
    pub(crate) folder: &'static str,
    /// The part of the testbed that has upstream's, and the file there.
    upstream: (&'static str, &'static str),
    /// The code made of ours.
    pub(crate) generated: &'static str,
}

pub(crate) const CRI: Protocol = Protocol {
    package: "runtime.v1",
    folder: "runtime/v1",
    upstream: ("cri-api", "api.proto"),
    generated: include_str!("../../src/runtime_v1.rs"),
};

const POD_RESOURCES: Protocol = Protocol {
    package: "v1",
    folder: "podresources/v1",
    upstream: ("kubelet-api", "podresources-v1.proto"),
    generated: include_str!("../../src/podresources_v1.rs"),
};

const OLD_POD_RESOURCES: Protocol = Protocol {
    package: "v1alpha1",
    folder: "podresources/v1alpha1",
    upstream: ("kubelet-api", "podresources-v1alpha1.proto"),
    generated: include_str!("../../src/podresources_v1alpha1.rs"),
};

pub(crate) const ALL: [Protocol; 3] = [CRI, POD_RESOURCES, OLD_POD_RESOURCES];

fn root() -> PathBuf {
    // Asked for now: what another checkout has built into the same directory looks up this one's.
    let here = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo runs it");
    Path::new(&here).join("proto")
}

impl Protocol {
    /// Our definition files, sorted by name.
    pub(crate) fn files(self) -> Result<Vec<PathBuf>> {
        let entries =
            std::fs::read_dir(root().join(self.folder)).context("read our definitions")?;
        let mut files = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
        files.retain(|path| path.extension().is_some_and(|extension| extension == "proto"));
        files.sort();
        Ok(files)
    }

    pub(crate) fn ours(self) -> Result<DescriptorPool> {
        self.compile(None)
    }

    /// Ours with `edit` applied; it has to match in exactly one place.
    pub(crate) fn ours_with(self, edit: Edit) -> Result<DescriptorPool> {
        let source = std::fs::read_to_string(root().join(self.folder).join(edit.file))
            .context("read the edited file")?;
        let places = source.matches(edit.from).count();
        ensure!(places == 1, "`{}` is in {} {places} times", edit.from, edit.file);
        self.compile(Some(edit))
    }

    fn compile(self, edit: Option<Edit>) -> Result<DescriptorPool> {
        let mut compiler = Compiler::with_file_resolver(Source(self, edit));
        for path in self.files()? {
            let name = path.strip_prefix(root()).context("a file of ours")?;
            let name = name.to_str().context("a name in UTF-8")?;
            compiler.open_file(name).with_context(|| format!("compile {name}"))?;
        }
        Ok(compiler.descriptor_pool())
    }

    pub(crate) fn upstream(self, cache: &Path) -> Result<DescriptorPool> {
        let (part, file) = self.upstream;
        let folder = cache.join("ferrolet/testbed").join(part).join(UPSTREAM);
        let path = folder.join(file);
        ensure!(path.exists(), "{} is missing: run `make testbed`", path.display());
        let mut compiler = Compiler::new([&folder])?;
        compiler.open_file(file).with_context(|| format!("compile {}", path.display()))?;
        Ok(compiler.descriptor_pool())
    }
}

/// A change to one of our files, made while reading it.
#[derive(Clone, Copy)]
pub(crate) struct Edit {
    pub(crate) file: &'static str,
    pub(crate) from: &'static str,
    pub(crate) to: &'static str,
}

struct Source(Protocol, Option<Edit>);

impl FileResolver for Source {
    fn open_file(&self, name: &str) -> Result<File, protox::Error> {
        let source = std::fs::read_to_string(root().join(name))
            .map_err(|_| protox::Error::file_not_found(name))?;
        match self.1 {
            Some(edit) if name == format!("{}/{}", self.0.folder, edit.file) => {
                File::from_source(name, &source.replace(edit.from, edit.to))
            }
            _ => File::from_source(name, &source),
        }
    }
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
