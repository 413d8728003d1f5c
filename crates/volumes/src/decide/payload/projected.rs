//! Several sources in one volume.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{
    Pod, PodCertificateProjection, ProjectedVolumeSource, ServiceAccountTokenProjection,
    VolumeProjection,
};
use model::objects::{ObjectKey, TokenRequest};
use model::pod_certificates::CertificateSource;
use model::volume::PayloadFile;
use podspec::view;

use super::keys::Keys;
use super::owner::{fs_user, has_fs_group};
use super::{DEFAULT_MODE, Files, Needs, PayloadError, Sources, downward, file, trust_bundle};

/// The default lifetime of a token in seconds.
const TOKEN_SECONDS: i64 = 3600;
/// The mode of a token or trust bundle whose owner is known, or whose group can read it.
const OWNED_MODE: i32 = 0o600;

fn sources(volume: &ProjectedVolumeSource) -> impl Iterator<Item = &VolumeProjection> {
    volume.sources.iter().flatten()
}

pub(super) fn needs(pod: &Pod, name: &str, volume: &ProjectedVolumeSource) -> Needs {
    let namespace = &view::pod_name(pod).namespace;
    let mut needs = Needs::default();
    for (index, source) in sources(volume).enumerate() {
        if let Some(secret) = &source.secret {
            needs.objects.push(ObjectKey::secret(namespace, &secret.name));
        } else if let Some(map) = &source.config_map {
            needs.objects.push(ObjectKey::config_map(namespace, &map.name));
        } else if let Some(token) = &source.service_account_token {
            needs.tokens.push(token_request(pod, token));
        } else if source.cluster_trust_bundle.is_some() {
            needs.trust_bundles = true;
        } else if let Some(certificate) = &source.pod_certificate {
            needs.certificates.push(certificate_source(pod, name, index, certificate));
        }
    }
    needs
}

fn token_request(pod: &Pod, token: &ServiceAccountTokenProjection) -> TokenRequest {
    let account = view::spec(pod).and_then(|spec| spec.service_account_name.as_deref());
    TokenRequest {
        service_account: account.unwrap_or_default().into(),
        audiences: token.audience.iter().filter(|one| !one.is_empty()).cloned().collect(),
        expiration_seconds: token.expiration_seconds.unwrap_or(TOKEN_SECONDS),
        pod: view::pod_name(pod),
        pod_uid: view::uid(pod),
    }
}

fn certificate_source(
    pod: &Pod,
    volume: &str,
    index: usize,
    certificate: &PodCertificateProjection,
) -> CertificateSource {
    let account = view::spec(pod).and_then(|spec| spec.service_account_name.as_deref());
    CertificateSource {
        pod_uid: view::uid(pod),
        pod: view::pod_name(pod),
        volume: volume.into(),
        index,
        service_account: account.unwrap_or_default().into(),
        signer: certificate.signer_name.as_str().into(),
        key_type: certificate.key_type.as_str().into(),
        max_expiration_seconds: certificate.max_expiration_seconds,
        annotations: certificate.user_annotations.clone().unwrap_or_default(),
    }
}

/// The files of all sources, in order. All errors are returned together.
pub(super) fn files(
    name: &str,
    volume: &ProjectedVolumeSource,
    from: &Sources<'_>,
) -> Result<Files, PayloadError> {
    let default_mode = volume.default_mode.unwrap_or(DEFAULT_MODE);
    let (mut files, mut errors) = (Files::new(), Vec::new());
    for (index, source) in sources(volume).enumerate() {
        let files_of = match &source.pod_certificate {
            Some(certificate) => {
                let needed = certificate_source(from.pod, name, index, certificate);
                certificate_files(certificate, &needed, default_mode, from)
            }
            None => source_files(source, default_mode, from),
        };
        match files_of {
            Ok(mut more) => files.append(&mut more),
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() { Ok(files) } else { Err(PayloadError::all(errors)) }
}

fn source_files(
    source: &VolumeProjection,
    default_mode: i32,
    from: &Sources<'_>,
) -> Result<Files, PayloadError> {
    let namespace = &view::pod_name(from.pod).namespace;
    if let Some(secret) = &source.secret {
        let keys = Keys {
            object: ObjectKey::secret(namespace, &secret.name),
            items: secret.items.as_deref().unwrap_or_default(),
            default_mode,
            is_optional: secret.optional == Some(true),
        };
        keys.files(from.objects)
    } else if let Some(map) = &source.config_map {
        let keys = Keys {
            object: ObjectKey::config_map(namespace, &map.name),
            items: map.items.as_deref().unwrap_or_default(),
            default_mode,
            is_optional: map.optional == Some(true),
        };
        keys.files(from.objects)
    } else if let Some(fields) = &source.downward_api {
        downward::files(fields.items.as_deref().unwrap_or_default(), default_mode, from)
    } else if let Some(token) = &source.service_account_token {
        Ok(vec![(token.path.clone(), token_file(token, default_mode, from)?)])
    } else if let Some(bundle) = &source.cluster_trust_bundle {
        let pem = trust_bundle::pem(bundle, from.trust_bundles);
        let pem = pem.map_err(PayloadError::TrustBundle)?;
        Ok(vec![(bundle.path.clone(), owned_file(from.pod, pem.as_bytes(), default_mode))])
    } else {
        Ok(Files::new())
    }
}

fn token_file(
    token: &ServiceAccountTokenProjection,
    default_mode: i32,
    from: &Sources<'_>,
) -> Result<PayloadFile, PayloadError> {
    let received = from.tokens.get(&token_request(from.pod, token)).ok_or(PayloadError::NoToken)?;
    let received = received.as_ref().map_err(|error| PayloadError::Token(error.clone()))?;
    Ok(owned_file(from.pod, received.token.as_bytes(), default_mode))
}

/// Key and certificates, in one file or in two.
fn certificate_files(
    certificate: &PodCertificateProjection,
    needed: &CertificateSource,
    default_mode: i32,
    from: &Sources<'_>,
) -> Result<Files, PayloadError> {
    let not_requested = || PayloadError::PodCertificate("it was not requested".into());
    let issued = from.certificates.get(needed).ok_or_else(not_requested)?;
    let issued = issued.as_ref().map_err(|text| PayloadError::PodCertificate(Arc::clone(text)))?;
    let both = format!("{}{}", issued.key, issued.chain);
    let files = [
        (&certificate.credential_bundle_path, &*both),
        (&certificate.key_path, &*issued.key),
        (&certificate.certificate_chain_path, &*issued.chain),
    ];
    let named = files.into_iter().filter_map(|(path, content)| {
        let path = path.clone().filter(|path| !path.is_empty())?;
        Some((path, owned_file(from.pod, content.as_bytes(), default_mode)))
    });
    Ok(named.collect())
}

/// A file that belongs to the user of the containers. With `fsGroup` the group is let in when ownership is set.
fn owned_file(pod: &Pod, content: &[u8], default_mode: i32) -> PayloadFile {
    let owner = fs_user(pod);
    let is_owned = owner.is_some() || has_fs_group(pod);
    let mode = if is_owned { OWNED_MODE } else { default_mode };
    PayloadFile { owner, ..file(content, mode) }
}
