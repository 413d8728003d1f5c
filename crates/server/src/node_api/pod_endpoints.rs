//! The endpoints that work on the containers of a pod.

use std::fmt::Debug;
use std::net::IpAddr;

use async_trait::async_trait;
use hyper::body::Incoming;
use hyper::{Request, StatusCode};

use crate::decide::PodEndpoint;
use crate::respond::{Answer, error_text};

/// The client of an authorised request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Client {
    /// The user name; empty on the read-only port.
    pub user: String,
    /// The address of the peer.
    pub address: Option<IpAddr>,
}

/// Logs, exec, attach, port-forward, run and checkpoints.
#[async_trait]
pub trait PodEndpoints: Debug + Send + Sync {
    /// Answers a request that was authorised. The connection allows upgrades.
    async fn answer(
        &self,
        endpoint: PodEndpoint,
        request: Request<Incoming>,
        client: &Client,
    ) -> Answer;
}

/// Stands for the endpoints where there are none.
#[derive(Debug)]
pub struct NoPodEndpoints;

#[async_trait]
impl PodEndpoints for NoPodEndpoints {
    async fn answer(&self, _: PodEndpoint, _: Request<Incoming>, _: &Client) -> Answer {
        error_text(StatusCode::NOT_IMPLEMENTED, "not implemented yet")
    }
}
