//! Function parameters have names: a tuple such as `(a, b): (A, B)` hides parameters from clippy's limit. Values that
//! belong together are a struct.

use std::path::Path;

use anyhow::{Context, Result};
use syn::visit::{self, Visit};

use crate::tree;

/// How many functions may have such a parameter.
const LIMIT: usize = 0;

pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let mut found = Vec::new();
    for path in tree::rust_files(root)? {
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        let name = tree::relative(root, &path).to_string();
        let functions = tuple_functions(&text).with_context(|| format!("parse {name}"))?;
        found.extend(functions.into_iter().map(|function| format!("{name}: {function}")));
    }
    Ok(problems(found, LIMIT))
}

fn problems(mut found: Vec<String>, limit: usize) -> Vec<String> {
    let count = found.len();
    if count <= limit {
        return Vec::new();
    }
    found.push(format!("{count} functions take a tuple apart, at most {limit} may: use structs"));
    found
}

/// The functions and methods with a tuple pattern among their parameters. Closures may have them: their parameters are
/// not limited.
fn tuple_functions(text: &str) -> Result<Vec<String>> {
    let mut finder = Finder::default();
    finder.visit_file(&syn::parse_file(text)?);
    Ok(finder.found)
}

#[derive(Default)]
struct Finder {
    found: Vec<String>,
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        let is_tuple = |input: &syn::FnArg| matches!(input, syn::FnArg::Typed(typed) if matches!(*typed.pat, syn::Pat::Tuple(_)));
        if signature.inputs.iter().any(is_tuple) {
            self.found.push(signature.ident.to_string());
        }
        visit::visit_signature(self, signature);
    }
}

#[cfg(test)]
mod tests {
    use super::{problems, tuple_functions};

    #[test]
    fn functions_and_methods_with_tuple_parameters_are_found() {
        let text = "fn a((x, y): (u8, u8)) { fn c((x, y): Pair) {} }\n\
                    impl A { fn b(&self, one: u8, (x, _): (u8, u8)) {} fn d(&self, p: Pair) {} }\n\
                    fn e(at: (u8, u8)) { [at].iter().map(|(x, y): &(u8, u8)| x + y); }";
        assert_eq!(tuple_functions(text).unwrap(), ["a", "c", "b"]);
    }

    #[test]
    fn functions_are_listed_when_they_exceed_the_limit() {
        let found = vec!["a".to_owned(), "b".to_owned()];
        assert!(problems(found.clone(), 2).is_empty());
        let last = "2 functions take a tuple apart, at most 1 may: use structs";
        assert_eq!(problems(found, 1), ["a", "b", last]);
    }
}
