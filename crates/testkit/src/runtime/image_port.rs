//! The port of images.

use std::collections::BTreeMap;
use std::path::PathBuf;

use async_trait::async_trait;
use model::image_access::RegistryAuth;
use model::ports::runtime::{
    ContainerFilter, Image, ImageFilesystem, ImageFsInfo, ImageService, ImageUse, RuntimeError,
};
use model::verdict::{Subject, Verdict};
use model::wanted::SandboxConfig;

use super::MemoryRuntime;
use super::calls::Method;
use super::port::{filter_text, wait, wrong_subject};
use super::store::Refusal;

impl MemoryRuntime {
    async fn pull(&self, image: &str) -> Result<String, Refusal> {
        let remote = self.inner().images.remote(image).cloned();
        let remote = remote.ok_or_else(|| Refusal::not_found("image", image))?;
        wait(remote.time_to_pull()).await;
        Ok(self.inner().images.pull(&remote))
    }
}

#[async_trait]
impl ImageService for MemoryRuntime {
    async fn image_status(&self, image: &str) -> Result<Option<Image>, RuntimeError> {
        let effect = self.at_once(|inner, _| Ok(inner.images.status(image)));
        self.call(Method::ImageStatus, image.to_owned(), effect).await
    }

    async fn pull_image(
        &self,
        image: &str,
        _sandbox: Option<&SandboxConfig>,
        _auth: Option<&RegistryAuth>,
    ) -> Result<String, RuntimeError> {
        self.call(Method::PullImage, image.to_owned(), self.pull(image)).await
    }

    async fn list_images(&self) -> Result<Vec<Image>, RuntimeError> {
        let effect = self.at_once(|inner, _| {
            let additional = inner.additional_images.iter().cloned();
            Ok(inner.images.list().into_iter().chain(additional).collect())
        });
        self.call(Method::ListImages, String::new(), effect).await
    }

    async fn remove_image(&self, verdict: &Verdict) -> Result<(), RuntimeError> {
        let effect = self.at_once(|inner, _| match &verdict.subject {
            Subject::Image(id) => {
                inner.images.remove(id);
                Ok(())
            }
            _ => Err(wrong_subject(verdict)),
        });
        self.call(Method::RemoveImage, verdict.subject.id().into_owned(), effect).await
    }

    async fn list_image_uses(
        &self,
        filter: &ContainerFilter,
    ) -> Result<Vec<ImageUse>, RuntimeError> {
        let effect = self.at_once(|inner, now| {
            let listed = inner.store.image_uses(filter, now);
            inner.sendable(listed)
        });
        self.call(Method::ListContainers, filter_text(filter.sandbox_id.as_ref()), effect).await
    }

    async fn image_labels(&self, image: &str) -> Result<BTreeMap<String, String>, RuntimeError> {
        let effect = self.at_once(|inner, _| Ok(inner.images.labels(image)));
        self.call(Method::ImageStatus, image.to_owned(), effect).await
    }

    async fn image_fs_info(&self) -> Result<ImageFsInfo, RuntimeError> {
        let effect = self.at_once(|inner, now| {
            let used_bytes = inner.images.bytes();
            let on = |mount_point: &PathBuf| ImageFilesystem {
                mount_point: mount_point.clone(),
                used_bytes,
                inodes_used: None,
                measured_at: now,
            };
            let images: Vec<_> = inner.image_directories.iter().map(on).collect();
            let containers =
                images.iter().map(|found| ImageFilesystem { used_bytes: 0, ..found.clone() });
            Ok(ImageFsInfo { containers: containers.collect(), images })
        });
        self.call(Method::ImageFsInfo, String::new(), effect).await
    }
}
