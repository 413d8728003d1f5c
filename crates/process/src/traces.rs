//! Traces for an OpenTelemetry collector: spans with upstream's names.
//!
//! Ended spans wait in a bounded queue for one task that sends them. While the collector does not answer, spans are
//! lost and no part of the program waits for them.

use std::time::Duration;

use opentelemetry::trace::TracerProvider as _;
use opentelemetry::{Context, KeyValue};
use opentelemetry_otlp::{ExporterBuildError, WithExportConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::trace::{
    Sampler, SdkTracerProvider, Span, SpanData, SpanExporter, SpanProcessor,
};
use tokio::sync::mpsc;
use tracing::{Subscriber, info, warn};
use tracing_opentelemetry::OpenTelemetryLayer;
use tracing_subscriber::Layer;
use tracing_subscriber::filter::{FilterFn, LevelFilter};
use tracing_subscriber::registry::LookupSpan;

use crate::TraceSettings;

/// The name of the service in traces, as upstream has it.
const SERVICE: &str = "kubelet";

/// The spans that are sent, each with upstream's name of its package.
const CONTAINERS: Sent =
    Sent { span: "Containers/GarbageCollect", scope: "k8s.io/kubernetes/pkg/kubelet/kuberuntime" };
const IMAGES: Sent =
    Sent { span: "Images/GarbageCollect", scope: "k8s.io/kubernetes/pkg/kubelet/images" };

#[derive(Debug, Clone, Copy)]
struct Sent {
    span: &'static str,
    scope: &'static str,
}

/// How many spans wait while the collector does not answer, and how many are sent together.
const WAITING: usize = 512;

/// The time limit of one export, retries included.
const DEADLINE: Duration = Duration::from_secs(10);

/// The port of an endpoint that names none, by gRPC's rule.
const PORT: u16 = 443;

/// The collector cannot be addressed.
#[derive(Debug, thiserror::Error)]
#[error("tracing.endpoint")]
pub struct EndpointError(#[source] ExporterBuildError);

/// The source of spans, and the queue of those that wait to be sent.
#[derive(Debug)]
pub struct Traces {
    provider: SdkTracerProvider,
    resource: Resource,
    endpoint: Option<String>,
    waiting: mpsc::Receiver<SpanData>,
}

impl Traces {
    /// The traces of a node; `None` without settings. Does not start them.
    pub fn new(settings: Option<TraceSettings>, node_name: &str) -> Option<Self> {
        let settings = settings?;
        let attributes = [("service.name", SERVICE), ("host.name", node_name)];
        let attributes = attributes.map(|(name, value)| KeyValue::new(name, value.to_owned()));
        let resource = Resource::builder_empty().with_attributes(attributes).build();
        let (queue, waiting) = mpsc::channel(WAITING);
        let provider = SdkTracerProvider::builder()
            .with_sampler(sampler(settings.sampling_rate_per_million))
            .with_resource(resource.clone())
            .with_span_processor(Queue(queue))
            .build();
        Some(Self { provider, resource, endpoint: settings.endpoint, waiting })
    }

    /// The layer that receives spans.
    pub fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        self.spans(CONTAINERS).and_then(self.spans(IMAGES))
    }

    /// Each scope has its own layer.
    fn spans<S>(&self, sent: Sent) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let is_sent =
            FilterFn::new(move |metadata| metadata.is_span() && metadata.name() == sent.span);
        OpenTelemetryLayer::new(self.provider.tracer(sent.scope))
            .with_context_activation(false)
            .with_level(false)
            .with_location(false)
            .with_target(false)
            .with_threads(false)
            .with_tracked_inactivity(false)
            .with_filter(is_sent.with_max_level_hint(LevelFilter::INFO))
    }

    fn exporter(&self) -> Result<opentelemetry_otlp::SpanExporter, ExporterBuildError> {
        let mut exporter = opentelemetry_otlp::SpanExporter::builder().with_tonic();
        // Without an endpoint the usual environment variables apply, then `localhost:4317`.
        if let Some(endpoint) = self.endpoint.as_deref().filter(|endpoint| !endpoint.is_empty()) {
            exporter = exporter.with_endpoint(address(endpoint));
        }
        let mut exporter = exporter.with_timeout(DEADLINE).build()?;
        exporter.set_resource(&self.resource);
        Ok(exporter)
    }
}

/// Sends spans and never returns. Must be called inside a tokio runtime. Connects for the first span.
pub fn send(traces: Option<Traces>) -> Result<impl Future<Output = ()>, EndpointError> {
    let exporter = traces.as_ref().map(Traces::exporter).transpose().map_err(EndpointError)?;
    Ok(async move {
        if let (Some(exporter), Some(traces)) = (exporter, traces) {
            forward(exporter, traces.waiting).await;
        }
        std::future::pending::<()>().await;
    })
}

/// Samples this many of a million root spans; other spans follow the decision of their parent.
fn sampler(per_million: Option<i32>) -> Sampler {
    let root = match per_million {
        Some(rate @ 1..) => Sampler::TraceIdRatioBased(f64::from(rate) / 1_000_000.0),
        _ => Sampler::AlwaysOff,
    };
    Sampler::ParentBased(Box::new(root))
}

/// The address of an endpoint, in gRPC's notation for names. A name server in it is ignored: the machine's own
/// resolver is used.
fn address(endpoint: &str) -> String {
    if let Some(name) = endpoint.strip_prefix("unix-abstract:") {
        return format!("unix://\0{}", name.strip_prefix("//").unwrap_or(name));
    }
    if endpoint.starts_with("unix:") {
        return endpoint.to_owned();
    }
    let host = match endpoint.strip_prefix("dns://") {
        Some(name) => name.rsplit('/').next().unwrap_or(name),
        None => endpoint.strip_prefix("dns:").unwrap_or(endpoint),
    };
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    if has_port { format!("http://{host}") } else { format!("http://{host}:{PORT}") }
}

/// Puts ended spans into the queue; they are lost when it is full.
#[derive(Debug)]
struct Queue(mpsc::Sender<SpanData>);

impl SpanProcessor for Queue {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        drop(self.0.try_send(span));
    }

    fn force_flush(&self) -> OTelSdkResult {
        Ok(())
    }

    fn shutdown_with_timeout(&self, _: Duration) -> OTelSdkResult {
        Ok(())
    }
}

/// Sends the spans of the queue. A failure is logged once until a call succeeds; its spans are lost.
async fn forward(exporter: impl SpanExporter, mut waiting: mpsc::Receiver<SpanData>) {
    let mut lost = 0;
    loop {
        let mut spans = Vec::new();
        let count = waiting.recv_many(&mut spans, WAITING).await;
        if count == 0 {
            return;
        }
        // The exporter's own limit does not end a call in progress.
        let failure = match tokio::time::timeout(DEADLINE, exporter.export(spans)).await {
            Ok(Ok(())) => {
                if lost > 0 {
                    info!(lost, "Traces are sent again");
                }
                lost = 0;
                continue;
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer in {DEADLINE:?}"),
        };
        if lost == 0 {
            warn!(error = failure, "Cannot send traces, dropping them");
        }
        lost += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoint_is_parsed_by_grpcs_rules() {
        let rows = [
            ("localhost:4317", "http://localhost:4317"),
            ("[::1]:4317", "http://[::1]:4317"),
            ("collector", "http://collector:443"),
            ("dns:///collector:4317", "http://collector:4317"),
            ("dns://192.0.2.1/collector:4317", "http://collector:4317"),
            ("dns:collector:4317", "http://collector:4317"),
            ("unix:///run/otel.sock", "unix:///run/otel.sock"),
            ("unix-abstract:///otel", "unix://\0/otel"),
        ];
        for (endpoint, expected) in rows {
            assert_eq!(address(endpoint), expected, "{endpoint}");
        }
    }

    #[test]
    fn root_spans_are_sampled_at_the_rate_only() {
        let rows = [
            (None, "ParentBased(AlwaysOff)"),
            (Some(0), "ParentBased(AlwaysOff)"),
            (Some(250_000), "ParentBased(TraceIdRatioBased(0.25))"),
            (Some(1_000_000), "ParentBased(TraceIdRatioBased(1.0))"),
        ];
        for (rate, expected) in rows {
            assert_eq!(format!("{:?}", sampler(rate)), expected, "{rate:?}");
        }
    }

    #[tokio::test]
    async fn spans_are_lost_when_the_queue_is_full() {
        assert!(Traces::new(None, "node").is_none());
        let settings = TraceSettings { endpoint: None, sampling_rate_per_million: Some(1_000_000) };
        let mut traces = Traces::new(Some(settings), "node").unwrap();
        let images = traces.provider.tracer(IMAGES.scope);
        for _ in 0..2 * WAITING {
            drop(opentelemetry::trace::Tracer::start(&images, IMAGES.span));
        }
        let mut spans = Vec::new();
        assert_eq!(traces.waiting.recv_many(&mut spans, 2 * WAITING).await, WAITING);
        assert!(traces.waiting.is_empty());
    }
}
