//! Whether a runtime has just what is known.

use futures_util::future::join;
use model::fingerprint::Fingerprint;
use model::ports::runtime::{Lists, RuntimeError};

use crate::lists::{self, Containers, Lister, Sandboxes};
use crate::service::Service;

/// Lists everything, unless `known` stands for it. With an object that does not say what it is it never
/// does, since lists leave that out.
pub(crate) async fn list_if_changed(
    service: &Service<Lister>,
    known: &Fingerprint,
) -> Result<Option<Lists>, RuntimeError> {
    const OBJECT: &str = "of all pods";
    let (sandbox_filter, container_filter) = Default::default();
    let (sandboxes, containers) = join(
        lists::sandboxes::<Sandboxes>(service, OBJECT, &sandbox_filter),
        lists::containers::<Containers>(service, OBJECT, &container_filter),
    )
    .await;
    let (sandboxes, containers) = (sandboxes?, containers?);
    let found = sandboxes.fingerprint.and(containers.fingerprint);
    Ok((!known.vouches_for(&found)).then_some((sandboxes.list, containers.list)))
}
