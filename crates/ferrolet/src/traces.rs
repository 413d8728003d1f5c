//! Traces of the agent for an OpenTelemetry collector, by the configuration's field `tracing`: the
//! spans of upstream that there are here, under its names. Without the field nothing of this exists.
//!
//! A span that has ended waits in a bounded queue for one task that sends; while the collector does
//! not answer, spans are lost and nothing waits for them.

use std::time::Duration;

use anyhow::{Context as _, Result};
use config::KubeletConfiguration;
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

/// Who says so in a trace, as upstream's traces have it.
const SERVICE: &str = "kubelet";

/// The spans that are sent, each with upstream's name of the package that it is from.
const CONTAINERS: Sent =
    Sent { span: "Containers/GarbageCollect", scope: "k8s.io/kubernetes/pkg/kubelet/kuberuntime" };
const IMAGES: Sent =
    Sent { span: "Images/GarbageCollect", scope: "k8s.io/kubernetes/pkg/kubelet/images" };

#[derive(Debug, Clone, Copy)]
struct Sent {
    span: &'static str,
    scope: &'static str,
}

/// How many spans wait while the collector does not answer, and how many go together.
const WAITING: usize = 512;

/// How long the collector may take over what it is sent, with all tries.
const DEADLINE: Duration = Duration::from_secs(10);

/// The port of an endpoint that names none, by gRPC's rule.
const PORT: u16 = 443;

/// Where spans come from and where they wait until they are sent.
#[derive(Debug)]
pub(crate) struct Traces {
    provider: SdkTracerProvider,
    resource: Resource,
    endpoint: Option<String>,
    waiting: mpsc::Receiver<SpanData>,
}

impl Traces {
    /// Those that the configuration asks for, if it does. Nothing is started yet.
    pub(crate) fn wanted(config: &KubeletConfiguration, node_name: &str) -> Option<Self> {
        let config = config.tracing.as_ref()?;
        let attributes = [("service.name", SERVICE), ("host.name", node_name)];
        let attributes = attributes.map(|(name, value)| KeyValue::new(name, value.to_owned()));
        let resource = Resource::builder_empty().with_attributes(attributes).build();
        let (queue, waiting) = mpsc::channel(WAITING);
        let provider = SdkTracerProvider::builder()
            .with_sampler(sampler(config.sampling_rate_per_million))
            .with_resource(resource.clone())
            .with_span_processor(Queue(queue))
            .build();
        Some(Self { provider, resource, endpoint: config.endpoint.clone(), waiting })
    }

    /// What has to see the agent's spans.
    pub(crate) fn layer<S>(&self) -> impl Layer<S> + use<S>
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        self.spans(CONTAINERS).and_then(self.spans(IMAGES))
    }

    /// A scope has a layer of its own. It tells what upstream tells, which is when a span was.
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
        // Without an endpoint the usual environment variables count, and then `localhost:4317`.
        if let Some(endpoint) = self.endpoint.as_deref().filter(|endpoint| !endpoint.is_empty()) {
            exporter = exporter.with_endpoint(address(endpoint));
        }
        let mut exporter = exporter.with_timeout(DEADLINE).build()?;
        exporter.set_resource(&self.resource);
        Ok(exporter)
    }
}

/// Sends spans for ever, if there are any. Must be called inside a tokio runtime; dials when there is
/// a span.
pub(crate) fn send(traces: Option<Traces>) -> Result<impl Future<Output = ()>> {
    let exporter = traces.as_ref().map(Traces::exporter).transpose().context("tracing.endpoint")?;
    Ok(async move {
        if let (Some(exporter), Some(traces)) = (exporter, traces) {
            forward(exporter, traces.waiting).await;
        }
        std::future::pending::<()>().await;
    })
}

/// Of what begins here that many in a million; what was begun elsewhere is as it was decided there.
fn sampler(per_million: Option<i32>) -> Sampler {
    let root = match per_million {
        Some(rate @ 1..) => Sampler::TraceIdRatioBased(f64::from(rate) / 1_000_000.0),
        _ => Sampler::AlwaysOff,
    };
    Sampler::ParentBased(Box::new(root))
}

/// The address of an endpoint, which is written by gRPC's rules for names. A name server in it is
/// not asked: the machine's own is.
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

/// Takes spans that have ended to where they wait; those for which there is no room are lost.
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

/// Sends what waits. What the collector does not take is lost, and that is said once.
async fn forward(exporter: impl SpanExporter, mut waiting: mpsc::Receiver<SpanData>) {
    let mut lost = 0;
    loop {
        let mut spans = Vec::new();
        let count = waiting.recv_many(&mut spans, WAITING).await;
        if count == 0 {
            return;
        }
        // The exporter's own limit does not end a call that is under way.
        let failure = match tokio::time::timeout(DEADLINE, exporter.export(spans)).await {
            Ok(Ok(())) => {
                if lost > 0 {
                    info!(lost, "traces are sent again");
                }
                lost = 0;
                continue;
            }
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer in {DEADLINE:?}"),
        };
        if lost == 0 {
            warn!(error = failure, "cannot send traces; they are lost until it works again");
        }
        lost += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_read_by_grpcs_rules() {
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
    fn nothing_that_begins_here_is_sampled_unless_a_rate_says_so() {
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
    async fn spans_without_room_are_lost_and_nobody_waits() {
        let mut config = KubeletConfiguration::of_empty_file();
        assert!(Traces::wanted(&config, "node").is_none());
        config.tracing =
            Some(config::Tracing { endpoint: None, sampling_rate_per_million: Some(1_000_000) });
        let mut traces = Traces::wanted(&config, "node").unwrap();
        let images = traces.provider.tracer(IMAGES.scope);
        for _ in 0..2 * WAITING {
            drop(opentelemetry::trace::Tracer::start(&images, IMAGES.span));
        }
        let mut spans = Vec::new();
        assert_eq!(traces.waiting.recv_many(&mut spans, 2 * WAITING).await, WAITING);
        assert!(traces.waiting.is_empty());
    }
}
