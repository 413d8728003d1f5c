//! Builds all programs and tests of the workspace in one go, so that nothing is compiled twice.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

/// A test program that cargo built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct TestProgram {
    pub(super) package: String,
    /// The target's name; unit tests of a library have the library's.
    pub(super) target: String,
    /// Whether it is an integration test, below `tests/`.
    pub(super) is_integration: bool,
    /// The folder of its package: where cargo runs it.
    pub(super) directory: PathBuf,
    pub(super) executable: PathBuf,
}

/// The relevant parts of cargo's report about an artifact.
#[derive(Deserialize)]
struct Artifact {
    #[serde(default)]
    manifest_path: PathBuf,
    #[serde(default)]
    target: Target,
    #[serde(default)]
    profile: Profile,
    #[serde(default)]
    executable: Option<PathBuf>,
}

#[derive(Deserialize, Default)]
struct Target {
    name: String,
    kind: Vec<String>,
}

#[derive(Deserialize, Default)]
struct Profile {
    test: bool,
}

/// Builds everything and returns the test programs. One selection of packages and features, always the same: with
/// another one cargo would compile most of the workspace again.
pub(super) fn test_programs(root: &Path) -> Result<Vec<TestProgram>> {
    let mut cargo = cargo()
        .args(["build", "--quiet", "--locked", "--workspace", "--all-targets"])
        .args(["--features", "e2e/soak", "--message-format", "json-render-diagnostics"])
        .current_dir(root)
        .stdout(Stdio::piped())
        .spawn()
        .context("run cargo build")?;
    let output = cargo.stdout.take().context("cargo's output")?;
    let mut programs = Vec::new();
    for line in BufReader::new(output).lines() {
        programs.extend(test_program(&line.context("read cargo's output")?)?);
    }
    let status = cargo.wait().context("wait for cargo build")?;
    ensure!(status.success(), "cargo build: {status}");
    Ok(programs)
}

/// The cargo that runs this program, without the variables that it set for it. Some build scripts (ring's) run again,
/// and all that depends on them is compiled again, when these differ from those of a cargo started by hand.
fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(is_of_this_package) {
            cargo.env_remove(name);
        }
    }
    cargo
}

/// Whether cargo sets a variable to describe the package of the program that it runs.
fn is_of_this_package(name: &str) -> bool {
    name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
}

fn test_program(line: &str) -> Result<Option<TestProgram>> {
    let artifact: Artifact = serde_json::from_str(line).context("read a message of cargo")?;
    let (Artifact { manifest_path, target, profile, .. }, Some(executable)) =
        (&artifact, &artifact.executable)
    else {
        return Ok(None);
    };
    if !profile.test {
        return Ok(None);
    }
    let directory = manifest_path.parent().context("a manifest lies in a folder")?;
    let package = directory.file_name().context("a package has a folder")?;
    Ok(Some(TestProgram {
        package: package.to_string_lossy().into_owned(),
        target: target.name.clone(),
        is_integration: target.kind.iter().any(|kind| kind == "test"),
        directory: directory.to_path_buf(),
        executable: executable.clone(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_the_running_package_are_not_passed_on() {
        assert!(is_of_this_package("CARGO_MANIFEST_DIR"));
        assert!(is_of_this_package("CARGO_PKG_VERSION"));
        assert!(!is_of_this_package("CARGO_TARGET_DIR"));
        assert!(!is_of_this_package("CARGO_INCREMENTAL"));
    }

    #[test]
    fn test_programs_are_found_among_cargos_messages() {
        let artifact = |test: bool| {
            format!(
                r#"{{"reason":"compiler-artifact","manifest_path":"/w/crates/gc/Cargo.toml",
                "target":{{"name":"images","kind":["test"]}},"profile":{{"test":{test}}},
                "executable":"/t/images-1"}}"#
            )
        };
        let program = test_program(&artifact(true)).unwrap().unwrap();
        assert_eq!(
            (program.package.as_str(), program.target.as_str(), program.is_integration),
            ("gc", "images", true)
        );
        assert_eq!(program.directory, Path::new("/w/crates/gc"));
        assert_eq!(test_program(&artifact(false)).unwrap(), None, "a program, no test");
        let finished = r#"{"reason":"build-finished","success":true}"#;
        assert_eq!(test_program(finished).unwrap(), None);
        assert!(test_program("no json").is_err());
    }
}
