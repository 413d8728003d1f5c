//! A file is one thing: at most 500 lines of code, inline tests and generated files aside.

use std::path::Path;

use anyhow::{Context, Result};

use crate::tree;

const LIMIT: usize = 500;

pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for path in tree::rust_files(root)? {
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        let lines = code_lines(&text);
        if lines > LIMIT {
            let name = tree::relative(root, &path);
            problems.push(format!("{name}: {lines} lines of code, at most {LIMIT}"));
        }
    }
    Ok(problems)
}

/// Lines up to the inline test module, without blank lines and comments.
fn code_lines(text: &str) -> usize {
    if text.lines().next().is_some_and(|line| line.contains("@generated")) {
        return 0;
    }
    text.lines()
        .map(str::trim)
        .take_while(|line| *line != "#[cfg(test)]")
        .filter(|line| !line.is_empty() && !line.starts_with("//"))
        .count()
}

#[cfg(test)]
mod tests {
    use super::code_lines;

    #[test]
    fn blank_lines_comments_and_inline_tests_do_not_count() {
        let text = "//! docs\n\nfn a() {\n    // why\n}\n#[cfg(test)]\nmod tests {}\n";
        assert_eq!(code_lines(text), 2);
    }

    #[test]
    fn generated_files_do_not_count() {
        assert_eq!(code_lines("// @generated from x\nfn a() {}\n"), 0);
    }
}
