//! The known state of one object.

use std::sync::Arc;

use model::objects::DataObject;
use model::watched_object::ObjectState;

/// The known state of an object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum KnownObject {
    /// Unknown so far.
    #[default]
    NotYet,
    /// It does not exist.
    Missing,
    /// It exists.
    There(Arc<DataObject>),
}

impl KnownObject {
    /// Whether it exists and is immutable.
    pub fn is_immutable(&self) -> bool {
        matches!(self, Self::There(object) if object.is_immutable)
    }
}

impl From<ObjectState<DataObject>> for KnownObject {
    fn from(state: ObjectState<DataObject>) -> Self {
        match state {
            ObjectState::Missing => Self::Missing,
            ObjectState::Present(object) => Self::There(Arc::new(object)),
        }
    }
}
