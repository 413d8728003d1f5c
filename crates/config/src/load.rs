//! Loads a configuration from files and flags.

use std::io;
use std::path::{Path, PathBuf};

use serde_json::Value;
use thiserror::Error;

use crate::decode::{DecodeError, Duplicates, KUBELET, decode};
use crate::defaults::{Origin, complete};
use crate::dropins;
use crate::fields::KubeletConfiguration;
use crate::finding::{FieldErrors, Findings, Warning};
use crate::flags::FlagSet;
use crate::gates::none;
use crate::paths::make_absolute;
use crate::source_files::SourceFiles;
use crate::validate::{CgroupVersion, validate, validate_cgroup_version};

/// A valid configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Loaded {
    /// The settings, complete and checked.
    pub config: KubeletConfiguration,
    /// Warnings for the operator.
    pub warnings: Vec<Warning>,
    /// Files of the drop-in directory that were skipped for their extension.
    pub skipped: Vec<PathBuf>,
}

/// Why there is no configuration.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// A file does not exist or cannot be read.
    #[error("cannot read configuration file {}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The I/O error.
        #[source]
        source: io::Error,
    },
    /// The drop-in directory does not exist or cannot be listed.
    #[error("cannot list drop-in directory {}", path.display())]
    ReadDirectory {
        /// The directory.
        path: PathBuf,
        /// The I/O error.
        #[source]
        source: io::Error,
    },
    /// A file is not a configuration document.
    #[error("cannot decode the configuration")]
    Decode(#[source] DecodeError),
    /// Some fields are invalid.
    #[error("invalid configuration")]
    Invalid {
        /// All invalid fields.
        #[source]
        source: FieldErrors,
        /// Further warnings.
        warnings: Vec<Warning>,
    },
}

/// Reads a configuration file, completes it with defaults and checks it.
pub fn load(path: &Path) -> Result<Loaded, ConfigError> {
    load_sources(Some(path), None, &FlagSet::default())
}

/// Merges the file, the drop-in directory and the flags; later ones take precedence.
///
/// The paths are those of `--config` and `--config-dir`; the caller may have other defaults.
pub fn load_sources(
    file: Option<&Path>,
    drop_in_directory: Option<&Path>,
    flags: &FlagSet,
) -> Result<Loaded, ConfigError> {
    load_for(None, file, drop_in_directory, flags)
}

/// Like `load_sources`, for a machine with a known cgroup version, which restricts some fields.
pub fn load_sources_for(
    machine: CgroupVersion,
    file: Option<&Path>,
    drop_in_directory: Option<&Path>,
    flags: &FlagSet,
) -> Result<Loaded, ConfigError> {
    load_for(Some(machine), file, drop_in_directory, flags)
}

fn load_for(
    machine: Option<CgroupVersion>,
    file: Option<&Path>,
    drop_in_directory: Option<&Path>,
    flags: &FlagSet,
) -> Result<Loaded, ConfigError> {
    let mut findings = Findings::default();
    let mut sources = SourceFiles::default();
    let mut skipped = Vec::new();

    let mut config = if let Some(path) = file {
        read_file(path, flags, &mut findings, &mut sources)?
    } else {
        KubeletConfiguration::without_file(&flags.feature_gates())
    };
    if let Some(directory) = drop_in_directory {
        let drop_ins = dropins::list(directory)?;
        if file.is_none() {
            // Drop-ins are merged after the flags; errors of the flags are reported below.
            flags.apply(&mut config, &mut Findings::default());
        }
        for path in drop_ins.files {
            sources.add(&path, dropins::read(&path)?);
        }
        config = merge(&config, sources.drop_ins(file.is_some()), flags, &mut findings);
        skipped = drop_ins.skipped;
    }
    if file.is_some() || drop_in_directory.is_some() {
        forget_split_streams(&mut config, &mut findings);
    }
    flags.apply(&mut config, &mut findings);
    findings.warnings.extend(flags.warnings());
    flags.check(&mut findings);
    check(&config, machine, &mut findings);
    if findings.errors.is_empty() {
        return Ok(Loaded { config, warnings: findings.warnings, skipped });
    }
    for error in &mut findings.errors {
        if error.source.is_none() {
            error.source = sources.source_of(&error.field, flags);
        }
    }
    Err(ConfigError::Invalid { source: FieldErrors(findings.errors), warnings: findings.warnings })
}

/// Validates the configuration. A field that could not be read has its default, which is valid.
fn check(config: &KubeletConfiguration, machine: Option<CgroupVersion>, findings: &mut Findings) {
    let mut found = Findings::default();
    validate(config, &mut found);
    if let Some(version) = machine {
        found.errors.extend(validate_cgroup_version(config, version));
    }
    let unread: Vec<String> = findings.errors.iter().map(|error| error.field.clone()).collect();
    found.errors.retain(|error| !unread.contains(&error.field));
    findings.errors.append(&mut found.errors);
    findings.warnings.append(&mut found.warnings);
}

fn read_file(
    path: &Path,
    flags: &FlagSet,
    findings: &mut Findings,
    sources: &mut SourceFiles,
) -> Result<KubeletConfiguration, ConfigError> {
    let read_error = |source| ConfigError::Read { path: path.to_owned(), source };
    let absolute = std::path::absolute(path).map_err(read_error)?;
    let text = std::fs::read_to_string(&absolute).map_err(read_error)?;
    let document = decode(&text, path, KUBELET, Duplicates::LastWins, findings)
        .map_err(ConfigError::Decode)?;
    sources.add(path, document.clone());
    let mut config = complete(document, Origin::File, &flags.feature_gates(), findings);
    make_absolute(&mut config, absolute.parent().unwrap_or(Path::new("/")));
    Ok(config)
}

/// The kubelet registers the split-stream flags after the files were read, which resets the fields to their
/// defaults: only the flags have an effect.
fn forget_split_streams(config: &mut KubeletConfiguration, findings: &mut Findings) {
    let options = &mut config.logging.options;
    for (format, output) in [("text", &mut options.text), ("json", &mut options.json)] {
        if std::mem::take(&mut output.split_stream) {
            let field = format_args!("logging.options.{format}.splitStream");
            findings.doubt(field, format_args!("counts as --log-{format}-split-stream alone"));
        }
    }
}

/// Merges the drop-ins.
fn merge(
    base: &KubeletConfiguration,
    drop_ins: &[(PathBuf, Value)],
    flags: &FlagSet,
    findings: &mut Findings,
) -> KubeletConfiguration {
    let mut merged = base.to_value();
    for (_, document) in drop_ins {
        dropins::merge(&mut merged, document.clone());
    }
    let Value::Object(merged) = merged else {
        unreachable!("merging objects gives an object");
    };
    let mut own = Findings::default();
    let config = complete(merged, Origin::Merged, &flags.feature_gates(), &mut own);
    findings.errors.extend(own.errors);
    let unknown = drop_ins.iter().flat_map(|(file, document)| unknown_fields(file, document));
    findings.warnings.extend(unknown);
    config
}

/// The unknown fields of a drop-in. Upstream ignores them without a warning, and with them a
/// setting that an operator relies on.
fn unknown_fields(file: &Path, document: &Value) -> Vec<Warning> {
    let Value::Object(fields) = document else { return Vec::new() };
    let mut found = Findings::default();
    complete(fields.clone(), Origin::Merged, none(), &mut found);
    let unknown = found.warnings.into_iter().filter_map(|warning| match warning {
        Warning::UnknownField { field } => {
            Some(Warning::UnknownDropInField { file: file.to_owned(), field })
        }
        _ => None,
    });
    unknown.collect()
}
