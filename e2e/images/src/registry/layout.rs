//! Reading an archive back.

use std::collections::BTreeMap;
use std::io::{self, Read};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use crate::oci::NAME_ANNOTATION;

/// Why an archive cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum LayoutError {
    #[error("unpacking the archive")]
    Unpack(#[source] io::Error),
    #[error("{entry} is missing in the archive")]
    Missing { entry: String },
    #[error("reading {entry} of the archive")]
    Document {
        entry: String,
        #[source]
        source: serde_json::Error,
    },
    #[error("manifest {digest} has no name")]
    Nameless { digest: String },
    #[error("image name {name} is not of the form registry/repository:tag")]
    Name { name: String },
}

type Blobs = BTreeMap<String, Vec<u8>>;

/// An image layout: blobs by digest, and the images made of them.
#[derive(Debug)]
pub(super) struct Layout {
    pub(super) blobs: Blobs,
    pub(super) images: Vec<LayoutImage>,
}

/// An image of a layout; digests throughout.
#[derive(Debug)]
pub(super) struct LayoutImage {
    pub(super) name: String,
    pub(super) manifest: String,
    pub(super) media_type: String,
    /// The configuration and the layers.
    pub(super) blobs: Vec<String>,
}

#[derive(Deserialize)]
struct Index {
    manifests: Vec<Descriptor>,
}

#[derive(Deserialize)]
struct Manifest {
    config: Descriptor,
    layers: Vec<Descriptor>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Descriptor {
    media_type: String,
    digest: String,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

impl Layout {
    pub(super) fn read(archive: &[u8]) -> Result<Self, LayoutError> {
        let (index, blobs) = unpack(archive).map_err(LayoutError::Unpack)?;
        let blob = |digest: &String| {
            blobs.get(digest).ok_or_else(|| LayoutError::Missing { entry: digest.clone() })
        };
        let index = index.ok_or_else(|| LayoutError::Missing { entry: "index.json".to_owned() })?;
        let index: Index = document("index.json", &index)?;
        let mut images = Vec::new();
        for mut descriptor in index.manifests {
            let manifest: Manifest = document(&descriptor.digest, blob(&descriptor.digest)?)?;
            let parts = manifest.layers.into_iter().chain([manifest.config]);
            let parts: Vec<String> = parts.map(|part| part.digest).collect();
            for digest in &parts {
                blob(digest)?;
            }
            let name = descriptor.annotations.remove(NAME_ANNOTATION);
            images.push(LayoutImage {
                name: name
                    .ok_or_else(|| LayoutError::Nameless { digest: descriptor.digest.clone() })?,
                manifest: descriptor.digest,
                media_type: descriptor.media_type,
                blobs: parts,
            });
        }
        Ok(Self { blobs, images })
    }
}

/// The index and the blobs of an archive.
fn unpack(archive: &[u8]) -> io::Result<(Option<Vec<u8>>, Blobs)> {
    let (mut index, mut blobs) = (None, Blobs::new());
    for entry in tar::Archive::new(archive).entries()? {
        let mut entry = entry?;
        if !entry.header().entry_type().is_file() {
            continue;
        }
        let path = entry.path()?.to_string_lossy().into_owned();
        let mut content = Vec::new();
        entry.read_to_end(&mut content)?;
        if let Some(hash) = path.strip_prefix("blobs/sha256/") {
            blobs.insert(format!("sha256:{hash}"), content);
        } else if path == "index.json" {
            index = Some(content);
        }
    }
    Ok((index, blobs))
}

fn document<T: DeserializeOwned>(entry: &str, content: &[u8]) -> Result<T, LayoutError> {
    serde_json::from_slice(content)
        .map_err(|source| LayoutError::Document { entry: entry.to_owned(), source })
}

#[cfg(test)]
mod tests {
    use super::LayoutError;
    use crate::registry::Registry;
    use crate::{Error, workload};

    #[test]
    fn invalid_archive_is_named_in_the_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("broken.tar");
        std::fs::write(&path, vec![b'x'; 1024]).unwrap();
        let error = Registry::open(directory.path()).unwrap_err();
        assert_eq!(error.to_string(), format!("serving {}", path.display()));
        assert!(matches!(error, Error::Layout { source: LayoutError::Unpack(_), .. }), "{error:?}");
        let error = Registry::open(&directory.path().join("missing")).unwrap_err();
        assert!(matches!(error, Error::List { .. }), "{error:?}");
    }

    #[test]
    fn archive_without_its_parts_is_rejected() {
        let archive = workload(vec![]).archive().unwrap();
        let without = |unwanted: &dyn Fn(&str) -> bool| {
            let mut builder = tar::Builder::new(Vec::new());
            for entry in tar::Archive::new(archive.as_slice()).entries().unwrap() {
                let entry = entry.unwrap();
                if !unwanted(entry.path().unwrap().to_str().unwrap()) {
                    builder.append(&entry.header().clone(), entry).unwrap();
                }
            }
            Registry::default().add(&builder.into_inner().unwrap()).unwrap_err()
        };
        for path in ["index.json", "blobs/sha256/"] {
            let error = without(&|entry| entry.starts_with(path));
            assert!(matches!(error, LayoutError::Missing { .. }), "{path}: {error:?}");
        }
    }
}
