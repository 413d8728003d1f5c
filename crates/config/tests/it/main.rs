//! The public API of the crate: files and arguments in, a configuration or errors out.
#![allow(clippy::disallowed_methods, reason = "tests write the files they load")]
#![allow(clippy::unwrap_used, reason = "all of this is test code")]

mod cpu_options;
mod decoding;
mod defaults;
mod dropins;
mod ferrolet;
mod flags;
mod gates;
mod pod_gc;
mod round_trip;
mod sample;
mod validation;

use std::fs;
use std::path::{Path, PathBuf};

use config::{ConfigError, FieldError, KubeletConfiguration, Loaded, load};
use model::chain::Chain;

const HEADER: &str = "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n";

/// A directory with a configuration file in it.
struct Node {
    directory: tempfile::TempDir,
}

impl Node {
    /// Writes the text unchanged.
    fn with_text(text: &str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("kubelet.yaml"), text).unwrap();
        Self { directory }
    }

    /// Writes the fields after the right version and kind.
    fn with_fields(fields: &str) -> Self {
        Self::with_text(&format!("{HEADER}{fields}\n"))
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("kubelet.yaml")
    }

    fn load(&self) -> Result<Loaded, ConfigError> {
        load(&self.file())
    }

    /// Adds a file below the directory.
    fn add(&self, name: &str, text: &str) {
        let path = self.directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }
}

/// The configuration of a file with these fields, which must be valid.
fn configured(fields: &str) -> KubeletConfiguration {
    loaded(fields).config
}

/// Like `configured`, with its warnings.
fn loaded(fields: &str) -> Loaded {
    match Node::with_fields(fields).load() {
        Ok(loaded) => loaded,
        Err(error) => panic!("{fields}\n{}", Chain(&error)),
    }
}

/// The invalid fields of a file, of which there must be some.
fn errors(fields: &str) -> Vec<FieldError> {
    match Node::with_fields(fields).load() {
        Err(ConfigError::Invalid { source, .. }) => {
            source.0.into_iter().map(without_source).collect()
        }
        Err(error) => panic!("{fields}\n{}", Chain(&error)),
        Ok(_) => panic!("accepted: {fields}"),
    }
}

/// The error without the path, which differs each time.
fn without_source(error: FieldError) -> FieldError {
    assert!(error.source.as_ref().is_none_or(|source| source.ends_with("/kubelet.yaml")));
    FieldError { source: None, ..error }
}
