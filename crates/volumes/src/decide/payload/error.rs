//! Why the files of a volume cannot be computed.

use std::collections::BTreeSet;
use std::sync::Arc;

use model::go_text::quoted;
use model::ports::objects::ObjectError;

use super::TrustBundleError;

/// Why the files of a volume cannot be computed. The texts are upstream's, because users search for
/// them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PayloadError {
    /// An object cannot be read.
    #[error(transparent)]
    Object(ObjectError),
    /// A config map lacks a key.
    #[error("configmap references non-existent config key: {0}")]
    ConfigKey(String),
    /// A secret lacks a key.
    #[error("references non-existent secret key: {0}")]
    SecretKey(String),
    /// A field of the pod cannot be a file.
    #[error("unsupported fieldPath: {0}")]
    FieldPath(String),
    /// A field of the pod has no parts.
    #[error("fieldPath {} does not support subscript", quoted(.0))]
    FieldSubscript(String),
    /// The key of a label or annotation is invalid.
    #[error("invalid key subscript in {path}: {problems}")]
    FieldKey {
        /// The path of the field.
        path: String,
        /// The problem of the key.
        problems: String,
    },
    /// The pod has no container of that name.
    #[error("container {0} not found")]
    NoContainer(String),
    /// A resource of a container cannot be a file.
    #[error("unsupported container resource : {0}")]
    Resource(String),
    /// A token cannot be requested.
    #[error("{0}")]
    Token(Arc<str>),
    /// A token was not requested.
    #[error("failed to fetch token: it was not requested")]
    NoToken,
    /// Trust bundles cannot be read.
    #[error(transparent)]
    TrustBundle(TrustBundleError),
    /// There is no certificate for the pod.
    #[error("{0}")]
    PodCertificate(Arc<str>),
    /// A path is empty.
    #[error("invalid path: must not be empty: {}", quoted(.0))]
    EmptyPath(String),
    /// A path is absolute.
    #[error("invalid path: must be relative path: {0}")]
    AbsolutePath(String),
    /// A path is too long.
    #[error("invalid path: must be less than or equal to {0} characters")]
    LongPath(usize),
    /// A path leads upwards.
    #[error("invalid path: must not contain '..': {0}")]
    Backstep(String),
    /// A name in a path is too long.
    #[error("invalid path: filenames must be less than or equal to {0} characters")]
    LongName(usize),
    /// A path begins with `..`, like the names of the writer.
    #[error("invalid path: must not start with '..': {0}")]
    ReservedPath(String),
    /// The agent does not write the files of this volume.
    #[error("volume {0} has no content")]
    NoContent(String),
    /// Several errors at once.
    #[error("{}", aggregate(.0))]
    Several(Vec<PayloadError>),
}

impl PayloadError {
    /// Joins the errors.
    pub(super) fn all(mut errors: Vec<Self>) -> Self {
        if errors.len() == 1 { errors.remove(0) } else { Self::Several(errors) }
    }

    fn flat(&self) -> Vec<&Self> {
        match self {
            Self::Several(errors) => errors.iter().flat_map(Self::flat).collect(),
            error => vec![error],
        }
    }
}

/// Joins texts without duplicates, in brackets if there are several.
fn aggregate(errors: &[PayloadError]) -> String {
    let mut seen = BTreeSet::new();
    let texts = errors.iter().flat_map(PayloadError::flat).map(ToString::to_string);
    let texts: Vec<String> = texts.filter(|text| seen.insert(text.clone())).collect();
    if texts.len() == 1 { texts.concat() } else { format!("[{}]", texts.join(", ")) }
}
