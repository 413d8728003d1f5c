//! Volumes whose files the agent writes: config maps, secrets, fields of the pod, tokens.

use std::path::PathBuf;
use std::sync::Arc;

use futures_util::future::{join, join_all, join4};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, Volume};
use model::ids::PodUid;
use model::ports::objects::ObjectError;
use model::volume::{Payload, Place, Plugin};
use podspec::view;

use super::empty_dir;
use super::{Content, MountFailure, MountRequest, ownership};
use crate::decide::nested::nested_directories;
use crate::decide::payload::{
    Certificates, Needs, Objects, Sources, Tokens, TrustBundles, needs, payload,
};
use crate::manager::ManagerParts;

/// Computes the content, and writes it unless the host already has it.
pub(super) async fn mount(
    parts: &ManagerParts,
    uid: &PodUid,
    request: &MountRequest,
) -> Result<Content, MountFailure> {
    let MountRequest { pod, spec, before, .. } = request;
    let volume = volume(pod, &spec.id.name)
        .ok_or_else(|| MountFailure::set_up("the pod has no such volume"))?;
    let needs = needs(pod, volume);
    let now = parts.clock.now();
    let place = parts.layout.volume(uid, &spec.id);
    // A new volume is set up while its sources are read.
    let set_up = async {
        match before {
            Some(_) => Ok(()),
            None => set_up(parts, uid, request, &place).await,
        }
    };
    let (read, set_up) = join(read(parts, &needs), set_up).await;
    let allocatable = parts.node.allocatable();
    let sources = Sources {
        pod,
        objects: &read.objects,
        tokens: &read.tokens,
        trust_bundles: &read.trust_bundles,
        certificates: &read.certificates,
        allocatable: &allocatable,
    };
    let payload =
        payload(volume, &sources).map_err(|error| MountFailure::set_up(error.to_string()))?;
    set_up?;
    let refresh_at = refresh_at(parts, &needs);
    let digest = payload.digest();
    // The files themselves are compared from time to time: a link may have been removed.
    let resync = jiff::SignedDuration::try_from(parts.resync).unwrap_or_default();
    let unchanged = before.as_ref().filter(|before| {
        before.digest == digest && now.duration_since(before.verified_at) < resync
    });
    let verified_at = match unchanged {
        Some(before) => before.verified_at,
        None => write(parts, request, &place, &payload).await.map(|()| now)?,
    };
    Ok(Content { digest, verified_at, refresh_at })
}

async fn write(
    parts: &ManagerParts,
    request: &MountRequest,
    place: &Place,
    payload: &Payload,
) -> Result<(), MountFailure> {
    let MountRequest { pod, spec, .. } = request;
    let ownership = ownership(pod, spec, true);
    parts.host.write_payload(place, payload, ownership.as_ref()).await?;
    Ok(())
}

fn volume<'a>(pod: &'a Pod, name: &str) -> Option<&'a Volume> {
    view::spec(pod)?.volumes.iter().flatten().find(|volume| volume.name == name)
}

/// Creates the directory, in memory for secrets.
async fn set_up(
    parts: &ManagerParts,
    uid: &PodUid,
    request: &MountRequest,
    place: &Place,
) -> Result<(), MountFailure> {
    let MountRequest { pod, spec, .. } = request;
    let is_on_disk = spec.id.plugin == Plugin::ConfigMap;
    let memory = (!is_on_disk).then(|| empty_dir::memory(parts, pod, None));
    let marker = parts.layout.ready_marker(uid, &spec.id);
    if !empty_dir::is_ready(parts, place, &marker, memory.is_some()).await? {
        empty_dir::set_up(parts, place, memory.as_ref()).await?;
        parts.host.make_directory(&marker, 0o750).await?;
    }
    for directory in nested_directories(pod, &spec.id.name) {
        let mut whole = PathBuf::new();
        for name in &directory {
            whole.push(name);
            parts.host.make_directory(&place.join(&whole), 0o755).await?;
        }
    }
    Ok(())
}

/// The objects that were read for a volume.
struct Read {
    objects: Objects,
    tokens: Tokens,
    trust_bundles: TrustBundles,
    certificates: Certificates,
}

/// Reads the objects and tokens that a volume needs, side by side.
async fn read(parts: &ManagerParts, needs: &Needs) -> Read {
    let objects = join_all(needs.objects.iter().map(|key| async move {
        let object = match &parts.objects {
            Some(objects) => objects.get(key).await,
            None => Err(ObjectError::NotRead("no API server is configured".to_owned())),
        };
        (key.clone(), object)
    }));
    let tokens = join_all(needs.tokens.iter().map(|request| async move {
        let token = match &parts.tokens {
            Some(tokens) => tokens.token(request).await,
            None => Err("no API server is configured".to_owned()),
        };
        (request.clone(), token.map_err(Arc::from))
    }));
    let trust_bundles = read_trust_bundles(parts, needs);
    let certificates = join_all(needs.certificates.iter().map(|source| async move {
        let issued = match &parts.certificates {
            Some(certificates) => certificates.certificate(source).await,
            // Upstream's text while the feature gate is off.
            None => Err("unimplemented".to_owned()),
        };
        (source.clone(), issued.map_err(Arc::from))
    }));
    let (objects, tokens, trust_bundles, certificates) =
        join4(objects, tokens, trust_bundles, certificates).await;
    Read {
        objects: objects.into_iter().collect(),
        tokens: tokens.into_iter().collect(),
        trust_bundles,
        certificates: certificates.into_iter().collect(),
    }
}

/// The text without a store is upstream's, which it also returns while the feature gate is off.
async fn read_trust_bundles(parts: &ManagerParts, needs: &Needs) -> TrustBundles {
    match &parts.trust_bundles {
        Some(bundles) if needs.trust_bundles => bundles.all().await.map_err(Arc::from),
        Some(_) => Ok(Arc::from([])),
        None => Err("ClusterTrustBundle projection is not supported in static kubelet mode".into()),
    }
}

/// When the first token or certificate is due for renewal.
fn refresh_at(parts: &ManagerParts, needs: &Needs) -> Option<Timestamp> {
    let tokens = parts
        .tokens
        .iter()
        .flat_map(|tokens| needs.tokens.iter().filter_map(|request| tokens.refresh_at(request)));
    let certificates = parts.certificates.iter().flat_map(|certificates| {
        needs.certificates.iter().filter_map(|source| certificates.refresh_at(source))
    });
    tokens.chain(certificates).min()
}
