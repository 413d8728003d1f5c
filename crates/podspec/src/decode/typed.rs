//! Decodes a JSON value to a pod.

use k8s_openapi::api::core::v1::Pod;
use serde_json::Value;

use super::{DecodeError, Warning};
use crate::field_error::FieldPath;

/// Maps of texts, in which an empty entry is an empty text.
const TEXT_MAPS: &[&str] =
    &["annotations", "labels", "matchLabels", "nodeSelector", "options", "volumeAttributes"];
/// Maps of quantities, in which an empty entry is zero.
const QUANTITY_MAPS: &[&str] = &["limits", "requests", "overhead"];

/// Decodes a pod; `base` is its path in the manifest.
pub(super) fn pod(
    mut value: Value,
    base: &FieldPath,
    warnings: &mut Vec<Warning>,
) -> Result<Pod, DecodeError> {
    fill_empty_entries(&mut value);
    let mut track = serde_path_to_error::Track::new();
    let mut on_unknown = |path: serde_ignored::Path<'_>| {
        warnings.push(Warning::UnknownField(field_path(&path, base)));
    };
    let deserializer = serde_ignored::Deserializer::new(value, &mut on_unknown);
    let deserializer = serde_path_to_error::Deserializer::new(deserializer, &mut track);
    serde::Deserialize::deserialize(deserializer).map_err(|error: serde_json::Error| {
        let path = error_path(&track.path(), base);
        DecodeError::Type { path, problem: error.to_string() }
    })
}

/// Sets entries that are empty in YAML (`annotations: {a: }`) to the value that the API gives them.
fn fill_empty_entries(value: &mut Value) {
    match value {
        Value::Array(values) => values.iter_mut().for_each(fill_empty_entries),
        Value::Object(fields) => {
            for (name, field) in fields {
                let empty = if TEXT_MAPS.contains(&name.as_str()) {
                    ""
                } else if QUANTITY_MAPS.contains(&name.as_str()) {
                    "0"
                } else {
                    fill_empty_entries(field);
                    continue;
                };
                for entry in field.as_object_mut().into_iter().flat_map(|map| map.values_mut()) {
                    if entry.is_null() {
                        *entry = empty.into();
                    }
                }
            }
        }
        _ => {}
    }
}

fn field_path(path: &serde_ignored::Path<'_>, base: &FieldPath) -> FieldPath {
    use serde_ignored::Path;
    match path {
        Path::Root => base.clone(),
        Path::Seq { parent, index } => field_path(parent, base).index(*index),
        Path::Map { parent, key } => field_path(parent, base).child(key),
        Path::Some { parent }
        | Path::NewtypeStruct { parent }
        | Path::NewtypeVariant { parent } => field_path(parent, base),
    }
}

fn error_path(path: &serde_path_to_error::Path, base: &FieldPath) -> FieldPath {
    use serde_path_to_error::Segment;
    path.iter().fold(base.clone(), |path, segment| match segment {
        Segment::Seq { index } => path.index(*index),
        Segment::Map { key } => path.child(key),
        Segment::Enum { variant } => path.child(variant),
        Segment::Unknown => path,
    })
}
