//! Objects that pods refer to, as the agent gets them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use model::ids::PodUid;
use model::objects::{DataObject, ObjectKey};
use model::ports::objects::{ObjectError, PodObjects, RuntimeHandlers, ServiceVariables};

#[derive(Debug, Default)]
struct State {
    objects: BTreeMap<ObjectKey, DataObject>,
    registered: BTreeMap<PodUid, BTreeSet<ObjectKey>>,
    services: Option<Vec<(String, String)>>,
    classes: BTreeMap<String, String>,
}

/// Objects in memory. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct MemoryObjects {
    state: Arc<Mutex<State>>,
}

impl MemoryObjects {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an object.
    pub fn put(&self, key: ObjectKey, object: DataObject) {
        self.state().objects.insert(key, object);
    }

    /// The services that all pods get.
    pub fn set_services<const N: usize>(&self, variables: [(&str, &str); N]) {
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        self.state().services = Some(variables.into_iter().map(owned).collect());
    }

    /// Adds a runtime class.
    pub fn put_runtime_class(&self, name: &str, handler: &str) {
        self.state().classes.insert(name.to_owned(), handler.to_owned());
    }

    /// Removes a runtime class.
    pub fn drop_runtime_class(&self, name: &str) {
        self.state().classes.remove(name);
    }

    /// The objects that a pod refers to.
    pub fn registered(&self, pod: &str) -> Vec<ObjectKey> {
        let state = self.state();
        state.registered.get(pod).into_iter().flatten().cloned().collect()
    }
}

#[async_trait]
impl PodObjects for MemoryObjects {
    fn register(&self, pod: &PodUid, objects: BTreeSet<ObjectKey>) {
        self.state().registered.insert(pod.clone(), objects);
    }

    fn unregister(&self, pod: &PodUid) {
        self.state().registered.remove(pod);
    }

    async fn get(&self, key: &ObjectKey) -> Result<Arc<DataObject>, ObjectError> {
        let state = self.state();
        let (namespace, name) = (key.namespace.clone(), key.name.clone());
        if !state.registered.values().flatten().any(|one| one == key) {
            return Err(ObjectError::NotRegistered { namespace, name });
        }
        match state.objects.get(key) {
            Some(object) => Ok(Arc::new(object.clone())),
            None => Err(ObjectError::NotFound { resource: key.kind.singular(), name }),
        }
    }
}

#[async_trait]
impl ServiceVariables for MemoryObjects {
    async fn first_list(&self) {}

    fn variables(&self, _: &str, _: bool) -> Option<Vec<(String, String)>> {
        self.state().services.clone()
    }
}

#[async_trait]
impl RuntimeHandlers for MemoryObjects {
    async fn handler(&self, class: &str) -> Result<String, ObjectError> {
        let resource = "runtimeclass.node.k8s.io";
        let found = self.state().classes.get(class).cloned();
        found.ok_or_else(|| ObjectError::NotFound { resource, name: class.into() })
    }
}
