//! Services of the API server.

use std::borrow::Cow;

use async_trait::async_trait;
use model::objects::{ServiceName, ServicePort, ServiceRecord};
use model::ports::cluster::Sink;
use model::ports::objects::ServiceFeed;
use serde::Deserialize;

use crate::Cluster;
use crate::decode::{Identity, Metadata};
use crate::follow::{Follower, Kind, has_slim_metadata};

/// A service.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Service<'a> {
    #[serde(borrow)]
    metadata: Metadata<'a>,
    #[serde(borrow)]
    spec: Spec<'a>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Spec<'a> {
    #[serde(borrow, rename = "clusterIP")]
    cluster_ip: Cow<'a, str>,
    #[serde(borrow)]
    ports: Vec<Port<'a>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Port<'a> {
    #[serde(borrow)]
    name: Cow<'a, str>,
    #[serde(borrow)]
    protocol: Cow<'a, str>,
    #[serde(rename = "port")]
    number: i32,
}

has_slim_metadata!(Service);

struct AllServices;

impl Kind for AllServices {
    type Object<'a> = Service<'a>;
    type Record = ServiceRecord;
    type Key = ServiceName;
    const NAME: &'static str = "services";

    fn path(&self) -> Cow<'_, str> {
        "/api/v1/services".into()
    }

    fn key(service: &Identity<'_>) -> ServiceName {
        ServiceName { namespace: (&*service.namespace).into(), name: (&*service.name).into() }
    }

    fn record(&self, service: Service<'_>) -> ServiceRecord {
        let name = Self::key(&service.metadata.identity());
        let port = |port: Port<'_>| ServicePort {
            name: port.name.into(),
            protocol: if port.protocol.is_empty() { "TCP".into() } else { port.protocol.into() },
            port: port.number,
        };
        ServiceRecord {
            name,
            cluster_ip: service.spec.cluster_ip.into(),
            ports: service.spec.ports.into_iter().map(port).collect(),
        }
    }
}

#[async_trait]
impl ServiceFeed for Cluster {
    async fn follow_services(&self, sink: &dyn Sink<ServiceRecord, ServiceName>) {
        Follower::new(&self.caller, AllServices, sink).run().await;
    }
}
