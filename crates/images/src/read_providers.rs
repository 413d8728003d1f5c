//! Reads the configuration of credential providers at the start.

use std::path::{Path, PathBuf};

use model::ports::files::{FileError, FileKind, HostFiles};

use crate::decide::provider_config::{Provider, parse_providers, problems};
use crate::decide::sha256_hex;

/// No file of the configuration is longer.
const LONGEST: u64 = 4 << 20;

/// The credential providers of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderSettings {
    /// In the order of the configuration.
    pub(crate) providers: Vec<Provider>,
    /// The directory of their programs.
    pub(crate) bin_dir: PathBuf,
    /// The hash of the configuration, for the metric.
    pub(crate) hash: String,
}

/// Why the agent does not start with its credential providers.
#[derive(Debug, thiserror::Error)]
pub enum ProvidersError {
    /// One flag is set without the other.
    #[error(
        "--image-credential-provider-config and --image-credential-provider-bin-dir must be set together"
    )]
    OneFlag,
    /// A file cannot be read.
    #[error("credential provider configuration")]
    Read(#[source] FileError),
    /// The directory has no configuration.
    #[error("credential provider configuration {}: no .json, .yaml or .yml file", .0.display())]
    Empty(PathBuf),
    /// A file is not a configuration.
    #[error("credential provider configuration {}: {problem}", path.display())]
    Parse {
        /// The file.
        path: PathBuf,
        /// The problem.
        problem: String,
    },
    /// The providers cannot be used as configured.
    #[error("credential provider configuration {}: {}", path.display(), problems.join("; "))]
    Invalid {
        /// The file or directory.
        path: PathBuf,
        /// The problems.
        problems: Vec<String>,
    },
    /// The directory of the programs, or a program, cannot be used.
    #[error("credential provider program")]
    Program(#[source] FileError),
    /// A program is not a file, or the directory is not a directory.
    #[error("credential provider program {}: it is not a {expected}", path.display())]
    ProgramKind {
        /// Its path.
        path: PathBuf,
        /// What was expected.
        expected: &'static str,
    },
}

/// Reads and checks the configuration, and checks that each provider has a program. None if no path is set.
pub async fn read_providers(
    files: &dyn HostFiles,
    [config, bin_dir]: [&Path; 2],
    allows_tokens: bool,
) -> Result<Option<ProviderSettings>, ProvidersError> {
    match [config, bin_dir].map(|path| path.as_os_str().is_empty()) {
        [true, true] => return Ok(None),
        [false, false] => {}
        _ => return Err(ProvidersError::OneFlag),
    }
    let (mut providers, mut content) = (Vec::new(), Vec::new());
    for path in config_files(files, config).await? {
        let bytes = files.read(&path, LONGEST).await.map_err(ProvidersError::Read)?;
        let parse = |problem| ProvidersError::Parse { path: path.clone(), problem };
        let text = str::from_utf8(&bytes).map_err(|_| parse("it is not UTF-8".to_owned()))?;
        providers.extend(parse_providers(text).map_err(parse)?);
        content.extend(bytes);
    }
    let problems = problems(&providers, allows_tokens);
    if !problems.is_empty() {
        return Err(ProvidersError::Invalid { path: config.to_owned(), problems });
    }
    check(files, bin_dir, Expected::Directory).await?;
    for provider in &providers {
        check(files, &bin_dir.join(&provider.name), Expected::File).await?;
    }
    let hash = format!("sha256:{}", sha256_hex(&content));
    Ok(Some(ProviderSettings { providers, bin_dir: bin_dir.to_owned(), hash }))
}

/// The file itself, or those of a directory in the order of their names.
async fn config_files(
    files: &dyn HostFiles,
    config: &Path,
) -> Result<Vec<PathBuf>, ProvidersError> {
    let found = files.look(config).await.map_err(ProvidersError::Read)?;
    if found.kind != FileKind::Directory {
        return Ok(vec![config.to_owned()]);
    }
    let mut names = files.list(config).await.map_err(ProvidersError::Read)?;
    names.retain(|name| {
        let extension = Path::new(name).extension().and_then(|extension| extension.to_str());
        matches!(extension, Some("json" | "yaml" | "yml"))
    });
    if names.is_empty() {
        return Err(ProvidersError::Empty(config.to_owned()));
    }
    Ok(names.into_iter().map(|name| config.join(name)).collect())
}

enum Expected {
    Directory,
    File,
}

async fn check(
    files: &dyn HostFiles,
    path: &Path,
    expected: Expected,
) -> Result<(), ProvidersError> {
    let found = files.look(path).await.map_err(ProvidersError::Program)?;
    let (kind, expected) = match expected {
        Expected::Directory => (FileKind::Directory, "directory"),
        Expected::File => (FileKind::File, "file"),
    };
    if found.kind == kind {
        return Ok(());
    }
    Err(ProvidersError::ProgramKind { path: path.to_owned(), expected })
}
