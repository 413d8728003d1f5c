//! Starts the sources of pods.

use std::sync::Arc;

use node::NodeHandle;
use pods::source::api::ApiCopies;
use pods::source::file::{FileSourceSettings, file_source};
use pods::source::http::{HttpSourceSettings, http_source};
use pods::source::{SourceName, Sources};
use process::tasks::Tasks;

use super::admission_chain;
use super::inputs::{ManifestUrl, Ports, Settings};
use crate::cluster_mode::start_api_source;
use crate::manifest_support::ManifestSupport;

/// Starts the sources of pods; also returns the API server's copies, in a cluster.
pub(super) fn sources(
    settings: &Settings,
    ports: &Ports,
    node: Option<&NodeHandle>,
    tasks: &mut Tasks,
) -> (Sources, Option<ApiCopies>) {
    let mut sources = Vec::new();
    let support = Arc::new(ManifestSupport(admission_chain(settings)));
    if let Some(path) = settings.manifests.clone() {
        let source_settings = FileSourceSettings {
            path,
            period: settings.manifests_period,
            node_name: settings.node_name.clone(),
            last_good: settings.state().join("manifests"),
            clock: Arc::clone(&ports.clock),
            support: Arc::clone(&support) as _,
        };
        let (source, updates) = file_source(source_settings, Arc::clone(&ports.files));
        tasks.spawn("manifests", |stop| source.run(stop));
        sources.push((SourceName::File, updates));
    }
    if let Some(ManifestUrl { url, headers, period }) = settings.manifest_url.clone() {
        let source_settings = HttpSourceSettings {
            url,
            headers,
            period,
            node_name: settings.node_name.clone(),
            last_good: settings.state().join("manifest-url"),
            clock: Arc::clone(&ports.clock),
            support: Arc::clone(&support) as _,
        };
        let (source, updates) =
            http_source(source_settings, Arc::clone(&ports.http), Arc::clone(&ports.files));
        tasks.spawn("manifest URL", |stop| source.run(stop));
        sources.push((SourceName::Http, updates));
    }
    let copies = start_api_source(settings, ports, node, tasks).map(|(pods, copies)| {
        sources.push((SourceName::Api, pods));
        copies
    });
    (Sources::new(sources), copies)
}
