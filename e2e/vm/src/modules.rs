//! The kernel modules of a machine, in loading order.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// The modules of a kernel.
#[derive(Debug)]
pub(crate) struct Modules {
    /// By name, with underscores.
    files: BTreeMap<String, PathBuf>,
    /// Names of those that are part of the kernel itself.
    built_in: Vec<String>,
}

impl Modules {
    /// Finds all below a kernel's directory of modules.
    pub(crate) fn below(directory: &Path) -> Result<Self> {
        let mut files = BTreeMap::new();
        collect(directory, &mut files)?;
        let list = directory.join("modules.builtin");
        let list = fs::read_to_string(&list).with_context(|| format!("read {}", list.display()))?;
        let built_in = list.lines().map(|line| name(Path::new(line))).collect();
        Ok(Self { files, built_in })
    }

    /// The files of these modules and of their dependencies, each after its own dependencies.
    pub(crate) fn in_order(&self, wanted: &[&str]) -> Result<Vec<PathBuf>> {
        let mut order = Vec::new();
        for name in wanted {
            self.put(name, &mut order)?;
        }
        Ok(order)
    }

    /// Kernel builds have no cyclic dependencies.
    fn put(&self, name: &str, order: &mut Vec<PathBuf>) -> Result<()> {
        let Some(file) = self.files.get(name) else {
            if self.built_in.iter().any(|built_in| built_in == name) {
                return Ok(());
            }
            bail!("the kernel has no module {name}");
        };
        if order.contains(file) {
            return Ok(());
        }
        let bytes = fs::read(file).with_context(|| format!("read {}", file.display()))?;
        for needed in needs(&bytes) {
            self.put(&needed, order)?;
        }
        order.push(file.clone());
        Ok(())
    }
}

fn collect(directory: &Path, files: &mut BTreeMap<String, PathBuf>) -> Result<()> {
    let list = || format!("list {}", directory.display());
    for entry in fs::read_dir(directory).with_context(list)? {
        let entry = entry.with_context(list)?;
        let path = entry.path();
        if entry.file_type().with_context(list)?.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "ko") {
            files.insert(name(&path), path);
        }
    }
    Ok(())
}

/// Files have dashes where modules have underscores.
fn name(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().replace('-', "_")
}

/// The dependencies in a module's information: entries such as `depends=`, each with a zero byte at its end.
fn needs(module: &[u8]) -> Vec<String> {
    let key = b"depends=";
    let words = module.split(|byte| *byte == 0).filter_map(|word| word.strip_prefix(key));
    let names = words.flat_map(|names| names.split(|byte| *byte == b','));
    let names = names.map(|name| String::from_utf8_lossy(name).replace('-', "_"));
    names.filter(|name| !name.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn module_follows_its_dependencies_and_is_listed_once() {
        let directory = tempfile::tempdir().unwrap();
        let below = directory.path().join("kernel/net");
        fs::create_dir_all(&below).unwrap();
        let modules = [("a", "c,b-b"), ("b-b", "c"), ("c", ""), ("unrelated", "nowhere")];
        for (name, needs) in modules {
            let text = format!("ELF\0license=x\0depends={needs}\0name={name}\0");
            fs::write(below.join(format!("{name}.ko")), text).unwrap();
        }
        fs::write(directory.path().join("modules.builtin"), "kernel/fs/ext4/ext-4.ko\n").unwrap();
        let found = Modules::below(directory.path()).unwrap();
        let order = found.in_order(&["a", "c", "ext_4"]).unwrap();
        let names: Vec<String> = order.iter().map(|path| name(path)).collect();
        assert_eq!(names, ["c", "b_b", "a"]);
        let error = found.in_order(&["unrelated"]).unwrap_err();
        assert_eq!(error.to_string(), "the kernel has no module nowhere");
    }
}
