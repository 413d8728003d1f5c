//! All steps from the bytes of a manifest to static pods that can run.

use std::fmt;

use k8s_openapi::api::core::v1::Pod;

use crate::decode::{self, DecodeError, Warning};
use crate::defaults::set_defaults;
use crate::field_error::FieldError;
use crate::identity::{self, Origin};
use crate::validate::validate;

/// Problems beyond this number are counted, not printed.
const PRINTED_PROBLEMS: usize = 20;

/// Static pods that can run.
#[derive(Debug, Clone, PartialEq)]
pub struct Manifest {
    /// One pod of a file; any number of a URL.
    pub pods: Vec<Pod>,
    /// The fields that were ignored.
    pub warnings: Vec<Warning>,
}

/// Why a manifest has no static pods. One bad pod invalidates its list: a part of the list is not what its
/// author intended.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum ManifestError {
    /// It cannot be decoded.
    #[error("decode manifest")]
    Decode(#[source] DecodeError),
    /// It contains an invalid pod.
    #[error("invalid pod: {0}")]
    Invalid(Problems),
}

/// All problems of the fields of a manifest; never empty.
#[derive(Debug, Clone, PartialEq)]
pub struct Problems(Vec<FieldError>);

impl Problems {
    /// The problems, in the order of the checks.
    pub fn iter(&self) -> impl Iterator<Item = &FieldError> {
        self.0.iter()
    }
}

impl fmt::Display for Problems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.0.iter().take(PRINTED_PROBLEMS).enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{problem}")?;
        }
        match self.0.len().saturating_sub(PRINTED_PROBLEMS) {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

/// Decodes, defaults, identifies and validates. A file contains one pod, a URL may serve a list.
pub fn read_manifest(
    bytes: &[u8],
    origin: &Origin,
    node_name: &str,
) -> Result<Manifest, ManifestError> {
    let decoded = match origin {
        Origin::File(_) => decode::decode(bytes),
        Origin::Url(_) => decode::decode_list(bytes),
    };
    let decode::Decoded { pods: mut decoded, is_list, warnings } =
        decoded.map_err(ManifestError::Decode)?;
    let mut problems = Vec::new();
    let mut pods = Vec::with_capacity(decoded.len());
    for (index, mut pod) in decoded.drain(..).enumerate() {
        set_defaults(&mut pod);
        let mut errors = identity::obstacles(&pod).into_vec();
        let pod = identity::with_identity(pod, origin, node_name);
        errors.extend(validate(&pod));
        if is_list {
            for error in &mut errors {
                error.path = error.path.below(&decode::item_path(index));
            }
        }
        problems.append(&mut errors);
        pods.push(pod);
    }
    if problems.is_empty() {
        Ok(Manifest { pods, warnings })
    } else {
        Err(ManifestError::Invalid(Problems(problems)))
    }
}
