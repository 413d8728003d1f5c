//! The client with servers on loopback.
#![allow(clippy::unwrap_used, reason = "a test, helpers included")]

mod probing_grpc;
mod probing_http;
mod probing_sockets;
mod requests;
mod server;

use std::sync::Arc;

use fetch::Fetcher;
use model::ports::http::HttpGet;
use testkit::contract::{self, assert_kept};
use testkit::http::Page;

use server::{Identity, Server};

/// A server and a client.
#[derive(Debug)]
struct Harness {
    server: Server,
    fetcher: Arc<Fetcher>,
}

impl contract::http::Harness for Harness {
    fn http(&self) -> Arc<dyn HttpGet> {
        Arc::clone(&self.fetcher) as _
    }

    fn url(&self, page: &str) -> String {
        self.server.url(page)
    }

    fn nowhere(&self) -> String {
        // Reserved, without a listener.
        "http://127.0.0.1:1/".to_owned()
    }

    fn put(&self, page: &str, content: Page) {
        self.server.put(page, server::response(content));
    }

    fn request_headers(&self, page: &str, header: &str) -> Vec<Vec<String>> {
        self.server.requested(page, header)
    }
}

#[tokio::test]
async fn client_passes_the_contract_over_http() {
    let new_harness = async || Harness {
        server: Server::start(None).await,
        fetcher: Arc::new(Fetcher::new("kubelet/test")),
    };
    assert_eq!(assert_kept(&contract::http::run(new_harness).await), []);
}

#[tokio::test]
async fn client_passes_the_contract_over_https() {
    let new_harness = async || {
        let identity = Identity::new("127.0.0.1");
        let authorities = vec![identity.authority.clone()];
        Harness {
            server: Server::start(Some(identity)).await,
            fetcher: Arc::new(Fetcher::trusting("kubelet/test", authorities)),
        }
    };
    assert_eq!(assert_kept(&contract::http::run(new_harness).await), []);
}
