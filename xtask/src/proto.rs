//! Rust code from the definitions in `crates/proto/proto`: one module per folder, which holds one package. The
//! folder's path ends with the package's name; upstream calls more than one package `v1`.
//!
//! Costly to build, and needed only when a definition changes: hence a feature of its own and
//! checked-in output.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::generated::{WITH, generators};
use anyhow::{Context, Result, bail, ensure};
use protox::prost_reflect::{DescriptorPool, FieldDescriptor};
use sha2::{Digest as _, Sha256};

pub(crate) fn generate(root: &Path) -> Result<()> {
    let definitions = root.join("crates/proto/proto");
    for (folder, files) in packages(&definitions)? {
        let module = format!("crates/proto/src/{}.rs", folder.replace('/', "_"));
        let scratch = tempfile::tempdir().context("make a scratch folder")?;
        let package = compile(&definitions, &files, scratch.path())?;
        ensure!(
            format!("/{folder}").ends_with(&format!("/{}", package.replace('.', "/"))),
            "proto/{folder}: does not end as the package {package} in it is called"
        );
        let raw = scratch.path().join(format!("{package}.rs"));
        ensure!(raw.exists(), "proto/{folder}: no code of package {package}");
        let digest = digest(&definitions.join(&folder), &files)?;
        let made_with = generators(root)?;
        format_file(root, &raw, &header(&folder, &made_with, &digest))?;
        std::fs::copy(&raw, root.join(&module)).with_context(|| format!("write {module}"))?;
        println!("{module}: {} files, sha256 {digest}", files.len());
    }
    Ok(())
}

/// First line of the output. The crate's tests compare its last word.
fn header(folder: &str, generators: &str, digest: &str) -> String {
    format!(
        "// @generated from proto/{folder} by `cargo run -p xtask --features proto -- proto`{WITH}{generators}, sha256 {digest}\n"
    )
}

/// Folder below `definitions` to its `.proto` files, sorted.
fn packages(definitions: &Path) -> Result<BTreeMap<String, Vec<PathBuf>>> {
    let mut packages = BTreeMap::<String, Vec<PathBuf>>::new();
    let mut pending = vec![definitions.to_path_buf()];
    while let Some(dir) = pending.pop() {
        let entries = std::fs::read_dir(&dir).with_context(|| format!("read {}", dir.display()))?;
        for entry in entries {
            let path = entry.with_context(|| format!("read {}", dir.display()))?.path();
            if path.is_dir() {
                pending.push(path);
            } else if path.extension().is_some_and(|extension| extension == "proto") {
                let folder = dir.strip_prefix(definitions).unwrap_or(&dir);
                let files = packages.entry(folder.display().to_string()).or_default();
                files.push(path);
            }
        }
    }
    ensure!(!packages.is_empty(), "{}: no .proto files", definitions.display());
    for files in packages.values_mut() {
        files.sort();
    }
    Ok(packages)
}

/// Makes the code of the files, which are of one package; returns its name.
fn compile(definitions: &Path, files: &[PathBuf], output: &Path) -> Result<String> {
    let mut compiler = protox::Compiler::new([definitions])?;
    compiler
        .include_imports(true)
        .include_source_info(true)
        .open_files(files)
        .context("compile the definitions")?;
    let pool = compiler.descriptor_pool();
    let packages: BTreeSet<String> = pool.files().map(|file| file.package_name().into()).collect();
    let ours: Vec<&String> = packages.iter().filter(|name| *name != "google.protobuf").collect();
    let [package] = ours[..] else {
        bail!("files of several packages: {ours:?}");
    };
    tonic_prost_build::configure()
        .build_transport(false)
        .generate_default_stubs(true)
        .btree_map(".")
        .skip_debug(messages_with_secrets(&pool))
        .out_dir(output)
        .compile_fds(compiler.file_descriptor_set())
        .context("generate code")?;
    Ok(package.clone())
}

/// Messages that have a field marked `debug_redact`, named as the generator wants them.
fn messages_with_secrets(pool: &DescriptorPool) -> Vec<String> {
    let secret = |field: FieldDescriptor| {
        let mark = field.options();
        let mark = mark.get_field_by_name("debug_redact");
        mark.is_some_and(|mark| mark.as_bool() == Some(true))
    };
    pool.all_messages()
        .filter(|message| message.fields().any(secret))
        .map(|message| format!(".{}", message.full_name()))
        .collect()
}

/// The output of `sha256sum *.proto | sha256sum` in the package's folder.
fn digest(folder: &Path, files: &[PathBuf]) -> Result<String> {
    let mut sums = String::new();
    for path in files {
        let content = std::fs::read(path).with_context(|| format!("read {}", path.display()))?;
        let name = path.strip_prefix(folder).unwrap_or(path).display();
        writeln!(sums, "{}  {name}", sha256(content))?;
    }
    Ok(sha256(sums))
}

fn sha256(content: impl AsRef<[u8]>) -> String {
    let mut hex = String::new();
    for byte in Sha256::digest(content) {
        write!(hex, "{byte:02x}").expect("writing to a string does not fail");
    }
    hex
}

/// Adds the header, and formats with the workspace's settings.
fn format_file(root: &Path, path: &Path, header: &str) -> Result<()> {
    let raw = std::fs::read_to_string(path).context("read the generated code")?;
    let code = raw.strip_prefix("// This file is @generated by prost-build.\n");
    let code = code.context("the generated code has an unknown header")?;
    std::fs::write(path, format!("{header}{code}")).context("write the generated code")?;
    let status = Command::new("rustfmt")
        .arg("--config-path")
        .arg(root.join("rustfmt.toml"))
        .arg(path)
        .current_dir(root)
        .status()
        .context("run rustfmt")?;
    if !status.success() {
        bail!("rustfmt: {status}");
    }
    Ok(())
}
