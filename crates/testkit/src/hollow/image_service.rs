//! The image service.

use model::ports::runtime::ImageService as _;
use model::verdict::Subject;
use proto::runtime_v1 as cri;
use proto::runtime_v1::image_service_server::ImageService;
use tonic::{Request, Response, Status, async_trait};

use super::runtime_service::Answer;
use super::{Hollow, image, to_cri};
use crate::wanted::removal;

fn name(image: Option<cri::ImageSpec>) -> Result<String, Status> {
    let name = image.map(|image| image.image).unwrap_or_default();
    if name.is_empty() { Err(Status::invalid_argument("no image is named")) } else { Ok(name) }
}

#[async_trait]
impl ImageService for Hollow {
    async fn list_images(
        &self,
        request: Request<cri::ListImagesRequest>,
    ) -> Answer<cri::ListImagesResponse> {
        let filter = request.into_inner().filter.and_then(|filter| filter.image);
        let images = match name(filter) {
            Ok(name) => {
                self.gate.filtered("ListImages");
                let image = self.runtime.image_status(&name).await.map_err(to_cri::status)?;
                image.into_iter().collect()
            }
            Err(_) => self.runtime.list_images().await.map_err(to_cri::status)?,
        };
        let images = images.into_iter().map(to_cri::image).collect();
        self.sendable(cri::ListImagesResponse { images })
    }

    async fn image_status(
        &self,
        request: Request<cri::ImageStatusRequest>,
    ) -> Answer<cri::ImageStatusResponse> {
        let name = name(request.into_inner().image)?;
        let image = self.runtime.image_status(&name).await.map_err(to_cri::status)?;
        Ok(Response::new(cri::ImageStatusResponse {
            image: image.map(to_cri::image),
            ..cri::ImageStatusResponse::default()
        }))
    }

    async fn pull_image(
        &self,
        request: Request<cri::PullImageRequest>,
    ) -> Answer<cri::PullImageResponse> {
        let request = request.into_inner();
        self.record("PullImage", &request)?;
        let name = name(request.image)?;
        if self.settings.images.is_none() {
            self.runtime.publish(image(&name, &self.settings.users));
        }
        let image_ref = self.runtime.pull_image(&name, None, None).await.map_err(to_cri::status)?;
        Ok(Response::new(cri::PullImageResponse { image_ref }))
    }

    async fn remove_image(
        &self,
        request: Request<cri::RemoveImageRequest>,
    ) -> Answer<cri::RemoveImageResponse> {
        let verdict = removal(Subject::Image(name(request.into_inner().image)?));
        self.runtime.remove_image(&verdict).await.map_err(to_cri::status)?;
        Ok(Response::new(cri::RemoveImageResponse {}))
    }

    async fn image_fs_info(
        &self,
        _: Request<cri::ImageFsInfoRequest>,
    ) -> Answer<cri::ImageFsInfoResponse> {
        let used = self.runtime.images().iter().map(|image| image.size).sum();
        let usage = self.filesystem(self.runtime.look(|look| look.now), used);
        Ok(Response::new(cri::ImageFsInfoResponse {
            image_filesystems: vec![usage.clone()],
            container_filesystems: vec![usage],
        }))
    }
}
