//! `decide/` folders stay pure: values and `now` in, values out.
//!
//! A decision may name only the paths listed in [`PURE`]; it is never async, never logs, and never reads a clock, a
//! file or the environment. Test modules inside it may use more.

use std::path::Path;

use anyhow::{Context, Result};
use syn::visit::{self, Visit};

use crate::tree;

/// First parts of paths that a decision may name. `crate`, `self` and `super` are resolved by [`impure_within_crate`]:
/// a decision may only use other decisions of its crate.
const PURE: &[&str] = &[
    "std",
    "core",
    "model",
    "podspec",
    "config",
    "k8s_openapi",
    "jiff",
    "serde_json",
    "thiserror",
    "base64",
    "form_urlencoded",
    "regex_syntax",
    // Formats and hashes: values in, values out.
    "base64",
    "serde",
    "serde_saphyr",
    "sha2",
];

/// Parts of `std` that are not pure, wherever they appear in a path.
const IMPURE_STD: &[&str] = &[
    "fs",
    "env",
    "TcpStream",
    "TcpListener",
    "UdpSocket",
    "process",
    "thread",
    "io",
    "os",
    "Instant",
    "SystemTime",
    "Mutex",
    "RwLock",
    "OnceLock",
    "LazyLock",
    "Condvar",
    "mpsc",
    "atomic",
    "RandomState",
    "HashMap",
    "HashSet",
];

/// Macros that log or print.
const IMPURE_MACROS: &[&str] = &[
    "println", "eprintln", "print", "eprint", "dbg", "trace", "debug", "info", "warn", "error",
    "span",
];

pub(crate) fn check(root: &Path) -> Result<Vec<String>> {
    let mut problems = Vec::new();
    for path in tree::rust_files(&root.join("crates"))? {
        if !is_decision(&path) {
            continue;
        }
        let text =
            std::fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))?;
        let name = tree::relative(root, &path).to_string();
        let found = impurities(&text).with_context(|| format!("parse {name}"))?;
        problems.extend(found.into_iter().map(|found| format!("{name}: {found}")));
    }
    Ok(problems)
}

/// `decide.rs` and everything below `decide/`, except test files of their own.
fn is_decision(path: &Path) -> bool {
    let is_test_file = path.file_stem().is_some_and(|stem| {
        let stem = stem.to_string_lossy();
        stem == "tests" || stem == "test_pods" || stem.ends_with("_tests")
    });
    let below = path.components().any(|part| {
        let part = part.as_os_str();
        part == "decide" || part == "decide.rs"
    });
    below && !is_test_file && !path.components().any(|part| part.as_os_str() == "tests")
}

fn impurities(text: &str) -> Result<Vec<String>> {
    let file = syn::parse_file(text)?;
    let mut finder = Finder { known: declared_names(&file), found: Vec::new() };
    finder.visit_file(&file);
    Ok(finder.found)
}

fn is_self(tree: &syn::UseTree) -> bool {
    matches!(tree, syn::UseTree::Name(name) if name.ident == "self")
}

/// Names that the file itself brings into scope: a path that begins with one of them was judged at
/// its `use`.
fn declared_names(file: &syn::File) -> Vec<String> {
    struct Names(Vec<String>);
    impl<'ast> Visit<'ast> for Names {
        fn visit_use_name(&mut self, name: &'ast syn::UseName) {
            self.0.push(name.ident.to_string());
        }
        fn visit_use_path(&mut self, path: &'ast syn::UsePath) {
            // `use a::b::{self, C}` brings `b` into scope.
            if let syn::UseTree::Group(group) = &*path.tree
                && group.items.iter().any(is_self)
            {
                self.0.push(path.ident.to_string());
            }
            visit::visit_use_path(self, path);
        }
        fn visit_use_rename(&mut self, rename: &'ast syn::UseRename) {
            self.0.push(rename.rename.to_string());
        }
        fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
            self.0.push(item.ident.to_string());
        }
        fn visit_item_enum(&mut self, item: &'ast syn::ItemEnum) {
            self.0.push(item.ident.to_string());
        }
        fn visit_item_struct(&mut self, item: &'ast syn::ItemStruct) {
            self.0.push(item.ident.to_string());
        }
        fn visit_generic_param(&mut self, param: &'ast syn::GenericParam) {
            if let syn::GenericParam::Type(param) = param {
                self.0.push(param.ident.to_string());
            }
            visit::visit_generic_param(self, param);
        }
    }
    let mut names = Names(Vec::new());
    names.visit_file(file);
    names.0
}

struct Finder {
    known: Vec<String>,
    found: Vec<String>,
}

impl Finder {
    fn judge(&mut self, parts: &[String]) {
        let Some(first) = parts.first() else { return };
        let shown = parts.join("::");
        let asks_a_clock = parts.len() > 1 && parts.last().is_some_and(|last| last == "now");
        let impure = asks_a_clock
            || match first.as_str() {
                "config" => parts.iter().any(|part| part.starts_with("load")),
                "crate" | "super" | "self" | "Self" => impure_within_crate(parts),
                "std" | "core" => parts.iter().any(|part| IMPURE_STD.contains(&part.as_str())),
                _ if self.known.iter().any(|name| name == first) => {
                    // `use std::time;` would hide `time::Instant`.
                    parts.iter().any(|part| part == "Instant" || part == "SystemTime")
                }
                _ if parts.len() == 1 || first.starts_with(char::is_uppercase) => false,
                // A primitive type or a module of the prelude: `u32::MAX`, `str::len`.
                _ if is_primitive(first) => false,
                // The decisions of another crate follow the same rules.
                _ => {
                    !PURE.contains(&first.as_str())
                        && parts.get(1).is_none_or(|part| part != "decide")
                }
            };
        if impure {
            self.found.push(format!("`{shown}` has no place in a decision"));
        }
    }
}

/// Only `crate::decide`, and plain data in `crate::plan`, may be named.
fn impure_within_crate(parts: &[String]) -> bool {
    let next = parts.get(1).map(String::as_str);
    match parts[0].as_str() {
        "crate" => next.is_some_and(|next| !["decide", "plan"].contains(&next)),
        // Two folders up is outside of `decide/`.
        "super" => next == Some("super"),
        _ => false,
    }
}

fn is_primitive(name: &str) -> bool {
    matches!(
        name,
        "u8" | "u16"
            | "u32"
            | "u64"
            | "u128"
            | "usize"
            | "i8"
            | "i16"
            | "i32"
            | "i64"
            | "i128"
            | "isize"
            | "f32"
            | "f64"
            | "str"
            | "char"
            | "bool"
    )
}

fn use_paths(tree: &syn::UseTree, prefix: &[String], paths: &mut Vec<Vec<String>>) {
    let with = |ident: &syn::Ident| {
        let mut parts = prefix.to_vec();
        parts.push(ident.to_string());
        parts
    };
    match tree {
        syn::UseTree::Path(path) => use_paths(&path.tree, &with(&path.ident), paths),
        syn::UseTree::Name(name) => paths.push(with(&name.ident)),
        syn::UseTree::Rename(rename) => paths.push(with(&rename.ident)),
        syn::UseTree::Glob(_) => paths.push(prefix.to_vec()),
        syn::UseTree::Group(group) => {
            for item in &group.items {
                use_paths(item, prefix, paths);
            }
        }
    }
}

impl<'ast> Visit<'ast> for Finder {
    fn visit_item_mod(&mut self, item: &'ast syn::ItemMod) {
        let is_test = item.attrs.iter().any(|attribute| {
            attribute.path().is_ident("cfg")
                && attribute.meta.require_list().is_ok_and(|list| list.tokens.to_string() == "test")
        });
        if !is_test {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        let mut paths = Vec::new();
        use_paths(&item.tree, &[], &mut paths);
        for parts in paths {
            self.judge(&parts);
        }
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let parts: Vec<String> = path.segments.iter().map(|part| part.ident.to_string()).collect();
        self.judge(&parts);
        visit::visit_path(self, path);
    }

    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    fn visit_signature(&mut self, signature: &'ast syn::Signature) {
        if signature.asyncness.is_some() {
            self.found.push(format!("`{}` is async", signature.ident));
        }
        visit::visit_signature(self, signature);
    }

    fn visit_expr_async(&mut self, _: &'ast syn::ExprAsync) {
        self.found.push("an async block".to_owned());
    }

    fn visit_macro(&mut self, item: &'ast syn::Macro) {
        if let Some(name) = item.path.segments.last().map(|part| part.ident.to_string())
            && IMPURE_MACROS.contains(&name.as_str())
        {
            self.found.push(format!("`{name}!` logs or prints"));
        }
    }

    fn visit_item_static(&mut self, item: &'ast syn::ItemStatic) {
        self.found.push(format!("`static {}`: use a const", item.ident));
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{impurities, is_decision};

    #[test]
    fn code_without_io_is_pure() {
        let text = "use std::collections::BTreeMap;\nuse std::time::Duration;\nuse model::ids::PodUid;\n\
                    use podspec::view::{self, Uid};\nuse pods::decide::worker::Update;\nfn g() -> Uid { view::uid() }\n\
                    pub fn f(now: jiff::Timestamp, m: &BTreeMap<PodUid, u32>) -> Vec<Duration> \
                    { let x = u32::MAX; Vec::new() }\n";
        assert_eq!(impurities(text).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn every_kind_of_impurity_is_found() {
        let rows = [
            "use std::fs;",
            "use std::time::{Duration, Instant};",
            "use std::time; fn f() { time::Instant::now(); }",
            "fn f() { std::env::var(\"x\"); }",
            "fn f() -> std::time::SystemTime { panic!() }",
            "use tokio::time::sleep;",
            "use pods::workers::WorkersTask;",
            "fn f() { tokio::spawn(x); }",
            "async fn f() {}",
            "fn f() { let a = async { 1 }; }",
            "fn f() { println!(\"x\"); }",
            "fn f() { tracing::info!(\"x\"); }",
            "use crate::task::Relist;",
            "static X: u32 = 1;",
            "fn f() { jiff::Timestamp::now(); }",
            "use jiff::Timestamp; fn f() { Timestamp::now(); }",
            "use super::super::task::Relist;",
            "fn f() { config::load(x); }",
            "use std::collections::HashMap;",
        ];
        for text in rows {
            assert_eq!(impurities(text).unwrap().len(), 1, "{text}");
        }
    }

    #[test]
    fn test_modules_may_be_impure() {
        let text = "#[cfg(test)]\nmod tests { use std::fs; async fn f() { println!(\"x\"); } }";
        assert_eq!(impurities(text).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn decisions_are_the_decide_file_and_everything_below_the_folder() {
        let rows = [
            ("crates/pleg/src/decide.rs", true),
            ("crates/pleg/src/decide/diff.rs", true),
            ("crates/pleg/src/decide/diff_tests.rs", false),
            ("crates/pleg/src/task.rs", false),
        ];
        for (path, expected) in rows {
            assert_eq!(is_decision(Path::new(path)), expected, "{path}");
        }
    }
}
