//! The objects of the API that the node's pods refer to: secrets, config maps, tokens of service
//! accounts, services and runtime classes.
//!
//! ```text
//!  a pod refers to objects ──> ObjectStore ──> one watch for each ──> what is there now ──> env, volumes
//!  a pod's token           ──> TokenStore  ──> asked for, kept, asked for again in time
//!  services, classes       ──> Services, RuntimeClasses: all of them, slim
//! ```
//! Inputs: which pods refer to what, and what is heard of it. Outputs: the objects through the ports
//! `PodObjects`, `ServiceVariables` and `RuntimeHandlers` of `model`.
//!
//! Invariants:
//! - an object is followed only while a pod refers to it: a node may see no others;
//! - what is handed out was read after the first of its pods was registered, and follows its changes
//!   as long as the API server tells them; when it does not, what was known last is handed out;
//! - what never changes is not followed once it was seen, and what nobody asked for in five minutes is
//!   not followed until somebody asks;
//! - a token is never handed out once it has expired, and is asked for again long before.
//!
//! ```text
//! let api = Arc::new(cluster);                                    // crates/cluster, or the in-memory twin
//! let objects = ObjectStore::new(api.clone(), Settings::of(&config));
//! tasks.spawn("objects", |stop| objects.clone().run(stop));
//! let services = Services::default();
//! tasks.spawn("services", |stop| services.clone().run(api.clone(), stop));
//! let classes = RuntimeClasses::default();                        // followed from the first question on
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
