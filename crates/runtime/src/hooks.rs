//! Runs lifecycle hooks.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, LifecycleHandler, Pod};
use model::chain::Chain;
use model::ids::{ContainerId, SandboxId};
use model::ports::events::EventType::Warning;
use model::ports::events::Events;
use model::ports::http::{Get, HttpError, HttpGet};
use model::ports::runtime::{Code, ContainerService, RuntimeError, SandboxService};

use crate::decide::{
    Hook, HookError, HookedContainer, HttpHook, described, exited, hook, needs_address, timed_out,
};
use crate::metrics::Metrics;
use crate::report::Reporter;

/// The maximum number of bytes of a response that are read; its content does not matter.
const MOST_OF_ANSWER: u64 = 10 << 10;
/// The timeout of a request, unless it is cancelled before. Upstream waits forever.
const LONGEST_REQUEST: Duration = Duration::from_hours(1);
/// The maximum number of bytes of the output of a failed command in an error.
const MOST_OF_OUTPUT: usize = 1024;

/// The container of a hook.
pub(crate) struct Hooked<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) container: &'a Container,
    pub(crate) id: &'a ContainerId,
    /// The pod's IPs, if they were observed.
    pub(crate) ips: &'a [IpAddr],
    /// The sandbox, to look up the IPs otherwise.
    pub(crate) sandbox: Option<&'a SandboxId>,
}

/// Why a hook failed.
#[derive(Debug, thiserror::Error)]
pub enum HookFailure {
    /// It is invalid.
    #[error("read the hook")]
    Hook(#[source] HookError),
    /// The pod's IP is unknown.
    #[error("look up the pod's address")]
    Address(#[source] RuntimeError),
    /// Its command did not run.
    #[error("run the command")]
    Exec(#[source] RuntimeError),
    /// Its command failed.
    #[error("the command exited with {code}: {output:?}")]
    ExitCode {
        /// Its exit code.
        code: i32,
        /// Its output.
        output: String,
        /// Its standard error.
        stderr: String,
    },
    /// The container exited, and its command or request got no response for a while after that.
    #[error("the container has ended")]
    Ended,
    /// Its request got no response.
    #[error("send the request")]
    Http {
        /// The URL.
        url: String,
        /// Why.
        #[source]
        source: HttpError,
    },
}

impl HookFailure {
    /// The message for the waiting state of the container.
    pub(crate) fn event_message(&self, handler: &LifecycleHandler, hooked: &Hooked<'_>) -> String {
        let pod = described(hooked.pod);
        let whose = HookedContainer { container: &hooked.container.name, pod: &pod };
        let command = handler.exec.as_ref().and_then(|exec| exec.command.as_deref());
        let command = command.unwrap_or_default();
        let (error, output) = match self {
            Self::Exec(error) if error.code == Code::DeadlineExceeded => (timed_out(command), ""),
            Self::Exec(error) => (error.rpc_text(), ""),
            Self::ExitCode { code, output, stderr } => {
                (exited(command, *code, stderr), output.as_str())
            }
            Self::Address(error) => {
                let what = "unable to get pod status, event handlers may be invalid";
                (format!("{what}: {}", error.rpc_text()), "")
            }
            Self::Http { url, source } => (format!("Get {url:?}: {}", Chain(source)), ""),
            Self::Ended => (self.to_string(), ""),
            Self::Hook(nothing @ HookError::Nothing(_)) => {
                return format!("Cannot run handler: {nothing}");
            }
            Self::Hook(error) => (error.to_string(), ""),
        };
        match &handler.http_get {
            Some(http) if handler.exec.is_none() => {
                whose.http_failed(http.path.as_deref().unwrap_or_default(), &error)
            }
            _ => whose.exec_failed(command, &error, output),
        }
    }
}

/// Whether a response began: only its head matters.
fn is_an_answer(error: &HttpError) -> bool {
    matches!(error, HttpError::TooLarge(_) | HttpError::CutOff { .. })
}

/// Runs the lifecycle hooks of containers.
#[derive(Debug)]
pub(crate) struct HookRunner {
    /// Commands run in containers.
    pub(crate) containers: Arc<dyn ContainerService>,
    /// The runtime reports the addresses of sandboxes.
    pub(crate) sandboxes: Arc<dyn SandboxService>,
    /// Sends HTTP requests.
    pub(crate) http: Arc<dyn HttpGet>,
    pub(crate) events: Arc<dyn Events>,
    pub(crate) metrics: Metrics,
}

impl HookRunner {
    /// Runs a hook to completion.
    pub(crate) async fn run(
        &self,
        hooked: &Hooked<'_>,
        handler: &LifecycleHandler,
    ) -> Result<(), HookFailure> {
        let address = if needs_address(handler) { self.address(hooked).await? } else { None };
        match hook(handler, hooked.container, address).map_err(HookFailure::Hook)? {
            Hook::Exec(command) => self.exec(hooked, &command).await,
            Hook::Http(http) => self.request(hooked, &http).await,
            Hook::Sleep(time) => {
                tokio::time::sleep(time).await;
                Ok(())
            }
        }
    }

    async fn address(&self, hooked: &Hooked<'_>) -> Result<Option<IpAddr>, HookFailure> {
        if let (None, Some(sandbox)) = (hooked.ips.first(), hooked.sandbox) {
            let status = self.sandboxes.pod_sandbox_status(sandbox).await;
            return Ok(status.map_err(HookFailure::Address)?.ips.first().copied());
        }
        Ok(hooked.ips.first().copied())
    }

    async fn exec(&self, hooked: &Hooked<'_>, command: &[String]) -> Result<(), HookFailure> {
        let output = self.containers.exec_sync(hooked.id, command, None).await;
        let output = output.map_err(HookFailure::Exec)?;
        if output.exit_code == 0 {
            return Ok(());
        }
        // Only the reported part is assembled.
        let text = |failure_output: &mut dyn Iterator<Item = &u8>| {
            let failure_output: Vec<u8> = failure_output.take(MOST_OF_OUTPUT).copied().collect();
            String::from_utf8_lossy(&failure_output).into_owned()
        };
        let output_text = text(&mut output.stdout.iter().chain(&output.stderr));
        let stderr = text(&mut output.stderr.iter());
        Err(HookFailure::ExitCode { code: output.exit_code, output: output_text, stderr })
    }

    /// Sends an HTTP request. A response of any status is a success, like upstream. If the server does not
    /// support TLS, the request is sent again without it, and an event is recorded.
    async fn request(&self, hooked: &Hooked<'_>, http: &HttpHook) -> Result<(), HookFailure> {
        let get = |secure: bool| Get {
            url: http.url(secure),
            headers: if secure == http.secure {
                http.headers.clone()
            } else {
                http.plain_headers()
            },
            limit: MOST_OF_ANSWER,
            timeout: LONGEST_REQUEST,
        };
        let mut answer = self.http.get(&get(http.secure)).await;
        if matches!(answer, Err(HttpError::NotSecure)) {
            answer = self.http.get(&get(false)).await;
            if answer.as_ref().err().is_none_or(is_an_answer) {
                self.metrics.attempts.hook_without_tls();
                let message = format!(
                    "request to HTTPS lifecycle hook {} got HTTP response, retry with HTTP succeeded",
                    http.authority
                );
                Reporter::of_pod(&*self.events, hooked.pod).event(
                    Warning,
                    "LifecycleHTTPFallback",
                    message,
                );
            }
        }
        match answer {
            Err(source) if !is_an_answer(&source) => {
                Err(HookFailure::Http { url: http.url(http.secure), source })
            }
            _ => Ok(()),
        }
    }
}
