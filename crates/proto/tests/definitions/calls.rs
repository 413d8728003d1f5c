//! The generated client calls the generated server, without a socket.

use proto::runtime_v1::image_service_client::ImageServiceClient;
use proto::runtime_v1::image_service_server::{ImageService, ImageServiceServer};
use proto::runtime_v1::{
    Image, ImageFsInfoRequest, ImageSpec, ImageStatusRequest, ImageStatusResponse,
    StreamImagesRequest, StreamImagesResponse,
};
use tonic::codegen::{BoxStream, tokio_stream};
use tonic::{Code, Request, Response, Status};

/// Has every requested image, and lists two, each in its own part.
struct Store;

fn image(id: &str) -> Image {
    Image { id: id.to_owned(), ..Default::default() }
}

#[tonic::async_trait]
impl ImageService for Store {
    async fn image_status(
        &self,
        request: Request<ImageStatusRequest>,
    ) -> Result<Response<ImageStatusResponse>, Status> {
        let spec = request.into_inner().image.unwrap_or_default();
        Ok(Response::new(ImageStatusResponse {
            image: Some(image(&spec.image)),
            ..Default::default()
        }))
    }

    async fn stream_images(
        &self,
        _: Request<StreamImagesRequest>,
    ) -> Result<Response<BoxStream<StreamImagesResponse>>, Status> {
        let part = |id| Ok(StreamImagesResponse { images: vec![image(id)] });
        let parts = tokio_stream::iter(["a", "b"].map(part));
        Ok(Response::new(Box::pin(parts)))
    }
}

fn client() -> ImageServiceClient<ImageServiceServer<Store>> {
    ImageServiceClient::new(ImageServiceServer::new(Store))
}

#[tokio::test]
async fn response_reaches_the_caller() {
    let request = ImageStatusRequest {
        image: Some(ImageSpec { image: "busybox".into(), ..Default::default() }),
        verbose: false,
    };
    let response = client().image_status(request).await.unwrap().into_inner();
    assert_eq!(response.image, Some(image("busybox")));
}

#[tokio::test]
async fn stream_items_arrive_in_order_before_its_end() {
    let request = StreamImagesRequest::default();
    let mut parts = client().stream_images(request).await.unwrap().into_inner();
    let mut ids = Vec::new();
    while let Some(part) = parts.message().await.unwrap() {
        ids.extend(part.images.into_iter().map(|image| image.id));
    }
    assert_eq!(ids, ["a", "b"]);
}

#[tokio::test]
async fn method_without_an_implementation_is_unimplemented() {
    let error = client().image_fs_info(ImageFsInfoRequest {}).await.unwrap_err();
    assert_eq!(error.code(), Code::Unimplemented);
}
