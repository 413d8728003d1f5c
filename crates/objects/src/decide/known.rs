//! What is known of one object.

use std::sync::Arc;

use model::watched_object::ObjectState;
use model::objects::DataObject;

/// What is known of an object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Known {
    /// Nothing yet.
    #[default]
    NotYet,
    /// There is none.
    Missing,
    /// It is there, as told.
    There(Arc<DataObject>),
}

impl Known {
    /// Whether it is there and never changes.
    pub fn is_immutable(&self) -> bool {
        matches!(self, Self::There(object) if object.is_immutable)
    }
}

impl From<ObjectState<DataObject>> for Known {
    fn from(told: ObjectState<DataObject>) -> Self {
        match told {
            ObjectState::Missing => Self::Missing,
            ObjectState::Present(object) => Self::There(Arc::new(object)),
        }
    }
}
