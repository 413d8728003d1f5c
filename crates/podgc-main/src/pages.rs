//! The pages of the HTTPS port: health, metrics and settings.

use hyper::StatusCode;
use hyper::header::HeaderValue;
use prometheus::{Encoder as _, Registry, TextEncoder};
use server::https::{Page, Pages, page, text_page};

use crate::health::Health;

/// The content of the pages.
#[derive(Debug)]
pub(crate) struct PodGcPages {
    pub(crate) health: Health,
    pub(crate) registry: Registry,
    /// The settings, as JSON.
    pub(crate) configz: String,
}

impl Pages for PodGcPages {
    fn answer(&self, path: &str, query: Option<&str>) -> Page {
        let verbose = query.is_some_and(|query| query.contains("verbose"));
        if let Some((well, text)) = self.health.answer(path, verbose) {
            let status = if well { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR };
            return text_page(status, text);
        }
        match path {
            "/metrics" => metrics(&self.registry),
            "/configz" => {
                let json = HeaderValue::from_static("application/json");
                page(StatusCode::OK, self.configz.clone(), json)
            }
            _ => text_page(StatusCode::NOT_FOUND, "404 page not found\n"),
        }
    }
}

fn metrics(registry: &Registry) -> Page {
    let mut text = Vec::new();
    let encoder = TextEncoder::new();
    if let Err(error) = encoder.encode(&registry.gather(), &mut text) {
        return text_page(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n"));
    }
    page(StatusCode::OK, text, encoder.format_type().parse().expect("plain text"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use config::pod_gc::{Invocation, parse};
    use http_body_util::BodyExt as _;
    use podgc::cache::{Cache, SharedCache};
    use podgc::metrics::Metrics;

    use super::*;
    use crate::configz::configz;

    // behaviour: PGC-100, PGC-101, PGC-106
    #[tokio::test]
    async fn pages_are_health_metrics_and_settings() {
        let registry = Registry::new();
        Metrics::new(&registry).unwrap();
        let Ok(Invocation::Run(args)) = parse([""; 0]) else {
            panic!("no flags run the controller")
        };
        let cache = Arc::new(SharedCache::new(Cache::default()));
        let pages = PodGcPages {
            health: Health { election: None, cache },
            registry,
            configz: configz(&args).to_string(),
        };
        let rows = [
            ("/healthz", None, 200, "text/plain; charset=utf-8", "ok"),
            ("/livez", Some("verbose"), 200, "text/plain; charset=utf-8", "livez check passed"),
            // No pods and nodes are known yet.
            ("/readyz", None, 500, "text/plain; charset=utf-8", "[-]informer-sync failed"),
            (
                "/metrics",
                None,
                200,
                "text/plain; version=0.0.4",
                "ferrolet_pod_gc_cycle_seconds_count 0",
            ),
            ("/configz", None, 200, "application/json", r#""TerminatedPodGCThreshold":12500"#),
            ("/secrets", None, 404, "text/plain; charset=utf-8", "404 page not found"),
        ];
        for (path, query, status, content_type, text) in rows {
            let page = pages.answer(path, query);
            assert_eq!(page.status(), status, "{path}");
            assert_eq!(page.headers()["content-type"], content_type, "{path}");
            let body = page.into_body().collect().await.unwrap().to_bytes();
            let body = String::from_utf8_lossy(&body);
            assert!(body.contains(text), "{path}: {body}");
        }
    }
}
