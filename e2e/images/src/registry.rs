//! A registry to pull the images from: read-only, on loopback, on request with basic or token authentication and faults.
//!
//! Input: the archives in a directory, and the requests of a container runtime. Output: the answers
//! of the OCI distribution specification that a pull by tag or by digest needs.
//!
//! `ferrolet.test/workload:1` is served as `ferrolet/workload:1`: the runtime's configuration has the address of
//! this registry in place of a name without DNS entry.
//!
//! Invariant: no request ends the registry or makes it hold more than a few kilobytes.

mod answer;
mod faults;
mod http;
mod layout;
mod serve;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::{fs, io};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::Error;
use layout::Layout;

pub use answer::{Answer, Status};
pub use faults::{Fault, FaultKind, NoFault};
pub use http::{Method, Request};
pub use layout::{LayoutError, file_in};
pub use serve::serve;

/// The first part of the name of every repository.
pub const NAMESPACE: &str = "ferrolet";

/// The served images.
#[derive(Debug, Default)]
pub struct Registry {
    /// By name, such as `ferrolet/workload`.
    repositories: BTreeMap<String, Repository>,
    /// Manifests are blobs too. Images share layers, so blobs are stored once, by digest.
    blobs: BTreeMap<String, Vec<u8>>,
    /// How many bytes of a body are sent in a tenth of a second; without it, all at once.
    pace: Option<NonZeroUsize>,
    /// The only value of `Authorization` that is accepted; `None` without authentication.
    authorization: Option<String>,
    /// The token service, with which clients exchange their login for the token.
    tokens: Option<Tokens>,
    faults: Vec<Fault>,
}

/// The token service of a registry.
#[derive(Debug)]
struct Tokens {
    /// The URL of the service.
    realm: String,
    /// The only value of `Authorization` that it accepts.
    authorization: String,
}

/// The token that every client with the right login gets.
const TOKEN: &str = "granted";
/// The path of the token service.
const TOKEN_PATH: &str = "/token";

/// The images of one name.
#[derive(Debug, Default)]
struct Repository {
    /// Digest of a manifest, by tag.
    tags: BTreeMap<String, String>,
    /// Media type of a manifest, by digest.
    manifests: BTreeMap<String, String>,
    /// Digests of configurations and layers.
    blobs: BTreeSet<String>,
}

impl Registry {
    /// All archives of a directory.
    pub fn open(directory: &Path) -> Result<Self, Error> {
        let mut registry = Self::default();
        for path in archives(directory)? {
            let archive =
                fs::read(&path).map_err(|source| Error::Read { path: path.clone(), source })?;
            registry.add(&archive).map_err(|source| Error::Layout { path, source })?;
        }
        Ok(registry)
    }

    /// Sends bodies slowly: this many bytes in a tenth of a second.
    #[must_use]
    pub fn paced(self, pace: Option<NonZeroUsize>) -> Self {
        Self { pace, ..self }
    }

    /// Requires this user name and password: `NAME:PASSWORD`.
    #[must_use]
    pub fn with_login(self, login: &str) -> Self {
        Self { authorization: Some(format!("Basic {}", STANDARD.encode(login))), ..self }
    }

    /// The same with tokens, which clients with this login get from a service at the registry's address.
    #[must_use]
    pub fn with_token_login(self, login: &str, address: SocketAddr) -> Self {
        let realm = format!("http://{address}{TOKEN_PATH}");
        let authorization = format!("Basic {}", STANDARD.encode(login));
        let tokens = Some(Tokens { realm, authorization });
        Self { authorization: Some(format!("Bearer {TOKEN}")), tokens, ..self }
    }

    /// The same, with faults.
    #[must_use]
    pub fn with_faults(self, faults: Vec<Fault>) -> Self {
        Self { faults, ..self }
    }

    /// How clients must authenticate.
    fn challenge(&self, path: &str) -> String {
        match &self.tokens {
            Some(tokens) if path != TOKEN_PATH => {
                format!("Bearer realm=\"{}\",service=\"registry\"", tokens.realm)
            }
            _ => "Basic realm=\"registry\"".to_owned(),
        }
    }

    /// Adds an image, from its archive. An existing tag moves to it.
    pub fn add(&mut self, archive: &[u8]) -> Result<(), LayoutError> {
        let Layout { blobs, images } = Layout::read(archive)?;
        for image in images {
            let (name, tag) = served_name(&image.name)
                .ok_or_else(|| LayoutError::Name { name: image.name.clone() })?;
            let repository = self.repositories.entry(name).or_default();
            repository.tags.insert(tag, image.manifest.clone());
            repository.manifests.insert(image.manifest, image.media_type);
            repository.blobs.extend(image.blobs);
        }
        self.blobs.extend(blobs);
        Ok(())
    }
}

fn archives(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let list = || fs::read_dir(directory)?.map(|entry| entry.map(|entry| entry.path())).collect();
    let paths: io::Result<Vec<PathBuf>> = list();
    let mut paths = paths.map_err(|source| Error::List { path: directory.to_owned(), source })?;
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "tar"));
    paths.sort();
    Ok(paths)
}

/// Repository and tag of an image here: our namespace replaces the registry in its name.
fn served_name(name: &str) -> Option<(String, String)> {
    let (_, path) = name.split_once('/')?;
    let (repository, tag) = path.rsplit_once(':')?;
    Some((format!("{NAMESPACE}/{repository}"), tag.to_owned()))
}

#[cfg(test)]
mod tests;
