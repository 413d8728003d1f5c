//! Whether a runtime has just what is known.

use futures_util::future::join;
use model::fingerprint::Fingerprint;
use model::ports::runtime::{Lists, RuntimeError};

use crate::lists::{self, ContainerMarks, Containers, Lister, SandboxMarks, Sandboxes};
use crate::service::Service;

const OBJECT: &str = "of all pods";

/// Lists everything, unless `known` stands for it. With an object that does not say what it is it never
/// does, since lists leave that out.
///
/// Most lists show nothing new, so they are first read for that alone. If something is new they are asked for
/// again: to keep the first ones would take as much memory as there are objects, every time.
pub(crate) async fn list_if_changed(
    service: &Service<Lister>,
    known: &Fingerprint,
) -> Result<Option<Lists>, RuntimeError> {
    let (sandbox_filter, container_filter) = Default::default();
    let (sandboxes, containers) = join(
        lists::sandboxes::<SandboxMarks>(service, OBJECT, &sandbox_filter),
        lists::containers::<ContainerMarks>(service, OBJECT, &container_filter),
    )
    .await;
    if known.vouches_for(&sandboxes?.0.and(containers?.0)) {
        return Ok(None);
    }
    let (sandboxes, containers) = join(
        lists::sandboxes::<Sandboxes>(service, OBJECT, &sandbox_filter),
        lists::containers::<Containers>(service, OBJECT, &container_filter),
    )
    .await;
    Ok(Some((sandboxes?.list, containers?.list)))
}
