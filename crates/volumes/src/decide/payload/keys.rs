//! Keys of config maps and secrets.

use k8s_openapi::api::core::v1::KeyToPath;
use model::objects::{DataObject, ObjectKey, ObjectKind};
use model::ports::objects::ObjectError;

use super::{Files, Objects, PayloadError, file};

/// Which keys of an object become files.
#[derive(Debug)]
pub(super) struct Keys<'a> {
    pub(super) object: ObjectKey,
    /// The keys and their paths; all keys under their own names without any.
    pub(super) items: &'a [KeyToPath],
    pub(super) default_mode: i32,
    /// Whether a missing object or key is not an error.
    pub(super) is_optional: bool,
}

impl Keys<'_> {
    pub(super) fn files(&self, objects: &Objects) -> Result<Files, PayloadError> {
        let object = match objects.get(&self.object) {
            Some(Ok(object)) => object,
            Some(Err(error)) if self.is_optional && error.is_not_found() => return Ok(Files::new()),
            Some(Err(error)) => return Err(PayloadError::Object(error.clone())),
            None => {
                let (namespace, name) = (self.object.namespace.clone(), self.object.name.clone());
                let error = ObjectError::NotRegistered { namespace, name };
                return Err(PayloadError::Object(error));
            }
        };
        if self.items.is_empty() {
            return Ok(self.all(object));
        }
        let mut files = Files::new();
        for item in self.items {
            match value(object, &item.key) {
                Some(content) => {
                    let mode = item.mode.unwrap_or(self.default_mode);
                    files.push((item.path.clone(), file(content, mode)));
                }
                None if self.is_optional => {}
                None => return Err(self.missing(&item.key)),
            }
        }
        Ok(files)
    }

    fn all(&self, object: &DataObject) -> Files {
        let pairs = object.data.iter().chain(&object.binary_data);
        pairs.map(|(key, content)| (key.to_string(), file(content, self.default_mode))).collect()
    }

    fn missing(&self, key: &str) -> PayloadError {
        match self.object.kind {
            ObjectKind::ConfigMap => PayloadError::ConfigKey(key.to_owned()),
            ObjectKind::Secret => PayloadError::SecretKey(key.to_owned()),
        }
    }
}

fn value<'a>(object: &'a DataObject, key: &str) -> Option<&'a [u8]> {
    object.data.get(key).or_else(|| object.binary_data.get(key)).map(|value| &**value)
}
