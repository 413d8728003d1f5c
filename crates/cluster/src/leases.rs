//! Leases of the API server.

use std::time::Duration;

use async_trait::async_trait;
use http::Method;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease as ApiLease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use model::cluster::{Lease, LeaseName, LeaseRecord, Uid};
use model::ports::cluster::{ApiError, Leases};

use crate::call::{Call, found};
use crate::{Cluster, urls};

#[async_trait]
impl Leases for Cluster {
    async fn lease(&self, name: &LeaseName) -> Result<Option<Lease>, ApiError> {
        let call = Call::get(path(name)).in_own_lane();
        Ok(found(self.caller.send_decoded(call).await)?.map(read))
    }

    async fn create_lease(
        &self,
        name: &LeaseName,
        record: &LeaseRecord,
    ) -> Result<Lease, ApiError> {
        let path = urls::leases(&name.namespace);
        self.write_lease(Method::POST, path, &written(name, record, None)).await
    }

    async fn update_lease(
        &self,
        name: &LeaseName,
        from: &Lease,
        record: &LeaseRecord,
    ) -> Result<Lease, ApiError> {
        self.write_lease(Method::PUT, path(name), &written(name, record, Some(from))).await
    }
}

impl Cluster {
    async fn write_lease(
        &self,
        method: Method,
        path: String,
        lease: &ApiLease,
    ) -> Result<Lease, ApiError> {
        let call = Call::object(method, path, lease)?.in_own_lane();
        Ok(read(self.caller.send_decoded(call).await?))
    }
}

fn path(name: &LeaseName) -> String {
    format!("{}/{}", urls::leases(&name.namespace), urls::part(&name.name))
}

fn written(name: &LeaseName, record: &LeaseRecord, from: Option<&Lease>) -> ApiLease {
    let seconds = i32::try_from(record.duration.as_secs()).unwrap_or(i32::MAX);
    ApiLease {
        metadata: ObjectMeta {
            name: Some(name.name.clone()),
            namespace: Some(name.namespace.clone()),
            uid: from.map(|lease| lease.uid.to_string()),
            resource_version: from.map(|lease| lease.version.clone()),
            ..ObjectMeta::default()
        },
        spec: Some(LeaseSpec {
            holder_identity: Some(record.holder.clone()),
            lease_duration_seconds: Some(seconds),
            acquire_time: record.acquired.map(micro),
            renew_time: record.renewed.map(micro),
            lease_transitions: Some(record.transitions),
            ..LeaseSpec::default()
        }),
    }
}

/// With the precision of the API, so that a read returns the written value.
fn micro(time: Timestamp) -> MicroTime {
    let micros = time.as_microsecond();
    MicroTime(Timestamp::from_microsecond(micros).unwrap_or(time))
}

fn read(lease: ApiLease) -> Lease {
    let spec = lease.spec.unwrap_or_default();
    let seconds = u64::try_from(spec.lease_duration_seconds.unwrap_or_default()).unwrap_or(0);
    Lease {
        record: LeaseRecord {
            holder: spec.holder_identity.unwrap_or_default(),
            duration: Duration::from_secs(seconds),
            acquired: spec.acquire_time.map(|time| time.0),
            renewed: spec.renew_time.map(|time| time.0),
            transitions: spec.lease_transitions.unwrap_or_default(),
        },
        uid: Uid::from(lease.metadata.uid.unwrap_or_default().as_str()),
        version: lease.metadata.resource_version.unwrap_or_default(),
    }
}
