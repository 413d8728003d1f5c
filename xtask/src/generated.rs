//! The checked-in code of `crates/proto` is what the locked generators make.
//!
//! Building them costs minutes, so every check compares their versions: the generated code names those
//! it was made with. `crates/proto` itself compares the definitions.

use std::path::Path;

use anyhow::{Context, Result};

use crate::tree;

/// Crates that determine the output.
const GENERATORS: &[&str] =
    &["prettyplease", "prost-build", "protox", "tonic-build", "tonic-prost-build"];

/// Introduces the versions in the first line of generated code.
#[cfg(any(test, feature = "proto"))]
pub(crate) const WITH: &str = " with ";

pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let expected = generators(root)?;
    let mut problems = Vec::new();
    for path in tree::rust_files(&root.join("crates/proto/src"))? {
        let name = tree::relative(root, &path).to_string();
        let text = std::fs::read_to_string(&path).with_context(|| format!("read {name}"))?;
        let first = text.lines().next().unwrap_or_default();
        if first.starts_with("// @generated") && !first.contains(&expected) {
            problems.push(format!(
                "{name}: not made with {expected}; run `cargo run -p xtask --features proto -- proto`"
            ));
        }
    }
    Ok(problems)
}

/// The generators with their locked versions.
pub(crate) fn generators(root: &Path) -> Result<String> {
    let lock = std::fs::read_to_string(root.join("Cargo.lock")).context("read Cargo.lock")?;
    let versions: Result<Vec<String>> =
        GENERATORS.iter().map(|name| Ok(format!("{name} {}", version(&lock, name)?))).collect();
    Ok(versions?.join(", "))
}

fn version<'a>(lock: &'a str, name: &str) -> Result<&'a str> {
    let heading = format!("name = \"{name}\"");
    let mut lines = lock.lines().skip_while(|line| *line != heading).skip(1);
    let version = lines.next().and_then(|line| line.strip_prefix("version = \""));
    version
        .and_then(|line| line.strip_suffix('"'))
        .with_context(|| format!("Cargo.lock has no version of {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lay_out(lock: &str, code: &str) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("crates/proto/src")).unwrap();
        std::fs::write(root.path().join("Cargo.lock"), lock).unwrap();
        std::fs::write(root.path().join("crates/proto/src/x.rs"), code).unwrap();
        root
    }

    #[test]
    fn code_of_other_generators_is_named() {
        let package =
            |name: &&str| format!("[[package]]\nname = \"{name}\"\nversion = \"1.2.3\"\n\n");
        let lock: String = GENERATORS.iter().map(package).collect();
        let made = generators(lay_out(&lock, "").path()).unwrap();
        assert!(made.starts_with("prettyplease 1.2.3, prost-build 1.2.3"), "{made}");
        let code = format!("// @generated from proto/x by `y`{WITH}{made}, sha256 0\nstruct A;\n");
        assert_eq!(check(lay_out(&lock, &code).path()).unwrap(), [""; 0]);
        let newer = lock.replacen("1.2.3", "1.2.4", 1);
        assert_eq!(check(lay_out(&newer, &code).path()).unwrap().len(), 1);
        assert_eq!(
            check(lay_out(&newer, "struct A;\n").path()).unwrap(),
            [""; 0],
            "written by hand"
        );
        assert!(check(lay_out("", &code).path()).is_err(), "no such package");
    }
}
