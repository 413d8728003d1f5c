//! Checks that a compiler does not make, and code generation.
//!
//! `cargo xtask arch` asserts the layers of the workspace and the purity of `decide/` folders,
//! `cargo xtask size` the length of files and that few functions take tuples apart, `cargo xtask docs` that documents name files that exist,
//! `cargo xtask behaviour` that `make test` runs a test for every row of the behaviour tables, `cargo xtask generated`
//! that generated code was made with the generators of `Cargo.lock`, `cargo xtask words` that nothing
//! uses banned words and former names.
//! `cargo xtask test` builds all tests once and runs a stage of them.
//! `cargo run -p xtask --features proto -- proto` writes the generated code of `crates/proto`,
//! `make record` the picture of the README.
#![allow(
    clippy::disallowed_methods,
    reason = "a tool of the build: it reads the source tree and the environment"
)]

mod arch;
mod arguments;
mod behaviour;
mod docs;
mod generated;
#[cfg(feature = "picture")]
mod picture;
#[cfg(feature = "proto")]
mod proto;
mod purity;
mod size;
mod tests;
mod tree;
mod words;

use anyhow::{Result, bail};

fn main() -> Result<()> {
    let root = tree::workspace_root()?;
    let mut args = std::env::args().skip(1);
    let command = args.next();
    let problems = match command.as_deref() {
        Some("arch") => {
            let mut problems = arch::check(&root)?;
            problems.extend(purity::check(&root)?);
            problems
        }
        Some("size") => {
            let mut problems = size::check(&root)?;
            problems.extend(arguments::check(&root)?);
            problems
        }
        Some("docs") => docs::check(&root)?,
        Some("behaviour") => behaviour::check(&root)?,
        Some("generated") => generated::check(&root)?,
        Some("words") => words::check(&root)?,
        Some("test") => {
            tests::run(&root, &args.collect::<Vec<_>>())?;
            Vec::new()
        }
        #[cfg(feature = "picture")]
        Some("picture") => {
            picture::record(&root)?;
            Vec::new()
        }
        #[cfg(not(feature = "picture"))]
        Some("picture") => bail!("run it as: make record"),
        #[cfg(feature = "proto")]
        Some("proto") => {
            proto::generate(&root)?;
            Vec::new()
        }
        #[cfg(not(feature = "proto"))]
        Some("proto") => bail!("run it as: cargo run -p xtask --features proto -- proto"),
        _ => {
            bail!("usage: cargo xtask arch|size|docs|behaviour|generated|words|test|picture|proto")
        }
    };
    for problem in &problems {
        eprintln!("{problem}");
    }
    if problems.is_empty() {
        return Ok(());
    }
    bail!("{} problem(s)", problems.len())
}
