//! What volumes are made of.

use k8s_openapi::api::core::v1::{EmptyDirVolumeSource, Volume};
use model::ports::volumes::HostPathKind;
use model::quantity::Quantity;
use model::volume::{Plugin, VolumeId};

use super::{Medium, OuterName, ResolveError, VolumeSource, VolumeSpec};

/// The file system of a local block device that does not name one.
const LOCAL_FS_TYPE: &str = "ext4";

/// A volume that refers to no claim.
pub(super) fn inline(volume: &Volume) -> Result<VolumeSpec, ResolveError> {
    let (plugin, source) = source(volume)?;
    let of_nfs = volume.nfs.as_ref().is_some_and(|nfs| nfs.read_only == Some(true));
    let read_only = plugin.is_read_only() || plugin == Plugin::Nfs && of_nfs;
    Ok(VolumeSpec {
        id: VolumeId::new(plugin, &volume.name),
        outer_names: vec![OuterName { name: volume.name.as_str().into(), read_only }],
        source,
        read_only,
        is_block: false,
        fs_group_applies: plugin == Plugin::EmptyDir || plugin.requires_remount(),
        persistent: None,
    })
}

/// The plugin and source of a volume. If there are several sources, the first is used, as everywhere
/// in the API.
fn source(volume: &Volume) -> Result<(Plugin, VolumeSource), ResolveError> {
    let content = |plugin| Ok((plugin, VolumeSource::Content));
    let kind = podspec::volume_kinds(volume).first().copied().unwrap_or_default();
    match kind {
        "configMap" => content(Plugin::ConfigMap),
        "secret" => content(Plugin::Secret),
        "downwardAPI" => content(Plugin::DownwardApi),
        "projected" => content(Plugin::Projected),
        "emptyDir" => {
            let source = volume.empty_dir.clone().unwrap_or_default();
            Ok((Plugin::EmptyDir, empty_dir(&source)?))
        }
        "hostPath" => {
            let source = volume.host_path.clone().unwrap_or_default();
            let kind = source.type_.as_deref().unwrap_or_default();
            Ok((Plugin::HostPath, host_path(&source.path, kind)?))
        }
        "nfs" => {
            let source = volume.nfs.clone().unwrap_or_default();
            let (server, path) = (source.server, source.path);
            Ok((Plugin::Nfs, VolumeSource::Nfs { server, path, options: Vec::new() }))
        }
        "image" => {
            let source = volume.image.clone().unwrap_or_default();
            let reference = source.reference.unwrap_or_default();
            let pull_policy = source.pull_policy.unwrap_or_default();
            Ok((Plugin::Image, VolumeSource::Image { reference, pull_policy }))
        }
        // The API server sets `emptyDir` where there is no source.
        "" => Ok((Plugin::EmptyDir, empty_dir(&EmptyDirVolumeSource::default())?)),
        kind => Err(ResolveError::Unsupported(kind.into())),
    }
}

fn empty_dir(source: &EmptyDirVolumeSource) -> Result<VolumeSource, ResolveError> {
    let medium = match source.medium.as_deref().unwrap_or_default() {
        "" => Medium::Disk,
        "Memory" => Medium::Memory,
        "HugePages" => Medium::HugePages(None),
        other => match other.strip_prefix("HugePages-") {
            Some(size) => Medium::HugePages(Some(size.to_owned())),
            None => return Err(ResolveError::Medium(other.to_owned())),
        },
    };
    let limit = source.size_limit.as_ref();
    let limit = limit.map(|limit| match Quantity::parse(&limit.0) {
        Ok(quantity) => Ok(quantity.value()),
        Err(_) => Err(ResolveError::SizeLimit(limit.0.clone())),
    });
    // Zero is not a limit.
    let size_limit = limit.transpose()?.and_then(|limit| u64::try_from(limit).ok());
    Ok(VolumeSource::EmptyDir { medium, size_limit: size_limit.filter(|limit| *limit > 0) })
}

fn leads_upwards(path: &str) -> bool {
    path.split('/').any(|part| part == "..")
}

pub(super) fn host_path(path: &str, kind: &str) -> Result<VolumeSource, ResolveError> {
    if leads_upwards(path) {
        return Err(ResolveError::HostPath(path.to_owned()));
    }
    let kind = match kind {
        "" => HostPathKind::Any,
        "DirectoryOrCreate" => HostPathKind::DirectoryOrCreate,
        "Directory" => HostPathKind::Directory,
        "FileOrCreate" => HostPathKind::FileOrCreate,
        "File" => HostPathKind::File,
        "Socket" => HostPathKind::Socket,
        "CharDevice" => HostPathKind::CharDevice,
        "BlockDevice" => HostPathKind::BlockDevice,
        other => return Err(ResolveError::HostPathType(other.to_owned())),
    };
    Ok(VolumeSource::HostPath { path: path.to_owned(), kind })
}

pub(super) fn local(
    name: &str,
    path: &str,
    fs_type: Option<&str>,
    options: Vec<String>,
) -> Result<VolumeSource, ResolveError> {
    if path.is_empty() {
        return Err(ResolveError::NoLocalPath(name.into()));
    }
    if leads_upwards(path) {
        return Err(ResolveError::LocalPath(path.to_owned()));
    }
    let fs_type = fs_type.filter(|kind| !kind.is_empty()).unwrap_or(LOCAL_FS_TYPE);
    let (path, fs_type) = (path.to_owned(), fs_type.to_owned());
    Ok(VolumeSource::Local { path, fs_type, options })
}
