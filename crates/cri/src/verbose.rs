//! What runtimes report in addition to the CRI: JSON under the name `info`, as containerd and CRI-O have it.
//! Values that cannot be decoded are absent.

use std::collections::BTreeMap;

use serde::Deserialize;

#[derive(Debug, Default, Deserialize)]
struct ImageInfo {
    #[serde(rename = "imageSpec", default)]
    spec: ImageSpec,
    /// CRI-O's name.
    #[serde(default)]
    labels: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
struct ImageSpec {
    #[serde(default)]
    config: ImageConfig,
}

#[derive(Debug, Default, Deserialize)]
struct ImageConfig {
    #[serde(rename = "Labels", default)]
    labels: BTreeMap<String, String>,
}

#[derive(Debug, Default, Deserialize)]
struct SandboxInfo {
    #[serde(default)]
    image: String,
}

fn info<T: Default + for<'de> Deserialize<'de>>(verbose: &BTreeMap<String, String>) -> T {
    let text = verbose.get("info").map_or("", String::as_str);
    serde_json::from_str(text).unwrap_or_default()
}

pub(crate) fn image_labels(verbose: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let ImageInfo { spec, mut labels } = info(verbose);
    labels.extend(spec.config.labels);
    labels
}

pub(crate) fn sandbox_image(verbose: &BTreeMap<String, String>) -> Option<String> {
    let SandboxInfo { image } = info(verbose);
    (!image.is_empty()).then_some(image)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verbose(text: &str) -> BTreeMap<String, String> {
        BTreeMap::from([("info".to_owned(), text.to_owned())])
    }

    #[test]
    fn image_labels_are_read_from_the_image_configuration() {
        let text = r#"{"chainID":"x","imageSpec":{"config":{"Labels":{"keep":"yes"},"Env":[]}}}"#;
        let labels = BTreeMap::from([("keep".to_owned(), "yes".to_owned())]);
        assert_eq!(image_labels(&verbose(text)), labels);
        assert_eq!(image_labels(&verbose(r#"{"labels":{"keep":"yes"}}"#)), labels);
        for nothing in ["", "no json", "{}", r#"{"imageSpec":{"config":{"Labels":null}}}"#] {
            assert_eq!(image_labels(&verbose(nothing)), BTreeMap::new(), "{nothing}");
        }
        assert_eq!(image_labels(&BTreeMap::new()), BTreeMap::new());
    }

    #[test]
    fn sandbox_image_is_read_from_verbose_info() {
        let image = sandbox_image(&verbose(r#"{"pid":7,"image":"pause:3.10"}"#));
        assert_eq!(image.as_deref(), Some("pause:3.10"));
        for nothing in ["", "{}", r#"{"image":""}"#, "[1]"] {
            assert_eq!(sandbox_image(&verbose(nothing)), None, "{nothing}");
        }
    }
}
