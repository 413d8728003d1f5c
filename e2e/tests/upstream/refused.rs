//! Configurations that the kubelet rejects: we reject them too, and name the same fields.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::blame::blamed;
use crate::case;
use crate::upstream::Place;

// behaviour: CFG-72
#[test]
fn rejected_configurations_name_the_same_fields_as_the_kubelet() {
    let cases = case::all("refused").unwrap();
    assert!(cases.len() >= 20, "{} cases", cases.len());
    let place = Place::start().unwrap();
    let different: Vec<String> = cases
        .iter()
        .filter_map(|stored| {
            let error = compare(&place, stored).err()?;
            Some(format!("{}: {error:#}", stored.display()))
        })
        .collect();
    place.stop().unwrap();
    let problem = different.join("\n\n");
    assert!(different.is_empty(), "{} of {}:\n{problem}", different.len(), cases.len());
}

fn compare(place: &Place, stored: &Path) -> Result<()> {
    let case = place.lay_out(stored)?;
    let reported_text = place.refusal(&case)?;
    let theirs = blamed(&reported_text)
        .with_context(|| format!("upstream's error names no field:\n{reported_text}"))?;
    let output = place.check(&case, &["-o", "json"])?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    ensure!(
        matches!(output.status.code(), Some(1 | 2)),
        "not refused by us, but with {theirs:?}: {stderr}"
    );
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
    let ours: Vec<NamedField> = match answer["errors"].as_array() {
        Some(errors) => errors.iter().map(NamedField::of).collect(),
        // An invalid command line is rejected before any field is validated.
        None => vec![NamedField { field: String::new(), text: stderr.trim().to_owned() }],
    };
    let same = theirs.iter().all(|theirs| ours.iter().any(|ours| ours.is(theirs)))
        && ours.iter().all(|ours| theirs.iter().any(|theirs| ours.is(theirs)));
    ensure!(same, "ours {ours:?}, theirs {theirs:?}\n{stderr}{reported_text}");
    Ok(())
}

/// A field in an error of ours.
#[derive(Debug)]
struct NamedField {
    field: String,
    /// Its source, and the error.
    text: String,
}

impl NamedField {
    fn of(error: &Value) -> Self {
        let text = |name: &str| error[name].as_str().unwrap_or_default();
        Self {
            field: text("field").to_owned(),
            text: format!("{} {}", text("source"), text("problem")),
        }
    }

    /// Whether it is the field that the kubelet names, or a part of it.
    fn is(&self, theirs: &str) -> bool {
        let is_part = |rest: &str| rest.is_empty() || rest.starts_with(['.', '[']);
        if theirs.starts_with(['-', '/']) || theirs.contains(' ') {
            self.field == theirs || self.text.contains(theirs)
        } else {
            // For a value of the wrong type, the kubelet does not say which item of a list has it.
            let plain: String =
                self.field.split(']').filter_map(|part| part.split('[').next()).collect();
            [&self.field, &plain]
                .iter()
                .any(|field| field.strip_prefix(theirs).is_some_and(is_part))
        }
    }
}
