//! HTTP servers in memory.

use std::sync::Arc;

use model::ports::http::{Headers, HttpGet};
use testkit::contract::{self, assert_kept};
use testkit::http::{MemoryHttp, Page};

#[derive(Debug, Default)]
struct Memory {
    web: Arc<MemoryHttp>,
}

impl contract::http::Harness for Memory {
    fn http(&self) -> Arc<dyn HttpGet> {
        Arc::clone(&self.web) as _
    }

    fn url(&self, page: &str) -> String {
        format!("http://here/{page}")
    }

    fn nowhere(&self) -> String {
        "http://nowhere/".to_owned()
    }

    fn put(&self, page: &str, content: Page) {
        self.web.put(self.url(page), content);
    }

    fn request_headers(&self, page: &str, header: &str) -> Vec<Vec<String>> {
        let values = |Headers(headers): Headers| {
            let named = headers.into_iter().filter(|(name, _)| name == header);
            named.flat_map(|(_, values)| values).collect()
        };
        self.web.request_headers(&self.url(page)).into_iter().map(values).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn memory_http_passes_the_contract() {
    let reports = contract::http::run(async || Memory::default()).await;
    assert_eq!(assert_kept(&reports), []);
}
