//! Directories inside a volume on which other volumes of a container are mounted.

use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

use k8s_openapi::api::core::v1::{Container, Pod};
use podspec::view;

/// The directories inside a volume that must exist because a container mounts another volume there. Of nested
/// directories only the outermost.
pub fn nested_directories(pod: &Pod, volume: &str) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for container in view::init_containers(pod).iter().chain(view::containers(pod)) {
        add(&mut found, container, volume);
    }
    for container in view::ephemeral_containers(pod) {
        add(&mut found, &container, volume);
    }
    found
}

fn add(found: &mut BTreeSet<PathBuf>, container: &Container, volume: &str) {
    let mounts = || container.volume_mounts.iter().flatten();
    let paths: BTreeSet<PathBuf> = mounts().map(|mount| cleaned(&mount.mount_path)).collect();
    for outer in mounts().filter(|mount| mount.name == volume) {
        let outer = cleaned(&outer.mount_path);
        let inside: Vec<&Path> =
            paths.iter().filter_map(|path| path.strip_prefix(&outer).ok()).collect();
        let inside = inside.iter().filter(|path| !path.as_os_str().is_empty());
        for path in inside.clone() {
            let is_outermost =
                !inside.clone().any(|other| other != path && path.starts_with(other));
            if is_outermost {
                found.insert(path.to_path_buf());
            }
        }
    }
}

/// The path as names below the root, without `.` and `..`.
fn cleaned(path: &str) -> PathBuf {
    let mut names = PathBuf::new();
    for part in Path::new(path).components() {
        match part {
            Component::Normal(name) => names.push(name),
            Component::ParentDir => {
                names.pop();
            }
            Component::RootDir | Component::CurDir | Component::Prefix(_) => {}
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    // behaviour: VOL-8
    #[test]
    fn outermost_directories_of_nested_mounts_are_created() {
        let mount = |name: &str, path: &str| json!({ "name": name, "mountPath": path });
        let pod = json!({ "spec": { "containers": [
            { "name": "a", "volumeMounts": [
                mount("v", "/dir"), mount("x", "/dir/nested"), mount("y", "/dir/nested/deep"),
                mount("z", "/dir/nested2/more/"), mount("w", "/directory/no"), mount("u", "/dir/a/../b"),
            ] },
            { "name": "b", "volumeMounts": [mount("v", "/other"), mount("x", "/other/c")] },
            { "name": "c", "volumeMounts": [mount("x", "/dir/not-mine")] },
        ] } });
        let pod: Pod = serde_json::from_value(pod).unwrap();
        let found: Vec<PathBuf> = nested_directories(&pod, "v").into_iter().collect();
        let expected: Vec<PathBuf> = ["b", "c", "nested", "nested2/more"].map(Into::into).into();
        assert_eq!(found, expected);
        assert!(nested_directories(&pod, "none").is_empty());
    }
}
