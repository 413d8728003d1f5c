//! The docker configuration of the node.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use model::chain::Chain;
use model::ports::files::HostFiles;
use tokio::time::Instant;
use tracing::{info, warn};

use crate::decide::docker_config::{
    DockerConfig, DockerConfigError, parse_config_json, parse_dockercfg,
};

/// How long a configuration that was found is used before it is read again, like upstream.
const LIFETIME: Duration = Duration::from_mins(5);
/// No configuration is longer.
const LONGEST: u64 = 1 << 20;

/// Where the configuration of the node may be.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeConfigDirectories {
    /// `--root-dir`.
    pub root: PathBuf,
    /// The working directory of the agent.
    pub working: PathBuf,
    /// The home directory of the agent: `$HOME`, and nothing else.
    pub home: PathBuf,
}

/// How a file is read.
type Parse = fn(&[u8]) -> Result<DockerConfig, DockerConfigError>;

impl NodeConfigDirectories {
    /// The files in the order in which they are tried.
    fn files(&self) -> Vec<(PathBuf, Parse)> {
        let Self { root, working, home } = self;
        let slash = PathBuf::from("/");
        let current = [root, working, &home.join(".docker"), &slash.join(".docker")]
            .map(|directory| (directory.join("config.json"), parse_config_json as Parse));
        let older = [root, working, home, &slash]
            .map(|directory| (directory.join(".dockercfg"), parse_dockercfg as Parse));
        current.into_iter().chain(older).collect()
    }
}

/// Reads the docker configuration of the node.
#[derive(Debug)]
pub(crate) struct NodeConfig {
    files: Arc<dyn HostFiles>,
    directories: NodeConfigDirectories,
    /// The last configuration that was found. Never locked across an await.
    last: Mutex<Option<Last>>,
}

#[derive(Debug)]
struct Last {
    config: DockerConfig,
    path: PathBuf,
    read: Instant,
}

impl NodeConfig {
    pub(crate) fn new(files: Arc<dyn HostFiles>, directories: NodeConfigDirectories) -> Self {
        Self { files, directories, last: Mutex::default() }
    }

    fn last(&self) -> std::sync::MutexGuard<'_, Option<Last>> {
        self.last.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first configuration that can be read. One that was found is used for some time; where there was none, a new
    /// file counts at once.
    pub(crate) async fn get(&self) -> DockerConfig {
        if let Some(last) = &*self.last()
            && last.read.elapsed() < LIFETIME
        {
            return last.config.clone();
        }
        let found = self.read().await;
        let (config, last) = match found {
            None => (DockerConfig::new(), None),
            Some((path, config)) => {
                let last = Last { config: config.clone(), path, read: Instant::now() };
                (config, Some(last))
            }
        };
        let mut known = self.last();
        let path = last.as_ref().map(|last| &last.path);
        if let Some(path) = path.filter(|path| known.as_ref().map(|last| &last.path) != Some(*path))
        {
            info!(path = %path.display(), "Using the registry credentials of the node");
        }
        *known = last;
        config
    }

    async fn read(&self) -> Option<(PathBuf, DockerConfig)> {
        for (path, parse) in self.directories.files() {
            let content = match self.files.read(&path, LONGEST).await {
                Ok(content) => content,
                Err(error) if error.is_not_found() => continue,
                Err(error) => {
                    warn!(error = %Chain(&error), "Cannot read the registry credentials of the node");
                    continue;
                }
            };
            match parse(&content) {
                Ok(config) => return Some((path, config)),
                Err(error) => {
                    let path = path.display();
                    warn!(%path, %error, "Skipping the registry credentials of the node");
                }
            }
        }
        None
    }
}
