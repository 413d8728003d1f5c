//! The raw documents of the files, to find out which file set a field.

use std::path::{Path, PathBuf};

use serde_json::{Map, Value};

use crate::flags::FlagSet;

/// The documents in the order of reading.
#[derive(Debug, Default)]
pub(crate) struct SourceFiles {
    documents: Vec<(PathBuf, Value)>,
}

impl SourceFiles {
    pub(crate) fn add(&mut self, path: &Path, document: Map<String, Value>) {
        self.documents.push((path.to_owned(), Value::Object(document)));
    }

    /// Only the drop-ins.
    pub(crate) fn drop_ins(&self, behind_a_file: bool) -> &[(PathBuf, Value)] {
        &self.documents[usize::from(behind_a_file)..]
    }

    /// The source that set the field of that path last: a flag or a file.
    pub(crate) fn source_of(&self, field: &str, flags: &FlagSet) -> Option<String> {
        if let Some(flag) = flags.of_field(field) {
            return Some(format!("--{}", flag.name));
        }
        let steps: Vec<&str> =
            field.split(['.', '[']).map(|step| step.trim_end_matches(']')).collect();
        let find = |null_counts| {
            let mut documents = self.documents.iter().rev();
            documents.find(|(_, document)| has(document, &steps, null_counts))
        };
        // A null resets the field; it is the source of an error only if no other file sets the field.
        let (path, _) = find(false).or_else(|| find(true))?;
        Some(path.display().to_string())
    }
}

/// Whether a document has a value at a path, or at a parent where the path would continue.
fn has(node: &Value, steps: &[&str], null_counts: bool) -> bool {
    match (node, steps) {
        (Value::Null, _) => null_counts,
        // A key with dots was split too.
        (Value::Object(map), [_, ..]) => (1..=steps.len()).any(|count| {
            let (first, rest) = steps.split_at(count);
            map.get(&first.join(".")).is_some_and(|node| has(node, rest, null_counts))
        }),
        (Value::Array(items), [index, rest @ ..]) => {
            let index: Option<usize> = index.parse().ok();
            index
                .and_then(|index| items.get(index))
                .is_some_and(|node| has(node, rest, null_counts))
        }
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_of_a_field_is_the_last_file_that_sets_it() {
        let mut written = SourceFiles::default();
        for (path, text) in [
            ("/main", r#"{"a": {"b": 1, "c": [{"d": 1}]}, "h": {"x.y": "1", "x.z": "2"}}"#),
            ("/drop", r#"{"a": {"b": 2, "e": null}, "h": {"x.z": "3"}}"#),
        ] {
            let Ok(Value::Object(document)) = serde_json::from_str(text) else { panic!("{text}") };
            written.add(Path::new(path), document);
        }
        let flags = FlagSet::parse(["--max-pods=1", "--client-ca-file=x"]).unwrap();
        for (field, source) in [
            ("a.b", Some("/drop")),
            ("a.c[0].d", Some("/main")),
            ("a.c[1].d", None),
            ("a.e", Some("/drop")),
            ("a.f", None),
            ("h[x.y]", Some("/main")),
            ("h[x.z]", Some("/drop")),
            ("h[x.q]", None),
            ("maxPods", Some("--max-pods")),
            ("authentication.x509.clientCAFile", Some("--client-ca-file")),
            ("authentication.webhook", None),
        ] {
            assert_eq!(written.source_of(field, &flags).as_deref(), source, "{field}");
        }
    }
}
