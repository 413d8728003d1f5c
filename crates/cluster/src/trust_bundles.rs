//! Cluster trust bundles of the API server.

use std::borrow::Cow;

use async_trait::async_trait;
use model::objects::TrustBundleRecord;
use model::ports::cluster::Sink;
use model::ports::objects::TrustBundleFeed;
use serde::Deserialize;

use crate::Cluster;
use crate::decode::{Identity, Metadata};
use crate::follow::{Follower, Kind, has_slim_metadata};

/// A cluster trust bundle.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct TrustBundle<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
    #[serde(borrow)]
    spec: Spec<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Spec<'a> {
    #[serde(borrow)]
    signer_name: Cow<'a, str>,
    /// It has line breaks, so it cannot be borrowed.
    trust_bundle: String,
}

has_slim_metadata!(TrustBundle);

struct AllBundles;

impl Kind for AllBundles {
    type Object<'a> = TrustBundle<'a>;
    type Record = TrustBundleRecord;
    type Key = String;
    const NAME: &'static str = "cluster trust bundles";

    fn path(&self) -> Cow<'_, str> {
        "/apis/certificates.k8s.io/v1beta1/clustertrustbundles".into()
    }

    fn key(bundle: &Identity<'_>) -> String {
        bundle.name.clone().into_owned()
    }

    fn record(&self, bundle: TrustBundle<'_>) -> TrustBundleRecord {
        let labels = bundle.metadata.labels.into_iter();
        TrustBundleRecord {
            name: bundle.metadata.name.into_owned(),
            signer: bundle.spec.signer_name.into_owned(),
            labels: labels.map(|(key, value)| (key.into_owned(), value.into_owned())).collect(),
            certificates: bundle.spec.trust_bundle,
        }
    }
}

#[async_trait]
impl TrustBundleFeed for Cluster {
    async fn follow_trust_bundles(&self, sink: &dyn Sink<TrustBundleRecord, String>) {
        Follower::new(&self.caller, AllBundles, sink).run().await;
    }
}
