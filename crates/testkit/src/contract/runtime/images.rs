//! Images.

use anyhow::{Context, Result, ensure};
use model::ports::runtime::ContainerFilter;
use model::verdict::Subject;

use super::bench::{Bench, done_or_gone, refused};
use crate::contract::Impossible;
use crate::wanted::removal;

pub(super) async fn image_is_found_by_name_and_by_id(bench: &Bench<'_>) -> Result<()> {
    let name = bench.harness.image();
    let image = bench.runtime.images.image_status(&name).await?.context("not found by its name")?;
    ensure!(!image.id.is_empty() && image.size > 0, "{image:?}");
    ensure!(image.repo_tags.contains(&name), "{image:?}");
    let by_id = bench.runtime.images.image_status(&image.id).await?;
    ensure!(by_id.as_ref() == Some(&image), "by id: {by_id:?}, by name: {image:?}");
    let listed = bench.runtime.images.list_images().await?;
    ensure!(listed.contains(&image), "{image:?} is not in {listed:?}");
    Ok(())
}

pub(super) async fn missing_image_is_not_found(bench: &Bench<'_>) -> Result<()> {
    let absent = bench.harness.absent_image();
    let found = bench.runtime.images.image_status(&absent).await?;
    ensure!(found.is_none(), "{found:?}");
    done_or_gone(bench.runtime.images.remove_image(&removal(Subject::Image(absent))).await)
}

pub(super) async fn missing_image_cannot_be_pulled(bench: &Bench<'_>) -> Result<()> {
    let absent = bench.harness.absent_image();
    refused(bench.runtime.images.pull_image(&absent, None, None).await)?;
    let found = bench.runtime.images.image_status(&absent).await?;
    ensure!(found.is_none(), "{found:?}");
    Ok(())
}

pub(super) async fn pulled_image_is_present(bench: &Bench<'_>) -> Result<()> {
    let name = bench.harness.pullable_image().context(Impossible("pull images"))?;
    let reference = bench.runtime.images.pull_image(&name, None, None).await?;
    let by_name =
        bench.runtime.images.image_status(&name).await?.context("not found by its name")?;
    let by_reference = bench.runtime.images.image_status(&reference).await?;
    ensure!(by_reference.as_ref() == Some(&by_name), "{by_reference:?}, but {by_name:?}");
    let again = bench.runtime.images.pull_image(&name, None, None).await?;
    ensure!(again == reference, "{reference} became {again}");
    Ok(())
}

pub(super) async fn removed_image_is_gone(bench: &Bench<'_>) -> Result<()> {
    let name =
        bench.harness.disposable_image().await.context(Impossible("provide a disposable image"))?;
    let image = bench.runtime.images.image_status(&name).await?.context("not present initially")?;
    let verdict = removal(Subject::Image(image.id.clone()));
    bench.runtime.images.remove_image(&verdict).await?;
    for reference in [&name, &image.id] {
        let found = bench.runtime.images.image_status(reference).await?;
        ensure!(found.is_none(), "{reference}: {found:?}");
    }
    let listed = bench.runtime.images.list_images().await?;
    ensure!(listed.iter().all(|other| other.id != image.id), "{listed:?}");
    done_or_gone(bench.runtime.images.remove_image(&verdict).await)
}

pub(super) async fn container_list_has_the_image_id(bench: &Bench<'_>) -> Result<()> {
    let pod = bench.pod().await?;
    let container = bench.start(&pod, &["exit", "0"]).await?;
    bench.exited(&container).await?;
    let name = bench.harness.image();
    let image = bench.runtime.images.image_status(&name).await?.context("not found by its name")?;
    let by_sandbox =
        ContainerFilter { sandbox_id: Some(pod.sandbox.clone()), ..ContainerFilter::default() };
    for filter in [ContainerFilter::default(), by_sandbox] {
        let listed = bench.runtime.images.list_image_uses(&filter).await?;
        let used = listed.iter().find(|used| used.container == container);
        let used = used.with_context(|| format!("it is not in {listed:?}"))?;
        ensure!(*used.image_id == *image.id, "{used:?}, but the image is {}", image.id);
        ensure!(used.pod_uid.as_ref() == Some(&pod.config.pod_uid), "{used:?}");
    }
    Ok(())
}

pub(super) async fn image_file_system_is_reported(bench: &Bench<'_>) -> Result<()> {
    let found = bench.runtime.images.image_fs_info().await?;
    let first = found.images.first().context("no image file system")?;
    ensure!(first.mount_point.is_absolute(), "{first:?}");
    Ok(())
}
