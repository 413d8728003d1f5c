//! The API objects that the node's pods refer to: secrets, config maps, tokens of service
//! accounts, services and runtime classes.
//!
//! ```text
//!  a pod refers to objects ──> ObjectStore ──> one watch for each ──> current versions ──> env, volumes
//!  a pod's token           ──> TokenStore  ──> requested, cached, refreshed in time
//!  services, classes       ──> Services, RuntimeClasses: all of them, slim
//! ```
//! Inputs: the references of pods, and watches of the objects. Outputs: the objects through the ports
//! `PodObjects`, `ServiceVariables` and `RuntimeHandlers` of `model`.
//!
//! Invariants:
//! - an object is watched only while a pod refers to it: a node may not read others;
//! - a returned object was read after the first of its pods was registered, and is updated
//!   while the API server is available; otherwise the last known version is returned;
//! - an immutable object is not watched once it was read, and an object that was not used for five minutes is
//!   not watched until its next use;
//! - an expired token is never returned; tokens are refreshed long before they expire.
//!
//! ```text
//! let api = Arc::new(cluster);                                    // crates/cluster, or the in-memory twin
//! let objects = ObjectStore::new(api.clone(), Settings::of(&config));
//! tasks.spawn("objects", |stop| objects.clone().run(stop));
//! let services = Services::default();
//! tasks.spawn("services", |stop| services.clone().run(api.clone(), stop));
//! let classes = RuntimeClasses::default();                        // watched from the first lookup on
//! tasks.spawn("runtimeclasses", |stop| classes.clone().run(api.clone(), stop));
//! RuntimeParts { api: Some(ApiParts { objects: Arc::new(objects), services: Arc::new(services),
//!     classes: Arc::new(classes) }), .. };                        // crates/runtime registers its pods
//! let tokens = TokenStore::new(api, clock);                       // for volumes
//! ```

mod certificates;
pub mod decide;
mod directory;
#[cfg(test)]
mod directory_tests;
mod store;
#[cfg(test)]
mod store_tests;
mod tokens;
#[cfg(test)]
mod tokens_tests;
mod trust_bundles;
mod watches;

pub use certificates::CertificateStore;
pub use directory::{RuntimeClasses, Services};
pub use store::{ObjectStore, Settings};
pub use tokens::{TokenError, TokenStore};
pub use trust_bundles::{NotSynced, TrustBundles};
