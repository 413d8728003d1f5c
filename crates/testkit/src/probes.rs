//! Network probes in memory.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use model::ports::probes::{NetworkProbe, ProbeClient};
use model::probe::{ProbeOutput, ProbeVerdict};
use tokio::time::{sleep, timeout};

/// The result of the probes of one target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbeScript {
    /// The verdict with its output, or an error.
    pub result: Result<ProbeOutput, String>,
    /// The time until the result.
    pub delay: Duration,
}

impl ProbeScript {
    /// A result without delay.
    pub fn verdict(verdict: ProbeVerdict, output: impl Into<String>) -> Self {
        let result = Ok(ProbeOutput { verdict, output: output.into() });
        Self { result, delay: Duration::ZERO }
    }

    /// An error without delay.
    pub fn error(cause: impl Into<String>) -> Self {
        Self { result: Err(cause.into()), delay: Duration::ZERO }
    }

    /// Adds a delay.
    #[must_use]
    pub fn after(self, delay: Duration) -> Self {
        Self { delay, ..self }
    }
}

/// Results by target: the URL of an HTTP probe, `host:port` of others. Connections to all other targets are refused.
#[derive(Debug, Default)]
pub struct MemoryProbes {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    scripts: BTreeMap<String, ProbeScript>,
    calls: BTreeMap<String, usize>,
}

impl MemoryProbes {
    /// Sets the result of a target.
    pub fn set(&self, target: impl Into<String>, script: ProbeScript) {
        self.state().scripts.insert(target.into(), script);
    }

    /// The number of probes of a target so far.
    pub fn calls(&self, target: &str) -> usize {
        self.state().calls.get(target).copied().unwrap_or_default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn target(probe: &NetworkProbe) -> String {
    match probe {
        NetworkProbe::Http(http) => http.url.clone(),
        NetworkProbe::Tcp(tcp) => format!("{}:{}", tcp.host, tcp.port),
        NetworkProbe::Grpc(grpc) => format!("{}:{}", grpc.host, grpc.port),
    }
}

#[async_trait]
impl ProbeClient for MemoryProbes {
    async fn probe(&self, probe: &NetworkProbe, limit: Duration) -> Result<ProbeOutput, String> {
        let target = target(probe);
        let script = {
            let mut state = self.state();
            *state.calls.entry(target.clone()).or_default() += 1;
            state.scripts.get(&target).cloned()
        };
        let failure = |output| Ok(ProbeOutput { verdict: ProbeVerdict::Failure, output });
        let Some(script) = script else {
            return failure(format!("dial tcp {target}: connect: connection refused"));
        };
        match timeout(limit, sleep(script.delay)).await {
            Ok(()) => script.result,
            Err(_) => failure("context deadline exceeded".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use model::ports::probes::TcpProbe;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn scripted_results_are_returned_and_counted() {
        let probes = MemoryProbes::default();
        let probe = NetworkProbe::Tcp(TcpProbe { host: "10.0.0.1".to_owned(), port: 80 });
        let (target, limit) = ("10.0.0.1:80", Duration::from_secs(1));
        let output = probes.probe(&probe, limit).await.unwrap();
        assert_eq!(output.output, "dial tcp 10.0.0.1:80: connect: connection refused");
        let script = ProbeScript::verdict(ProbeVerdict::Success, "");
        probes.set(target, script.clone());
        assert_eq!(probes.probe(&probe, limit).await, script.result);
        probes.set(target, script.after(Duration::from_secs(2)));
        let output = probes.probe(&probe, limit).await.unwrap();
        assert_eq!(output.verdict, ProbeVerdict::Failure);
        probes.set(target, ProbeScript::error("no network"));
        assert_eq!(probes.probe(&probe, limit).await, Err("no network".to_owned()));
        assert_eq!(probes.calls(target), 4);
    }
}
