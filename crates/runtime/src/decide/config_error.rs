//! Why a pod spec cannot be converted to a runtime configuration.

use model::ports::objects::ObjectError;

use super::string_limits::{MOST_OF_STRING, MOST_OF_STRINGS};

/// Why the configuration of a container or sandbox cannot be made; a container's waiting reason is
/// `CreateContainerConfigError`. The texts are upstream's, because users search for them.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// Variables refer to an API object, and there is no API.
    #[error("couldn't get {kind} {namespace}/{name}, no kubeClient defined")]
    NoClient {
        /// `configMap` or `secret`.
        kind: &'static str,
        /// The namespace.
        namespace: String,
        /// The name.
        name: String,
    },
    /// An object for variables is not available.
    #[error(transparent)]
    Object(ObjectError),
    /// An object lacks the key of a variable.
    #[error("couldn't find key {key} in {kind} {namespace}/{name}")]
    NoKey {
        /// The key.
        key: String,
        /// `ConfigMap` or `Secret`.
        kind: &'static str,
        /// The namespace.
        namespace: String,
        /// The name.
        name: String,
    },
    /// The value of a key is not text.
    #[error("key {key} in {kind} {namespace}/{name} is not text")]
    NoText {
        /// The key.
        key: String,
        /// `ConfigMap` or `Secret`.
        kind: &'static str,
        /// The namespace.
        namespace: String,
        /// The name.
        name: String,
    },
    /// The services are not listed yet.
    #[error("services have not yet been read at least once, cannot construct envvars")]
    NoServices,
    /// A variable or an argument is too long. Upstream has no limit.
    #[error("container {container:?}: {string} is longer than {MOST_OF_STRING} bytes")]
    LongString {
        /// The container.
        container: String,
        /// The variable, or the position of the argument.
        string: String,
    },
    /// Environment, command and args are too large in total. Upstream has no limit.
    #[error(
        "container {container:?}: with {string}, environment, command and args are longer than {MOST_OF_STRINGS} bytes in all"
    )]
    TooMuchText {
        /// The container.
        container: String,
        /// The first variable or argument beyond the limit.
        string: String,
    },
    /// A container mounts a volume that is not mounted on the host.
    #[error("cannot find volume {volume:?} to mount into container {container:?}")]
    VolumeNotMounted {
        /// The volume's name in the pod.
        volume: String,
        /// The container.
        container: String,
    },
    /// A `subPath` must be relative.
    #[error("error SubPath `{0}` must not be an absolute path")]
    AbsoluteSubpath(String),
    /// A `subPath` leaves its volume.
    #[error("unable to provision SubPath `{0}`: must not contain '..'")]
    SubpathLeavesVolume(String),
    /// A `subPathExpr` refers to variables without a value.
    #[error("missing value for {0}")]
    SubpathVariables(String),
    /// A `subPathExpr` is too long once its variables are replaced.
    #[error("subPathExpr is longer than {MOST_OF_STRING} bytes")]
    SubpathTooLong,
    /// The directory of a `subPath` cannot be created. Details of the host are in the log only.
    #[error(
        "failed to create subPath directory for volumeMount {mount:?} of container {container:?}"
    )]
    SubpathDirectory {
        /// The volume's name.
        mount: String,
        /// The container.
        container: String,
    },
    /// A `subPath` cannot be mounted. Details of the host are in the log only.
    #[error("failed to prepare subPath for volumeMount {mount:?} of container {container:?}")]
    SubpathMount {
        /// The volume's name.
        mount: String,
        /// The container.
        container: String,
    },
    /// There is no such mount propagation.
    #[error("invalid MountPropagation mode: {0:?}")]
    MountPropagation(String),
    /// A mount cannot be recursively read-only.
    #[error("failed to resolve recursive read-only mode: {0}")]
    RecursiveReadOnly(String),
    /// The volume of an env file does not exist.
    #[error("cannot find the volume {0:?} referenced by FileKeyRef")]
    NoVolume(String),
    /// A file with variables cannot be read, or is not a list of variables.
    #[error("couldn't parse env file")]
    EnvFile,
    /// The file of a variable does not contain the key.
    #[error("environment variable key {key:?} not found in file {path:?}")]
    NoEnvKey {
        /// The key.
        key: String,
        /// The file on the host.
        path: String,
    },
    /// The API version of a field reference is unknown.
    #[error("unsupported pod version: {0}")]
    FieldVersion(String),
    /// There is no such field.
    #[error("field label not supported: {0}")]
    FieldLabel(String),
    /// A field does not support subscripts.
    #[error("field label does not support subscript: {0}")]
    FieldSubscript(String),
    /// A field reference is not supported.
    #[error("unsupported fieldPath: {0}")]
    FieldPath(String),
    /// A resource reference names a missing container.
    #[error("container {0} not found")]
    NoContainer(String),
    /// There is no such resource.
    #[error("unsupported container resource : {0}")]
    Resource(String),
    /// The node's address is unknown.
    #[error("host IP unknown; known addresses: []")]
    NoHostIp,
    /// `runAsNonRoot` is set and `runAsUser` is root.
    #[error("container's runAsUser breaks non-root policy (pod: {pod:?}, container: {container})")]
    RunsAsRoot {
        /// The pod, with namespace and uid.
        pod: String,
        /// The container.
        container: String,
    },
    /// `runAsNonRoot` is set and the image has a non-numeric user.
    #[error(
        "container has runAsNonRoot and image has non-numeric user ({user}), cannot verify user is non-root (pod: {pod:?}, container: {container})"
    )]
    ImageUserUnknown {
        /// The user of the image.
        user: String,
        /// The pod, with namespace and uid.
        pod: String,
        /// The container.
        container: String,
    },
    /// `runAsNonRoot` is set and the image runs as root.
    #[error(
        "container has runAsNonRoot and image will run as root (pod: {pod:?}, container: {container})"
    )]
    ImageRunsAsRoot {
        /// The pod, with namespace and uid.
        pod: String,
        /// The container.
        container: String,
    },
    /// `runAsNonRoot` is set and the user ID of the image is invalid.
    #[error(
        "container has runAsNonRoot and image has an invalid user id ({user}). (Must be 1-(2147483647)): must be between 0 and 2147483647, inclusive (pod: {pod:?}, container: {container})"
    )]
    ImageUserInvalid {
        /// The user of the image.
        user: i64,
        /// The pod, with namespace and uid.
        pod: String,
        /// The container.
        container: String,
    },
    /// A `Localhost` profile has no name.
    #[error("localhostProfile must be set if seccompProfile type is Localhost.")]
    SeccompProfile,
    /// A `Localhost` profile has no name.
    #[error("missing localhost apparmor profile name")]
    ApparmorProfile,
    /// There is no such kind of profile.
    #[error("unknown apparmor profile type: {0:?}")]
    ApparmorType(String),
    /// There is no such rule for groups.
    #[error("unsupported supplementalGroupsPolicy: {0}")]
    GroupsPolicy(String),
    /// The pod's full name is longer than the kernel takes.
    #[error(
        "failed to construct FQDN from pod hostname and cluster domain, FQDN {fqdn} is too long (64 characters is the max, {} characters requested)",
        fqdn.len()
    )]
    LongFqdn {
        /// The name.
        fqdn: String,
    },
}
