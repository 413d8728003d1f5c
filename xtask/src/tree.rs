//! Walking the source tree.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The folder that holds the workspace's `Cargo.toml`. Cargo sets the variable when it runs a program. Its value at build
/// time may be another checkout that shares the target directory.
pub(crate) fn workspace_root() -> Result<PathBuf> {
    let here = std::env::var_os("CARGO_MANIFEST_DIR").context("run by cargo")?;
    let root = Path::new(&here).parent().context("xtask lies in the workspace root")?;
    Ok(root.to_path_buf())
}

/// Every `.rs` file below `dir`, sorted.
pub(crate) fn rust_files(dir: &Path) -> Result<Vec<PathBuf>> {
    files(dir, "rs")
}

/// Every file below `dir` whose name ends so, sorted; build output and hidden folders are left out.
pub(crate) fn files(dir: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut pending = vec![dir.to_path_buf()];
    while let Some(dir) = pending.pop() {
        let entries = std::fs::read_dir(&dir).with_context(|| format!("read {}", dir.display()))?;
        for entry in entries {
            let path = entry.with_context(|| format!("read {}", dir.display()))?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with('.') || name == "target" {
                continue;
            }
            if path.is_dir() {
                pending.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

/// The path relative to the workspace.
pub(crate) fn relative<'a>(root: &Path, path: &'a Path) -> std::path::Display<'a> {
    path.strip_prefix(root).unwrap_or(path).display()
}
