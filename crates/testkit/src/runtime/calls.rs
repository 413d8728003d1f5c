//! The recorded calls of the runtime.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;

macro_rules! methods {
    ($($method:ident),+ $(,)?) => {
        /// A method of the runtime port, by its name in the CRI.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[allow(missing_docs, reason = "the CRI defines these words")]
        pub enum Method {
            $($method,)+
        }

        impl Method {
            /// Its name in errors.
            pub fn name(self) -> &'static str {
                match self {
                    $(Self::$method => stringify!($method),)+
                }
            }

            /// The method with this name.
            pub fn named(name: &str) -> Option<Self> {
                [$(Self::$method),+].into_iter().find(|method| method.name() == name)
            }
        }
    };
}

methods! {
    Version,
    Status,
    UpdateRuntimeConfig,
    RunPodSandbox,
    StopPodSandbox,
    RemovePodSandbox,
    ListPodSandbox,
    PodSandboxStatus,
    CreateContainer,
    StartContainer,
    StopContainer,
    UpdateContainerResources,
    UpdatePodSandboxResources,
    RemoveContainer,
    ListContainers,
    ContainerStatus,
    ListContainerStats,
    ReopenContainerLog,
    ExecSync,
    Exec,
    Attach,
    PortForward,
    CheckpointContainer,
    ImageStatus,
    PullImage,
    ListImages,
    RemoveImage,
    ImageFsInfo,
    GetContainerEvents,
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A recorded call, regardless of its result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The method.
    pub method: Method,
    /// The object: an id, `namespace/pod`, `container of namespace/pod`, an image, addresses. For a list, the
    /// UID or id of its filter; empty for a full list.
    pub object: String,
    /// The time.
    pub at: Timestamp,
}

/// The calls so far, in order.
#[derive(Debug, Default)]
pub(super) struct Calls {
    log: Vec<Call>,
    counts: BTreeMap<Method, usize>,
    /// Whether calls are counted but not kept.
    only_counted: bool,
}

impl Calls {
    pub(super) fn only_counted() -> Self {
        Self { only_counted: true, ..Self::default() }
    }

    pub(super) fn record(&mut self, call: Call) {
        *self.counts.entry(call.method).or_default() += 1;
        if !self.only_counted {
            self.log.push(call);
        }
    }

    pub(super) fn forget(&mut self) {
        self.log.clear();
        self.counts.clear();
    }

    pub(super) fn log(&self) -> &[Call] {
        &self.log
    }

    pub(super) fn count(&self, method: Method) -> usize {
        self.counts.get(&method).copied().unwrap_or(0)
    }
}
