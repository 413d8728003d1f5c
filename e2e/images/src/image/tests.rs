use std::collections::BTreeSet;
use std::io::Read;

use serde_json::Value;
use tar::EntryType;

use super::*;
use crate::{catalogue, extra, workload};

const EXECUTABLE: &[u8] = b"an executable";

/// The content of an archive.
struct Unpacked {
    entries: BTreeMap<String, (EntryType, u32, Vec<u8>)>,
}

impl Unpacked {
    fn from(archive: &[u8]) -> Self {
        let entries = tar::Archive::new(archive)
            .entries()
            .unwrap()
            .map(|entry| {
                let mut entry = entry.unwrap();
                let header = entry.header().clone();
                assert_eq!(header.mtime().unwrap(), 0);
                assert_eq!((header.uid().unwrap(), header.gid().unwrap()), (0, 0));
                let path = entry.path().unwrap().to_str().unwrap().to_owned();
                let mut content = Vec::new();
                entry.read_to_end(&mut content).unwrap();
                (path, (header.entry_type(), header.mode().unwrap(), content))
            })
            .collect();
        Self { entries }
    }

    fn content(&self, path: &str) -> &[u8] {
        &self.entries[path].2
    }

    fn json(&self, path: &str) -> Value {
        serde_json::from_slice(self.content(path)).unwrap()
    }

    /// The blob of a descriptor, checked against it.
    fn blob(&self, descriptor: &Value) -> &[u8] {
        let digest = descriptor["digest"].as_str().unwrap();
        let blob = self.content(&format!("blobs/{}", digest.replace(':', "/")));
        assert_eq!(Descriptor::of(blob, "").digest, digest);
        assert_eq!(descriptor["size"], blob.len());
        blob
    }

    fn document(&self, descriptor: &Value) -> Value {
        serde_json::from_slice(self.blob(descriptor)).unwrap()
    }
}

#[test]
fn digests_match_their_blobs() {
    for image in catalogue(EXECUTABLE) {
        let archive = Unpacked::from(&image.clone().padded(10).archive().unwrap());
        let manifest = archive.document(&archive.json("index.json")["manifests"][0]);
        let config = archive.document(&manifest["config"]);
        let layers = manifest["layers"].as_array().unwrap();
        assert_eq!(layers.len(), image.layers.len() + 1);
        let digests: Vec<_> = layers.iter().map(|layer| layer["digest"].clone()).collect();
        for layer in layers {
            archive.blob(layer);
        }
        assert_eq!(config["rootfs"]["diff_ids"], Value::from(digests));
        let blobs = archive.entries.keys().filter(|path| path.starts_with("blobs/sha256/"));
        // The directory itself, the manifest and the config.
        assert_eq!(blobs.count(), 3 + layers.len(), "{}", image.name());
    }
}

#[test]
fn sha256_of_a_known_text_is_correct() {
    assert_eq!(
        Descriptor::of(b"abc", "").digest,
        "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    );
}

#[test]
fn image_build_is_reproducible() {
    for (image, again) in catalogue(EXECUTABLE).into_iter().zip(catalogue(EXECUTABLE)) {
        assert!(
            image.padded(5000).archive().unwrap() == again.padded(5000).archive().unwrap(),
            "two archives of one image differ"
        );
    }
}

#[test]
fn image_does_not_depend_on_the_order_of_files() {
    let file = |text: &str| Entry::File { content: text.into(), mode: 0o644 };
    let one = Layer::default().with("a", file("1")).with("b/c", file("2"));
    let other = Layer::default().with("b/c", file("2")).with("a", file("1"));
    assert_eq!(one.archive().unwrap(), other.archive().unwrap());
}

#[test]
fn index_has_name_and_tag() {
    let archive = workload(EXECUTABLE.into()).named("ferrolet.test/a/b:7").archive().unwrap();
    let archive = Unpacked::from(&archive);
    let annotations = &archive.json("index.json")["manifests"][0]["annotations"];
    assert_eq!(annotations["io.containerd.image.name"], "ferrolet.test/a/b:7");
    assert_eq!(annotations["org.opencontainers.image.ref.name"], "7");
    assert_eq!(archive.json("oci-layout")["imageLayoutVersion"], "1.0.0");
}

#[test]
fn name_without_registry_or_tag_is_rejected() {
    for name in ["workload", "workload:1", "ferrolet.test/workload", "ferrolet.test:80/x", "a/b:"] {
        let error = workload(EXECUTABLE.into()).named(name).archive().unwrap_err();
        assert!(matches!(error, Error::Name { .. }), "{name}");
    }
}

#[test]
fn config_has_command_user_and_labels() {
    let process = |image: &Image| {
        let archive = Unpacked::from(&image.archive().unwrap());
        let manifest = archive.document(&archive.json("index.json")["manifests"][0]);
        archive.document(&manifest["config"])["config"].clone()
    };
    let plain = workload(EXECUTABLE.into());
    assert_eq!(process(&plain)["Labels"], Value::Null);
    let image = plain.cmd(&["sleep", "1"]).user("guest").label("keep", "yes");
    let process = process(&image);
    assert_eq!(process["Labels"]["keep"], "yes");
    assert_eq!(process["Entrypoint"], Value::from(vec!["/workload"]));
    assert_eq!(process["Cmd"], Value::from(vec!["sleep", "1"]));
    assert_eq!(process["User"], "guest");
    assert_eq!(process["WorkingDir"], "/");
}

#[test]
fn layer_has_the_files_of_a_small_system() {
    for image in catalogue(EXECUTABLE) {
        let layer = Unpacked::from(&image.layers[0].archive().unwrap());
        let (kind, mode, _) = &layer.entries["tmp/"];
        assert_eq!((*kind, *mode), (EntryType::Directory, 0o1777));
        let (kind, mode, content) = &layer.entries["workload"];
        assert_eq!((*kind, *mode, content.as_slice()), (EntryType::Regular, 0o755, EXECUTABLE));
        let files: [(&str, &[&str]); 2] = [
            ("etc/passwd", &["root", "www", "guest"]),
            ("etc/group", &["root", "www", "staff", "guest"]),
        ];
        for (file, expected) in files {
            let text = str::from_utf8(layer.content(file)).unwrap();
            let names: Vec<_> = text.lines().map(|line| line.split(':').next().unwrap()).collect();
            assert_eq!(names, expected, "{file}");
        }
    }
}

#[test]
fn directory_entry_precedes_its_content() {
    let layer = Layer::default()
        .with("a-b", Entry::Symlink { target: "a/b".into() })
        .with("/a/b/c", Entry::File { content: vec![], mode: 0o600 });
    let bytes = layer.archive().unwrap();
    let mut archive = tar::Archive::new(bytes.as_slice());
    let paths: Vec<_> = archive
        .entries()
        .unwrap()
        .map(|entry| entry.unwrap().path().unwrap().to_str().unwrap().to_owned())
        .collect();
    assert_eq!(paths, ["a/", "a-b", "a/b/", "a/b/c"]);
}

#[test]
fn padding_has_its_size_and_differs_by_name() {
    for size in [0, 1, 8, 1001] {
        assert_eq!(noise("a", size).len(), size);
    }
    assert_ne!(noise("a", 100), noise("b", 100));
}

#[test]
fn images_have_files_of_their_own() {
    let names = |images: &[Image]| images.iter().map(Image::file_name).collect::<Vec<_>>();
    assert_eq!(
        names(&catalogue(EXECUTABLE)),
        ["pause-1.tar", "workload-1.tar", "disposable-1.tar"]
    );
    assert_eq!(
        names(&extra(EXECUTABLE)),
        ["numbered-user-1.tar", "named-user-1.tar", "tools-1.tar"]
    );
}

#[test]
fn images_have_ids_of_their_own() {
    let images = [catalogue(EXECUTABLE), extra(EXECUTABLE)].concat();
    let configs: BTreeSet<_> = images
        .iter()
        .map(|image| {
            let archive = Unpacked::from(&image.archive().unwrap());
            let manifest = archive.document(&archive.json("index.json")["manifests"][0]);
            manifest["config"]["digest"].as_str().unwrap().to_owned()
        })
        .collect();
    assert_eq!(configs.len(), images.len());
}

#[test]
fn unchanged_archive_is_kept_and_a_different_one_replaced() {
    let directory = tempfile::tempdir().unwrap();
    let into = directory.path().join("images");
    let path = workload(EXECUTABLE.into()).write(&into).unwrap();
    let written = fs::metadata(&path).unwrap();
    assert_eq!(workload(EXECUTABLE.into()).write(&into).unwrap(), path);
    let kept = fs::metadata(&path).unwrap();
    assert_eq!(
        std::os::unix::fs::MetadataExt::ino(&written),
        std::os::unix::fs::MetadataExt::ino(&kept)
    );

    let other = workload(b"another executable".to_vec());
    other.write(&into).unwrap();
    assert_eq!(fs::read(&path).unwrap(), other.archive().unwrap());
    assert_eq!(fs::read_dir(&into).unwrap().count(), 1, "nothing else is left behind");
}
