//! An image, and its archive.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::layer::Archive;
use crate::oci::{
    CONFIG_TYPE, Descriptor, INDEX_TYPE, ImageConfig, Index, LAYER_TYPE, Layout, MANIFEST_TYPE,
    Manifest, NAME_ANNOTATION, Platform, Process, RootFs, TAG_ANNOTATION, json,
};
use crate::{Entry, Error, Layer};

const PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// An image with a single name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Image {
    name: String,
    layers: Vec<Layer>,
    entrypoint: Vec<String>,
    cmd: Vec<String>,
    user: String,
    labels: BTreeMap<String, String>,
}

impl Image {
    /// An image called `name` (registry/repository:tag) with these files, run by root.
    pub fn new(name: &str, layer: Layer) -> Self {
        Self {
            name: name.to_owned(),
            layers: vec![layer],
            entrypoint: Vec::new(),
            cmd: Vec::new(),
            user: String::new(),
            labels: BTreeMap::new(),
        }
    }

    /// The same image under another name.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        name.clone_into(&mut self.name);
        self
    }

    #[must_use]
    pub fn entrypoint(mut self, words: &[&str]) -> Self {
        self.entrypoint = words.iter().map(ToString::to_string).collect();
        self
    }

    #[must_use]
    pub fn cmd(mut self, words: &[&str]) -> Self {
        self.cmd = words.iter().map(ToString::to_string).collect();
        self
    }

    /// Run by `user`: a name, a number, or either with `:group`.
    #[must_use]
    pub fn user(mut self, user: &str) -> Self {
        user.clone_into(&mut self.user);
        self
    }

    /// With one more label.
    #[must_use]
    pub fn label(mut self, name: &str, value: &str) -> Self {
        self.labels.insert(name.to_owned(), value.to_owned());
        self
    }

    /// One more layer on top.
    #[must_use]
    pub fn layer(mut self, layer: Layer) -> Self {
        self.layers.push(layer);
        self
    }

    /// One more layer, with a file of `size` bytes that differ from name to name: no two images of
    /// different names share it, and it does not compress.
    #[must_use]
    pub fn padded(self, size: usize) -> Self {
        let content = noise(&self.name, size);
        self.layer(Layer::default().with("padding", Entry::File { content, mode: 0o644 }))
    }

    /// Its name, which pods refer to.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The name of the archive: the last part of the repository and the tag.
    pub fn file_name(&self) -> String {
        let last = self.name.rsplit('/').next().unwrap_or(&self.name);
        format!("{}.tar", last.replace(':', "-"))
    }

    /// The image as an OCI image layout in a tar archive.
    pub fn archive(&self) -> Result<Vec<u8>, Error> {
        let mut blobs = BTreeMap::new();
        let mut store = |blob: Vec<u8>, media_type| {
            let descriptor = Descriptor::of(&blob, media_type);
            blobs.insert(descriptor.path(), blob);
            descriptor
        };

        let mut layers = Vec::new();
        for layer in &self.layers {
            layers.push(store(layer.archive()?, LAYER_TYPE));
        }
        let config = store(json(&self.config(&layers)), CONFIG_TYPE);
        let manifest = Manifest { schema_version: 2, media_type: MANIFEST_TYPE, config, layers };
        let manifest = Descriptor {
            platform: Some(Platform::own()),
            annotations: self.annotations()?,
            ..store(json(&manifest), MANIFEST_TYPE)
        };
        let index = Index { schema_version: 2, media_type: INDEX_TYPE, manifests: vec![manifest] };
        layout(blobs, &index)
    }

    /// Writes the archive into a directory, unless it is there with the same bytes. Others see the old file or the
    /// whole new one.
    pub fn write(&self, directory: &Path) -> Result<PathBuf, Error> {
        let path = directory.join(self.file_name());
        let archive = self.archive()?;
        if fs::read(&path).is_ok_and(|present| present == archive) {
            return Ok(path);
        }
        let partial = directory.join(format!(".{}.{}", self.file_name(), std::process::id()));
        fs::create_dir_all(directory)
            .and_then(|()| fs::write(&partial, archive))
            .and_then(|()| fs::rename(&partial, &path))
            .map_err(|source| Error::Write { path: path.clone(), source })?;
        Ok(path)
    }

    fn config(&self, layers: &[Descriptor]) -> ImageConfig<'_> {
        ImageConfig {
            platform: Platform::own(),
            config: Process {
                user: &self.user,
                env: [PATH],
                entrypoint: &self.entrypoint,
                cmd: &self.cmd,
                working_dir: "/",
                labels: &self.labels,
            },
            rootfs: RootFs {
                kind: "layers",
                // Layers are not compressed, so a layer and its content have one digest.
                diff_ids: layers.iter().map(|layer| layer.digest.clone()).collect(),
            },
        }
    }

    fn annotations(&self) -> Result<BTreeMap<&'static str, String>, Error> {
        let (_, tag) = self
            .name
            .rsplit_once(':')
            .filter(|(repository, tag)| {
                repository.contains('/') && !tag.is_empty() && !tag.contains('/')
            })
            .ok_or_else(|| Error::Name { name: self.name.clone() })?;
        Ok(BTreeMap::from([(NAME_ANNOTATION, self.name.clone()), (TAG_ANNOTATION, tag.to_owned())]))
    }
}

fn layout(blobs: BTreeMap<String, Vec<u8>>, index: &Index) -> Result<Vec<u8>, Error> {
    let file = |content| Entry::File { content, mode: 0o644 };
    let mut archive = Archive::default();
    archive.add("oci-layout", &file(json(&Layout { image_layout_version: "1.0.0" })))?;
    archive.add("index.json", &file(json(index)))?;
    for directory in ["blobs", "blobs/sha256"] {
        archive.add(directory, &Entry::Directory { mode: 0o755 })?;
    }
    for (path, blob) in blobs {
        archive.add(&path, &file(blob))?;
    }
    archive.finish()
}

/// Bytes that look random, so that they do not compress, and depend only on the seed.
pub fn noise(seed: &str, size: usize) -> Vec<u8> {
    // FNV-1a to begin with, then the steps of splitmix64.
    let mut state = seed.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let mut bytes = Vec::with_capacity(size + 8);
    while bytes.len() < size {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = state;
        word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bytes.extend((word ^ (word >> 31)).to_le_bytes());
    }
    bytes.truncate(size);
    bytes
}

#[cfg(test)]
mod tests;
