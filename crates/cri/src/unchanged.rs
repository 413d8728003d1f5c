//! Detects whether the runtime's objects changed.

use futures_util::future::join;
use model::fingerprint::Fingerprint;
use model::ports::runtime::{Lists, RuntimeError};

use crate::lists::{self, ContainerFingerprint, Containers, Lister, SandboxFingerprint, Sandboxes};
use crate::service::Service;

const OBJECT: &str = "of all pods";

/// Lists everything, unless the list has the fingerprint `known`. A list with a malformed object never has,
/// since lists leave such objects out.
///
/// Most lists show no change, so they are first decoded only for the fingerprint. After a change they are
/// requested again: keeping the first response would take as much memory as all objects, every time.
pub(crate) async fn list_if_changed(
    service: &Service<Lister>,
    known: &Fingerprint,
) -> Result<Option<Lists>, RuntimeError> {
    let (sandbox_filter, container_filter) = Default::default();
    let (sandboxes, containers) = join(
        lists::sandboxes::<SandboxFingerprint>(service, OBJECT, &sandbox_filter),
        lists::containers::<ContainerFingerprint>(service, OBJECT, &container_filter),
    )
    .await;
    if known.is_same(&sandboxes?.0.and(containers?.0)) {
        return Ok(None);
    }
    let (sandboxes, containers) = join(
        lists::sandboxes::<Sandboxes>(service, OBJECT, &sandbox_filter),
        lists::containers::<Containers>(service, OBJECT, &container_filter),
    )
    .await;
    Ok(Some((sandboxes?.list, containers?.list)))
}
