//! A stored case: the configuration and flags of a kubelet.

use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// A placeholder for the directory of the case in flags.
const DIRECTORY: &str = "@DIR@";

/// The directories below `cases/<kind>`, by name.
pub(crate) fn all(kind: &str) -> Result<Vec<PathBuf>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/upstream/cases").join(kind);
    let entries =
        fs::read_dir(&directory).with_context(|| format!("list {}", directory.display()))?;
    let mut cases = entries.map(|entry| Ok(entry?.path())).collect::<Result<Vec<_>>>()?;
    cases.sort();
    Ok(cases)
}

/// A case, copied to where it is used.
#[derive(Debug)]
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) directory: PathBuf,
    flags: Vec<String>,
}

impl Case {
    /// Copies a case to a directory below `target`, which an instance can see.
    pub(crate) fn lay_out(stored: &Path, target: &Path) -> Result<Self> {
        let name = stored.file_name().context("a case has a name")?.to_string_lossy().into_owned();
        let directory = target.join(short(&name));
        copy(stored, &directory).with_context(|| format!("copy case {name}"))?;
        let text = fs::read_to_string(directory.join("flags")).unwrap_or_default();
        let text = text.replace(DIRECTORY, &directory.display().to_string());
        let flags = text.lines().map(str::to_owned).collect();
        Ok(Self { name, directory, flags })
    }

    /// The file, if the case has one.
    pub(crate) fn file(&self) -> Option<String> {
        let file = self.directory.join("config.yaml");
        file.exists().then(|| file.display().to_string())
    }

    /// The flags, without `--config`.
    pub(crate) fn flags(&self) -> impl Iterator<Item = String> {
        self.flags.iter().cloned()
    }
}

/// The name of a case's directory. The kubelet creates a socket below it, whose path has at most 107 bytes. Files of a
/// case may refer to a directory with a short name.
fn short(name: &str) -> String {
    if name.len() <= 8 {
        return name.to_owned();
    }
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    format!("{:08x}", hasher.finish() & 0xffff_ffff)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
