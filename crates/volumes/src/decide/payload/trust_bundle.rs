//! Certificates of trust bundles.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use k8s_openapi::api::core::v1::ClusterTrustBundleProjection;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, LabelSelectorRequirement};
use model::objects::TrustBundleRecord;

use super::TrustBundles;

const BEGIN: &str = "-----BEGIN CERTIFICATE-----";
const END: &str = "-----END CERTIFICATE-----";
/// How long a line of a certificate in PEM is.
const LINE: usize = 64;

/// Why there are no certificates. The texts are upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TrustBundleError {
    /// The trust bundles are not known.
    #[error("{0}")]
    NotKnown(Arc<str>),
    /// There is no trust bundle of this name.
    #[error(
        "while getting ClusterTrustBundle: clustertrustbundle.certificates.k8s.io {0:?} not found"
    )]
    NotFound(String),
    /// No trust bundle of the signer has these labels.
    #[error("combination of signerName and labelSelector matched zero ClusterTrustBundles")]
    NoMatch,
    /// The source names neither a trust bundle nor a signer.
    #[error("ClusterTrustBundle projection requires either name or signerName to be set")]
    NoName,
}

/// The certificates that a source refers to, each once, in PEM. They are ordered by their content; upstream's order is
/// random, so that programs do not rely on it.
pub(super) fn pem(
    source: &ClusterTrustBundleProjection,
    bundles: &TrustBundles,
) -> Result<String, TrustBundleError> {
    let all = bundles.as_ref().map_err(|error| TrustBundleError::NotKnown(Arc::clone(error)))?;
    let (found, missing): (Vec<&TrustBundleRecord>, _) = match (&source.name, &source.signer_name) {
        (Some(name), _) => {
            let missing = TrustBundleError::NotFound(name.clone());
            (all.iter().filter(|one| one.name == *name).collect(), missing)
        }
        (None, Some(signer)) => {
            let of_signer = all.iter().filter(|one| one.signer == *signer);
            let selector = source.label_selector.as_ref();
            let found = of_signer.filter(|one| matches(selector, &one.labels));
            (found.collect(), TrustBundleError::NoMatch)
        }
        (None, None) => return Err(TrustBundleError::NoName),
    };
    if found.is_empty() && source.optional != Some(true) {
        return Err(missing);
    }
    let certificates: BTreeSet<Vec<u8>> =
        found.into_iter().flat_map(|one| decoded(&one.certificates)).collect();
    Ok(certificates.iter().map(|certificate| encoded(certificate)).collect())
}

/// Without a selector nothing matches; an empty one matches everything.
fn matches(selector: Option<&LabelSelector>, labels: &BTreeMap<String, String>) -> bool {
    let Some(selector) = selector else { return false };
    let mut pairs = selector.match_labels.iter().flatten();
    pairs.all(|(key, value)| labels.get(key) == Some(value))
        && selector.match_expressions.iter().flatten().all(|one| is_met(one, labels))
}

fn is_met(requirement: &LabelSelectorRequirement, labels: &BTreeMap<String, String>) -> bool {
    let value = labels.get(&requirement.key);
    let is_listed = || {
        let mut values = requirement.values.iter().flatten();
        values.any(|one| Some(one) == value)
    };
    match &*requirement.operator {
        "In" => value.is_some() && is_listed(),
        "NotIn" => !is_listed(),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        _ => false,
    }
}

/// The certificates of a text in PEM. Text between them is skipped, as are invalid blocks: the API
/// server accepts none.
fn decoded(pem: &str) -> Vec<Vec<u8>> {
    let blocks = pem.split(BEGIN).skip(1).filter_map(|block| block.split_once(END));
    let content = blocks.map(|(content, _)| content.split_whitespace().collect::<String>());
    content.filter_map(|content| STANDARD.decode(content).ok()).collect()
}

fn encoded(certificate: &[u8]) -> String {
    let text = STANDARD.encode(certificate);
    let mut pem = format!("{BEGIN}\n");
    let mut rest = &*text;
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.len().min(LINE));
        pem.extend([line, "\n"]);
        rest = after;
    }
    pem + END + "\n"
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn bundle(
        name: &str,
        signer: &str,
        labels: &[(&str, &str)],
        certificates: &[u8],
    ) -> TrustBundleRecord {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        TrustBundleRecord {
            name: name.to_owned(),
            signer: signer.to_owned(),
            labels: labels.collect(),
            certificates: certificates.iter().map(|one| encoded(&[*one; 60])).collect(),
        }
    }

    /// The first bytes of the certificates that a source refers to.
    fn chosen(source: Value) -> Result<Vec<u8>, String> {
        let bundles = [
            bundle("plain", "", &[], &[3, 1, 3]),
            bundle("s:old", "s", &[("age", "old")], &[5, 6]),
            bundle("s:new", "s", &[("age", "new"), ("live", "")], &[6, 7]),
            bundle("t:old", "t", &[("age", "old")], &[9]),
        ];
        let source = serde_json::from_value(source).unwrap();
        let pem = pem(&source, &Ok(Arc::from(bundles))).map_err(|error| error.to_string())?;
        Ok(decoded(&pem).into_iter().map(|certificate| certificate[0]).collect())
    }

    // behaviour: VOL-49
    #[test]
    fn certificates_are_chosen_by_name_or_by_signer_and_labels() {
        let of_signer =
            |selector: Value| json!({ "signerName": "s", "labelSelector": selector, "path": "" });
        let expression = |key: &str, operator: &str, values: &[&str]| {
            of_signer(
                json!({ "matchExpressions": [{ "key": key, "operator": operator, "values": values }] }),
            )
        };
        let missing = "while getting ClusterTrustBundle: clustertrustbundle.certificates.k8s.io \"x\" not found";
        let none = "combination of signerName and labelSelector matched zero ClusterTrustBundles";
        let neither = "ClusterTrustBundle projection requires either name or signerName to be set";
        let rows: &[(Value, Result<&[u8], &str>)] = &[
            (json!({ "name": "plain", "path": "" }), Ok(&[1, 3])),
            (json!({ "name": "x", "path": "" }), Err(missing)),
            (json!({ "name": "x", "optional": true, "path": "" }), Ok(&[])),
            (of_signer(json!({})), Ok(&[5, 6, 7])),
            (json!({ "signerName": "s", "path": "" }), Err(none)),
            (json!({ "signerName": "s", "optional": true, "path": "" }), Ok(&[])),
            (of_signer(json!({ "matchLabels": { "age": "old" } })), Ok(&[5, 6])),
            (of_signer(json!({ "matchLabels": { "age": "older" } })), Err(none)),
            (expression("age", "In", &["new", "x"]), Ok(&[6, 7])),
            (expression("age", "NotIn", &["new"]), Ok(&[5, 6])),
            (expression("live", "NotIn", &["new"]), Ok(&[5, 6, 7])),
            (expression("live", "Exists", &[]), Ok(&[6, 7])),
            (expression("live", "DoesNotExist", &[]), Ok(&[5, 6])),
            (json!({ "path": "" }), Err(neither)),
        ];
        for (source, expected) in rows {
            let expected = expected.map(<[u8]>::to_vec).map_err(str::to_owned);
            assert_eq!(chosen(source.clone()), expected, "{source}");
        }
    }

    #[test]
    fn certificates_are_written_in_lines_of_64_letters() {
        let text = encoded(&[7; 60]);
        let lengths: Vec<usize> = text.lines().map(str::len).collect();
        assert_eq!(lengths, [BEGIN.len(), 64, 16, END.len()]);
        assert_eq!(decoded(&format!("note\n{text}note\n{BEGIN}\n!\n{END}\n")), [vec![7; 60]]);
    }
}
