//! Paths of the main file that are relative to its directory.

use std::path::{Component, Path, PathBuf};

use crate::fields::KubeletConfiguration;

/// Resolves paths against the directory of the file; empty ones stay empty.
pub(crate) fn make_absolute(config: &mut KubeletConfiguration, directory: &Path) {
    for path in [
        &mut config.static_pod_path,
        &mut config.authentication.x509.client_ca_file,
        &mut config.tls_cert_file,
        &mut config.tls_private_key_file,
        &mut config.resolv_conf,
        &mut config.volume_plugin_dir,
        &mut config.pod_logs_dir,
    ] {
        if !path.is_empty() && !path.starts_with('/') {
            *path = clean(&directory.join(&*path)).to_string_lossy().into_owned();
        }
    }
}

/// The path without `.`, `..` and doubled separators. Does not access the file system.
pub(crate) fn clean(path: &Path) -> PathBuf {
    let mut cleaned = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => match cleaned.components().next_back() {
                Some(Component::Normal(_)) => {
                    cleaned.pop();
                }
                Some(Component::RootDir) => {}
                _ => cleaned.push(".."),
            },
            Component::CurDir => {}
            other => cleaned.push(other),
        }
    }
    cleaned
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_paths_are_resolved_against_the_file_directory() {
        for (given, expected) in [
            ("", ""),
            ("/etc/manifests", "/etc/manifests"),
            ("manifests", "/srv/conf/manifests"),
            ("../manifests/", "/srv/manifests"),
            ("./a//b", "/srv/conf/a/b"),
            ("../../../x", "/x"),
        ] {
            let mut config = KubeletConfiguration {
                static_pod_path: given.to_owned(),
                ..KubeletConfiguration::default()
            };
            make_absolute(&mut config, Path::new("/srv/conf"));
            assert_eq!(config.static_pod_path, expected, "{given}");
        }
    }
}
