//! The methods of the intercepted ports.

use std::borrow::Borrow as _;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_core::future::BoxFuture;

use super::{Args, Call, Intercepted, Interceptor, Kind, Port};
use crate::cgroup::{CgroupDriver, CgroupName, CgroupValues};
use crate::cluster::{FailedStatus, PodRemoved, PodTarget, Version};
use crate::fingerprint::Fingerprint;
use crate::ids::{ContainerId, SandboxId};
use crate::image_access::RegistryAuth;
use crate::observed::{Container, ContainerStatus, Sandbox, SandboxStatus};
use crate::ports::cgroups::{CgroupError, Cgroups, Limits};
use crate::ports::cluster::{ApiError, PodWrites};
use crate::ports::files::{
    DirectoryWatch, Entry, FileError, FileVersion, FoundFile, HostFiles, Removed,
};
use crate::ports::http::{Answer, Get, HttpError, HttpGet};
use crate::ports::runtime::{
    ContainerEvents, ContainerFilter, ContainerService, ExecOutput, Image, ImageFsInfo,
    ImageService, ImageUse, Lists, RuntimeError, RuntimeInfo, RuntimeStatus, RuntimeVersion,
    SandboxFilter, SandboxService, WritableLayer,
};
use crate::verdict::Verdict;
use crate::wanted::{ContainerConfig, LinuxResources, SandboxConfig};

/// One line per method: `KIND Variant: method(REFERENCES; VALUES | OPTIONAL REFERENCES) -> ANSWER;`. KIND is `read`,
/// `effect` or `removal(verdict)`, which names the argument with the verdict. Methods in `forward` pass by the
/// interceptor.
macro_rules! intercept {
    (
        $calls:ident in Args::$args:ident for $port:ident {
            error: $error:ty,
            removed: $removed:ty
            $(, forward: { $($forward:tt)* })?
        }
        $(
            $kind:ident $(($verdict:ident))? $variant:ident: $method:ident(
                $($reference:ident: &$referred:ty),*
                $(; $($value:ident: $valued:ty),+)?
                $(| $($option:ident: Option<&$optional:ty>),+)?
            ) -> $answer:ty;
        )+
    ) => {
        #[doc = concat!("A method of [`", stringify!($port), "`] with its arguments.")]
        #[derive(Debug, Clone, Copy)]
        #[allow(missing_docs, reason = "the methods of the port are documented there")]
        pub enum $calls<'a> {
            $($variant {
                $($reference: &'a $referred,)*
                $($($value: $valued,)+)?
                $($($option: Option<&'a $optional>,)+)?
            },)+
        }

        impl $calls<'_> {
            /// The same call with owned arguments: it continues without its caller.
            pub fn detached(&self, service: Arc<dyn $port>) -> BoxFuture<'static, ()> {
                match *self {
                    $(Self::$variant {
                        $($reference,)* $($($value,)+)? $($($option,)+)?
                    } => {
                        $(let $reference = $reference.to_owned();)*
                        $($(let $option = $option.map(ToOwned::to_owned);)+)?
                        Box::pin(async move {
                            drop(service.$method(
                                $(&$reference,)*
                                $($($value,)+)?
                                $($($option.as_ref().map(|one| one.borrow()),)+)?
                            ).await);
                        })
                    })+
                }
            }
        }

        impl Port for dyn $port {
            type Error = $error;
            type Removed = $removed;
        }

        #[async_trait]
        impl<I: Interceptor<dyn $port>> $port for Intercepted<dyn $port, I> {
            $($($forward)*)?

            $(async fn $method(
                &self,
                $($reference: &$referred,)*
                $($($value: $valued,)+)?
                $($($option: Option<&$optional>,)+)?
            ) -> Result<$answer, $error> {
                let call = Call {
                    method: stringify!($variant),
                    kind: intercept!(@kind $kind),
                    args: Args::$args($calls::$variant {
                        $($reference,)* $($($value,)+)? $($($option,)+)?
                    }),
                };
                let interceptor = &*self.interceptor;
                let run = self.inner.$method($($reference,)* $($($value,)+)? $($($option,)+)?);
                intercept!(@around $kind $(($verdict))?, interceptor, call, run)
            })+
        }
    };
    (@kind read) => { Kind::Read };
    (@kind effect) => { Kind::Effect };
    (@kind removal) => { Kind::Removal };
    (@around removal($verdict:ident), $interceptor:ident, $call:ident, $run:ident) => {
        $interceptor.around_removal(&$call, $verdict, $run).await
    };
    (@around $kind:ident, $interceptor:ident, $call:ident, $run:ident) => {
        $interceptor.around(&$call, $run).await
    };
}

intercept! {
    SandboxCall in Args::Sandbox for SandboxService { error: RuntimeError, removed: () }
    effect RunPodSandbox: run_pod_sandbox(config: &SandboxConfig) -> SandboxId;
    effect StopPodSandbox: stop_pod_sandbox(id: &SandboxId) -> ();
    removal(verdict) RemovePodSandbox: remove_pod_sandbox(verdict: &Verdict) -> ();
    read ListPodSandbox: list_pod_sandboxes(filter: &SandboxFilter) -> Vec<Sandbox>;
    read PodSandboxStatus: pod_sandbox_status(id: &SandboxId) -> SandboxStatus;
    effect UpdatePodSandboxResources: update_pod_sandbox_resources(
        id: &SandboxId, overhead: &LinuxResources, resources: &LinuxResources
    ) -> ();
    read SandboxImage: sandbox_image(id: &SandboxId) -> Option<String>;
}

intercept! {
    ContainerCall in Args::Container for ContainerService { error: RuntimeError, removed: () }
    effect CreateContainer: create_container(
        sandbox: &SandboxId, config: &ContainerConfig, sandbox_config: &SandboxConfig
    ) -> ContainerId;
    effect StartContainer: start_container(id: &ContainerId) -> ();
    effect StopContainer: stop_container(id: &ContainerId; grace: Duration) -> ();
    removal(verdict) RemoveContainer: remove_container(verdict: &Verdict) -> ();
    read ListContainers: list_containers(filter: &ContainerFilter) -> Vec<Container>;
    read ContainerStatus: container_status(id: &ContainerId) -> ContainerStatus;
    effect UpdateContainerResources: update_container_resources(
        id: &ContainerId, resources: &LinuxResources
    ) -> ();
    read ListContainerStats: list_writable_layers() -> Vec<WritableLayer>;
    effect ReopenContainerLog: reopen_container_log(id: &ContainerId) -> ();
    effect ExecSync: exec_sync(
        id: &ContainerId, command: &[String]; timeout: Option<Duration>
    ) -> ExecOutput;
}

intercept! {
    ImageCall in Args::Image for ImageService { error: RuntimeError, removed: () }
    read ImageStatus: image_status(image: &str) -> Option<Image>;
    effect PullImage: pull_image(
        image: &str | sandbox: Option<&SandboxConfig>, auth: Option<&RegistryAuth>
    ) -> String;
    read ListImages: list_images() -> Vec<Image>;
    removal(verdict) RemoveImage: remove_image(verdict: &Verdict) -> ();
    read ListImageUses: list_image_uses(filter: &ContainerFilter) -> Vec<ImageUse>;
    read ImageLabels: image_labels(image: &str) -> BTreeMap<String, String>;
    read ImageFsInfo: image_fs_info() -> ImageFsInfo;
}

intercept! {
    InfoCall in Args::Info for RuntimeInfo {
        error: RuntimeError,
        removed: (),
        // An optional optimization of two lists, which are calls of their own where it is not implemented.
        forward: {
            async fn list_if_changed(
                &self,
                known: &Fingerprint,
            ) -> Result<Option<Lists>, RuntimeError> {
                self.inner.list_if_changed(known).await
            }
        }
    }
    read Version: version() -> RuntimeVersion;
    read Status: status() -> RuntimeStatus;
    effect UpdateRuntimeConfig: update_runtime_config(pod_cidrs: &str) -> ();
    read GetContainerEvents: container_events() -> ContainerEvents;
}

intercept! {
    FileCall in Args::File for HostFiles { error: FileError, removed: Removed }
    read List: list(directory: &Path) -> Vec<String>;
    read Read: read(path: &Path; limit: u64) -> Vec<u8>;
    read Look: look(path: &Path) -> FoundFile;
    read Entries: entries(directory: &Path) -> Vec<Entry>;
    read ReadVersion: read_version(path: &Path; limit: u64) -> (FileVersion, Vec<u8>);
    read Watch: watch(directory: &Path) -> Box<dyn DirectoryWatch>;
    effect WriteDurably: write_durably(path: &Path, content: &[u8]) -> ();
    effect Overwrite: overwrite(path: &Path, content: &[u8]; mode: u32) -> ();
    effect RemoveWritten: remove_written(path: &Path) -> ();
    effect CreateDirectory: create_directory(root: &Path, below: &Path; mode: u32) -> ();
    effect CreateFile: create_file(root: &Path, below: &Path; mode: u32) -> ();
    read ReadEnd: read_end(root: &Path, below: &Path; limit: u64) -> Vec<u8>;
    effect Link: link(target: &Path, link: &Path) -> ();
    removal(verdict) Remove: remove(root: &Path, verdict: &Verdict) -> Removed;
}

intercept! {
    CgroupCall in Args::Cgroup for Cgroups {
        error: CgroupError,
        removed: Removed,
        forward: {
            fn driver(&self) -> CgroupDriver {
                self.inner.driver()
            }
        }
    }
    read Check: check(name: &CgroupName) -> ();
    effect Create: create(name: &CgroupName, values: &CgroupValues) -> Limits;
    effect Update: update(name: &CgroupName, values: &CgroupValues) -> ();
    read Has: has(name: &CgroupName, values: &CgroupValues) -> bool;
    read Values: values(name: &CgroupName) -> CgroupValues;
    read MemoryUsage: memory_usage(name: &CgroupName | part: Option<&str>) -> Option<u64>;
    read Children: children(name: &CgroupName) -> BTreeSet<CgroupName>;
    removal(verdict) Remove: remove(verdict: &Verdict) -> Removed;
}

intercept! {
    PodCall in Args::Pod for PodWrites { error: ApiError, removed: PodRemoved }
    effect FailPod: fail_pod(pod: &PodTarget, status: &FailedStatus) -> Version;
    removal(verdict) RemovePod: remove_pod(pod: &PodTarget, verdict: &Verdict) -> PodRemoved;
}

intercept! {
    HttpCall in Args::Http for HttpGet { error: HttpError, removed: () }
    read Get: get(request: &Get) -> Answer;
}
