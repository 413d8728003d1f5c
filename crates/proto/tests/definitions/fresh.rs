//! The checked-in code was generated from the checked-in definitions.

use std::fmt::Write as _;

use anyhow::{Context, Result};
use sha2::{Digest as _, Sha256};

use crate::parse;

fn sha256(content: impl AsRef<[u8]>) -> String {
    let mut hex = String::new();
    for byte in Sha256::digest(content) {
        write!(hex, "{byte:02x}").expect("writing to a string does not fail");
    }
    hex
}

#[test]
fn generated_code_has_the_digest_of_the_definitions() -> Result<()> {
    for protocol in parse::ALL {
        // What `sha256sum *.proto | sha256sum` prints in the folder.
        let mut sums = String::new();
        for path in protocol.files()? {
            let name = path.file_name().context("a file has a name")?.display();
            let content = std::fs::read(&path).with_context(|| format!("read {name}"))?;
            writeln!(sums, "{}  {name}", sha256(content))?;
        }
        let first = protocol.generated.lines().next().unwrap_or_default();
        let from = format!("// @generated from proto/{} ", protocol.folder);
        assert!(first.starts_with(&from), "{first}");
        assert_eq!(
            first.rsplit(' ').next(),
            Some(sha256(sums).as_str()),
            "stale code: run `cargo run -p xtask --features proto -- proto`"
        );
    }
    Ok(())
}
