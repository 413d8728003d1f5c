//! Spans of garbage collection, as a collector receives them.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::net::UnixListener as DeafListener;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::node::program;
use opentelemetry_proto::tonic::collector::trace::v1::trace_service_server::{
    TraceService, TraceServiceServer,
};
use opentelemetry_proto::tonic::collector::trace::v1::{
    ExportTraceServiceRequest, ExportTraceServiceResponse,
};
use opentelemetry_proto::tonic::common::v1::KeyValue;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use tempfile::TempDir;
use testbed::wait;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::mpsc;
use tokio_stream::wrappers::{TcpListenerStream, UnixListenerStream};
use tonic::transport::Server;
use tonic::{Request, Response, Status};

use crate::programs::{Hollow, LONG, Program};

const CONTAINERS: (&str, &str) =
    ("k8s.io/kubernetes/pkg/kubelet/kuberuntime", "Containers/GarbageCollect");
const IMAGES: (&str, &str) = ("k8s.io/kubernetes/pkg/kubelet/images", "Images/GarbageCollect");

/// The timeout of the agent's end: shorter than its wait for a collector would be.
const END: Duration = Duration::from_secs(9);

/// More than a test sends.
const MOST: usize = 1000;

/// The requests that a collector received.
type Sent = mpsc::Receiver<ExportTraceServiceRequest>;

/// A collector that forwards its requests to the test.
#[derive(Debug)]
struct Collector(mpsc::Sender<ExportTraceServiceRequest>);

#[tonic::async_trait]
impl TraceService for Collector {
    async fn export(
        &self,
        request: Request<ExportTraceServiceRequest>,
    ) -> Result<Response<ExportTraceServiceResponse>, Status> {
        self.0
            .try_send(request.into_inner())
            .map_err(|error| Status::internal(error.to_string()))?;
        Ok(Response::new(ExportTraceServiceResponse::default()))
    }
}

/// A collector on a port of this machine.
async fn on_a_port() -> Result<(String, Sent)> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.context("listen")?;
    let address = listener.local_addr().context("listen")?.to_string();
    let (passed_on, sent) = mpsc::channel(MOST);
    let service = TraceServiceServer::new(Collector(passed_on));
    tokio::spawn(Server::builder().serve_with_incoming(service, TcpListenerStream::new(listener)));
    Ok((address, sent))
}

/// A collector on a socket.
fn on_a_socket(path: &str) -> Result<Sent> {
    let listener = UnixListener::bind(path).context("listen")?;
    let (passed_on, sent) = mpsc::channel(MOST);
    let service = TraceServiceServer::new(Collector(passed_on));
    tokio::spawn(Server::builder().serve_with_incoming(service, UnixListenerStream::new(listener)));
    Ok(sent)
}

/// A node whose agent is configured by the test.
struct Node {
    place: TempDir,
    hollow: Hollow,
}

impl Node {
    fn start() -> Result<Self> {
        let place = tempfile::tempdir().context("make a directory")?;
        fs::create_dir(place.path().join("manifests")).context("make a directory for manifests")?;
        let hollow = Hollow::start(place.path(), &["--image", "ferrolet.test/workload:1"])?;
        Ok(Self { place, hollow })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    /// An agent that has started its first passes, for any usage of the disk.
    fn agent(&self, more: &str, environment: &str) -> Result<Program> {
        let config = format!(
            "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\n\
             staticPodPath: {}\ncontainerRuntimeEndpoint: unix://{}\npodLogsDir: {}\n\
             imageGCHighThresholdPercent: 100\nimageMaximumGCAge: 1h\n\
             enableServer: false\nfailCgroupV1: false\nfailSwapOn: false\nhealthzPort: 0\n\
             cgroupsPerQOS: false\nenforceNodeAllocatable: []\nevictionHard: {{}}\nmakeIPTablesUtilChains: false\n{more}\n",
            self.path("manifests").display(),
            self.hollow.socket(),
            self.path("pods").display(),
        );
        fs::write(self.path("config.yaml"), config).context("write the configuration")?;
        let log = fs::File::create(self.path("log")).context("make a log")?;
        self.hollow.command("reset")?;
        let agent = Program::start_agent(self.place.path(), |command| {
            command.args(["run", "--hostname-override", "Node", "-v=0", "--config"]);
            command.arg(self.path("config.yaml")).arg("--root-dir").arg(self.path("root"));
            command.env("OTEL_EXPORTER_OTLP_ENDPOINT", environment);
            command.stdout(Stdio::null()).stderr(log)
        })?;
        wait::until("passes run", LONG, || {
            let calls = self.hollow.command("")?;
            let looked = ["ListImages", "ImageFsInfo", "ListPodSandbox"]
                .iter()
                .all(|method| calls[method]["calls"].as_u64().unwrap_or(0) > 0);
            Ok(if looked { Ok(()) } else { Err(calls.to_string()) })
        })?;
        Ok(agent)
    }

    /// Requests a pass over containers and then over images.
    fn pass(&self) -> Result<()> {
        let mut command = Command::new(program("ferrolet")?);
        command.args(["gc", "run", "--root-dir"]).arg(self.path("root"));
        let output = command.output().context("request a pass")?;
        ensure!(output.status.success(), "{output:?}");
        Ok(())
    }

    /// How often the agent logged these words.
    fn log_count(&self, words: &str) -> Result<usize> {
        let log = fs::read_to_string(self.path("log")).context("read the log")?;
        Ok(log.lines().filter(|line| line.contains(words)).count())
    }
}

fn ends_at_once(agent: Program) -> Result<()> {
    let begun = Instant::now();
    ensure!(agent.stop()?.success());
    ensure!(begun.elapsed() < END, "it took {:?} to end", begun.elapsed());
    Ok(())
}

fn texts(attributes: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |attribute: &KeyValue| match &attribute.value.as_ref()?.value {
        Some(Value::StringValue(text)) => Some((attribute.key.clone(), text.clone())),
        _ => None,
    };
    attributes.iter().filter_map(text).collect()
}

/// The scopes and names of spans in a message, which must equal upstream's.
fn spans(message: ExportTraceServiceRequest) -> Result<Vec<(String, String)>> {
    let mut spans = Vec::new();
    for resource in message.resource_spans {
        let attributes = texts(&resource.resource.context("spans are of a resource")?.attributes);
        let expected = [("host.name", "node"), ("service.name", "kubelet")];
        ensure!(attributes == expected.map(|(k, v)| (k.to_owned(), v.to_owned())).into());
        for scope in resource.scope_spans {
            let name = scope.scope.context("spans have a scope")?.name;
            for span in scope.spans {
                ensure!(span.parent_span_id.is_empty() && span.trace_id.len() == 16, "{span:?}");
                ensure!(span.attributes.is_empty() && span.events.is_empty(), "{span:?}");
                ensure!(span.start_time_unix_nano < span.end_time_unix_nano, "{span:?}");
                spans.push((name.clone(), span.name));
            }
        }
    }
    Ok(spans)
}

/// Waits until all expected spans have arrived; others are an error.
async fn expect(sent: &mut Sent, expected: &[(&str, &str)]) -> Result<()> {
    let mut missing = expected.to_vec();
    while !missing.is_empty() {
        let message = tokio::time::timeout(LONG, sent.recv()).await;
        let message = message.with_context(|| format!("still missing: {missing:?}"))?;
        for (scope, name) in spans(message.context("the collector runs")?)? {
            let span = (scope.as_str(), name.as_str());
            ensure!([CONTAINERS, IMAGES].contains(&span), "{span:?} is not to be sent");
            missing.retain(|expected| *expected != span);
        }
    }
    Ok(())
}

// behaviour: GC-85, IMG-59
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn gc_passes_have_the_spans_of_upstream() -> Result<()> {
    let (address, mut sent) = on_a_port().await?;
    let node = Node::start()?;
    let tracing = format!("tracing: {{endpoint: '{address}', samplingRatePerMillion: 1000000}}");
    let agent = node.agent(&tracing, "")?;
    expect(&mut sent, &[CONTAINERS, IMAGES]).await?;
    node.pass()?;
    expect(&mut sent, &[CONTAINERS]).await?;
    ensure!(
        node.log_count("Settings have no effect")? == 0
            && node.log_count("Cannot send traces")? == 0
    );
    ends_at_once(agent)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn spans_are_sent_only_when_sampled() -> Result<()> {
    let (address, mut sent) = on_a_port().await?;
    let environment = format!("http://{address}");
    let node = Node::start()?;
    // Tracing is off, or its sampling rate is 0.
    for tracing in ["", "tracing: {}", "tracing: {samplingRatePerMillion: 0}"] {
        let agent = node.agent(tracing, &environment)?;
        node.pass()?;
        ends_at_once(agent)?;
    }
    // Spans of these agents would have arrived before those of the next one.
    ensure!(sent.is_empty(), "{:?}", sent.recv().await);
    let agent = node.agent("tracing: {samplingRatePerMillion: 1000000}", &environment)?;
    expect(&mut sent, &[CONTAINERS, IMAGES]).await?;
    ends_at_once(agent)
}

// behaviour: GC-86
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn missing_trace_collector_logs_one_warning() -> Result<()> {
    let node = Node::start()?;
    let socket = node.path("collector.sock").display().to_string();
    let tracing =
        format!("tracing: {{endpoint: 'unix://{socket}', samplingRatePerMillion: 1000000}}");
    let agent = node.agent(&tracing, "")?;
    let warned =
        || Ok(if node.log_count("Cannot send traces")? > 0 { Ok(()) } else { Err("no word") });
    wait::until("the message is logged", LONG, || {
        warned().map(|said| said.map_err(str::to_owned))
    })?;
    for _ in 0..3 {
        node.pass()?;
    }
    // A collector that starts later gets new spans.
    let mut sent = on_a_socket(&socket)?;
    wait::until("Traces are sent again", LONG, || {
        node.pass()?;
        let again = node.log_count("Traces are sent again")?;
        Ok(if again > 0 { Ok(()) } else { Err("nothing is logged".to_owned()) })
    })?;
    expect(&mut sent, &[CONTAINERS]).await?;
    ensure!(node.log_count("Cannot send traces")? == 1);
    ends_at_once(agent)
}

// behaviour: GC-86
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn unresponsive_trace_collector_delays_nothing() -> Result<()> {
    let node = Node::start()?;
    let socket = node.path("collector.sock");
    let listener = DeafListener::bind(&socket).context("listen")?;
    let tracing = format!(
        "tracing: {{endpoint: 'unix://{}', samplingRatePerMillion: 1000000}}",
        socket.display()
    );
    let agent = node.agent(&tracing, "")?;
    // The collector accepts the connection and never answers.
    let deaf = tokio::task::spawn_blocking(move || listener.accept());
    let deaf = tokio::time::timeout(LONG, deaf)
        .await
        .context("the agent does not connect")??
        .context("accept")?;
    for _ in 0..3 {
        let begun = Instant::now();
        node.pass()?;
        ensure!(begun.elapsed() < END, "a pass took {:?}", begun.elapsed());
    }
    ends_at_once(agent)?;
    drop(deaf);
    Ok(())
}
