//! A configuration as YAML with remarks as comments.

use anyhow::Result;
use serde_json::{Map, Value};

/// Returns the remark on a value, by its path.
pub(super) type Remark = fn(&str, &Value) -> Option<&'static str>;

/// The document with its remarks as comments; it parses to the same document.
pub(super) fn text(document: &Value, remark: Remark) -> Result<String> {
    let mut text = String::new();
    if let Value::Object(fields) = document {
        write(fields, "", remark, &mut text)?;
    }
    Ok(text)
}

/// The paths of the values with a remark.
pub(super) fn remarked(document: &Value, remark: Remark) -> Vec<String> {
    let mut paths = Vec::new();
    collect("", document, remark, &mut paths);
    paths
}

fn collect(path: &str, value: &Value, remark: Remark, paths: &mut Vec<String>) {
    match value {
        Value::Object(fields) if !fields.is_empty() => {
            for (name, value) in fields {
                collect(&join(path, name), value, remark, paths);
            }
        }
        _ if remark(path, value).is_some() => paths.push(path.to_owned()),
        _ => {}
    }
}

fn write(fields: &Map<String, Value>, path: &str, remark: Remark, text: &mut String) -> Result<()> {
    for (name, value) in fields {
        let path = join(path, name);
        if let Value::Object(below) = value
            && !below.is_empty()
        {
            let mut inner = String::new();
            write(below, &path, remark, &mut inner)?;
            text.push_str(&key(name)?);
            text.push('\n');
            inner.lines().for_each(|line| push(line, "  ", text));
            continue;
        }
        let entry = Map::from_iter([(name.clone(), value.clone())]);
        let entry = serde_saphyr::to_string(&entry)?;
        push_marked(entry.strip_suffix('\n').unwrap_or(&entry), remark(&path, value), text);
    }
    Ok(())
}

/// A field with its remark: after it, or above it if the value has several lines.
fn push_marked(entry: &str, remark: Option<&str>, text: &mut String) {
    let (first, rest) = entry.split_once('\n').unwrap_or((entry, ""));
    let fits = rest.is_empty() || first.ends_with(':');
    match remark {
        Some(remark) if fits => push(&format!("{first}  # {remark}"), "", text),
        Some(remark) => push(&format!("# {remark}\n{first}"), "", text),
        None => push(first, "", text),
    }
    rest.lines().for_each(|line| push(line, "", text));
}

fn push(line: &str, indent: &str, text: &mut String) {
    if !line.is_empty() {
        text.push_str(indent);
    }
    text.push_str(line);
    text.push('\n');
}

/// The key of a field as YAML writes it, with its colon.
fn key(name: &str) -> Result<String> {
    let entry = Map::from_iter([(name.to_owned(), Value::from(0))]);
    let entry = serde_saphyr::to_string(&entry)?;
    Ok(entry.trim_end().trim_end_matches(" 0").to_owned())
}

fn join(path: &str, name: &str) -> String {
    if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// A remark on fields whose names need quotes.
    fn odd(path: &str, _: &Value) -> Option<&'static str> {
        path.contains("odd").then_some("odd")
    }

    #[test]
    fn remarks_are_comments_and_the_yaml_parses_to_the_same_document() {
        let document = json!({
            "even": 1, "odd": "a", "list": [1], "oddList": ["a", "b"], "oddEmpty": {},
            "map": {"memory.odd": "5%", "even": true, "deep": {"odd: #": "x"}},
            "oddText": "one\n\n  two: 3\n", "true": "yes", "oddLong": "word ".repeat(60),
        });
        let text = text(&document, odd).unwrap();
        let read: Value = serde_saphyr::from_str(&text).unwrap();
        assert_eq!(read, document, "{text}");
        for line in ["even: 1", "odd: a  # odd", "oddList:  # odd", "  memory.odd: 5%  # odd"] {
            assert!(text.lines().any(|found| found == line), "{line}:\n{text}");
        }
        let paths = [
            "map.deep.odd: #",
            "map.memory.odd",
            "odd",
            "oddEmpty",
            "oddList",
            "oddLong",
            "oddText",
        ];
        assert_eq!(remarked(&document, odd), paths);
    }
}
