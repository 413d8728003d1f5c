//! Variables from secrets and config maps.

use std::collections::BTreeMap;
use std::sync::Arc;

use model::objects::{DataObject, ObjectKey, ObjectKind};
use model::ports::objects::ObjectError;

use super::ConfigError;
use super::env_file::{EnvFile, EnvFileRead};

/// The API objects for a container.
#[derive(Debug, Clone, Default)]
pub struct ApiFacts {
    /// The objects of its variables; `None` without an API.
    pub objects: Option<BTreeMap<ObjectKey, Result<Arc<DataObject>, ObjectError>>>,
    /// The variables of services.
    pub services: Vec<(String, String)>,
    /// The env files of its variables.
    pub files: BTreeMap<EnvFile, EnvFileRead>,
}

impl ApiFacts {
    pub(super) fn objects<'a>(&'a self, namespace: &'a str) -> Objects<'a> {
        Objects { namespace, found: self.objects.as_ref() }
    }
}

/// The objects of a pod.
pub(super) struct Objects<'a> {
    pub(super) namespace: &'a str,
    found: Option<&'a BTreeMap<ObjectKey, Result<Arc<DataObject>, ObjectError>>>,
}

impl Objects<'_> {
    /// An object; `None` if it is optional and missing.
    fn get(&self, key: &ObjectKey, optional: bool) -> Result<Option<&DataObject>, ConfigError> {
        let Some(found) = self.found else {
            let kind = match key.kind {
                ObjectKind::ConfigMap => "configMap",
                ObjectKind::Secret => "secret",
            };
            let (namespace, name) = (self.namespace.to_owned(), key.name.to_string());
            return Err(ConfigError::NoClient { kind, namespace, name });
        };
        match found.get(key) {
            Some(Ok(object)) => Ok(Some(object)),
            Some(Err(error)) if optional && error.is_not_found() => Ok(None),
            Some(Err(error)) => Err(ConfigError::Object(error.clone())),
            // It was not requested: its name is empty.
            None => Err(ConfigError::Object(ObjectError::NotRegistered {
                namespace: self.namespace.into(),
                name: key.name.clone(),
            })),
        }
    }

    /// All entries of an object.
    pub(super) fn all(
        &self,
        key: &ObjectKey,
        optional: bool,
    ) -> Result<Vec<(String, String)>, ConfigError> {
        let Some(object) = self.get(key, optional)? else { return Ok(Vec::new()) };
        let pairs = object.data.iter();
        pairs.map(|(name, value)| Ok((name.to_string(), self.text(key, name, value)?))).collect()
    }

    /// The value of a key.
    pub(super) fn value(
        &self,
        key: &ObjectKey,
        name: &str,
        optional: bool,
    ) -> Result<Option<String>, ConfigError> {
        let Some(object) = self.get(key, optional)? else { return Ok(None) };
        match object.data.get(name) {
            Some(value) => self.text(key, name, value).map(Some),
            None if optional => Ok(None),
            None => Err(ConfigError::NoKey {
                key: name.to_owned(),
                kind: key.kind.kind(),
                namespace: self.namespace.to_owned(),
                name: key.name.to_string(),
            }),
        }
    }

    /// A value as text: the runtime accepts no other.
    fn text(&self, key: &ObjectKey, name: &str, value: &[u8]) -> Result<String, ConfigError> {
        String::from_utf8(value.to_vec()).map_err(|_| ConfigError::NoText {
            key: name.to_owned(),
            kind: key.kind.kind(),
            namespace: self.namespace.to_owned(),
            name: key.name.to_string(),
        })
    }
}
