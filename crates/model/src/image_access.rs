//! Credentials for registries, and their sources.

use std::fmt;
use std::sync::Arc;

/// Authenticates a pull at a registry. Empty fields are not sent.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct RegistryAuth {
    /// User name.
    pub username: String,
    /// Password.
    pub password: String,
    /// User name and password in base64.
    pub auth: String,
    /// An email address. It is not sent, but is part of the hash by which a credential is recorded.
    pub email: String,
    /// The address of the registry.
    pub server_address: String,
    /// An identity token, which is exchanged for an access token.
    pub identity_token: String,
    /// A bearer token.
    pub registry_token: String,
}

/// Prints no secrets.
impl fmt::Debug for RegistryAuth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RegistryAuth").finish_non_exhaustive()
    }
}

/// An object of the API by which a pod may use an image.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AccessObject {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
}

/// The source of a credential.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum CredentialSource {
    /// The node: its configuration files, or a credential provider plugin that does not use the pod's service account.
    Node,
    /// A pull secret of the pod.
    Secret(AccessObject),
    /// A credential provider plugin, for the pod's service account.
    ServiceAccount(AccessObject),
}

/// A credential to pull an image with.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PullCredential {
    /// The credentials that are sent to the registry.
    pub auth: RegistryAuth,
    /// Its source.
    pub source: CredentialSource,
}

/// The credentials of a pull, in the order in which they are tried. Without any, the pull is anonymous.
pub type PullCredentials = Arc<[PullCredential]>;
