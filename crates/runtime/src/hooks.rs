//! Running lifecycle hooks.

use std::net::IpAddr;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, LifecycleHandler, Pod};
use model::ids::{ContainerId, SandboxId};
use model::ports::events::EventType::Warning;
use model::ports::http::{Get, HttpError};
use model::ports::runtime::RuntimeError;

use crate::act::PodRuntime;
use crate::decide::{Hook, HookError, HttpHook, hook, needs_address};

/// How much of an answer is read; what it says does not matter.
const MOST_OF_ANSWER: u64 = 10 << 10;
/// How long a request may take when nothing else limits it. Upstream waits for ever.
const LONGEST_REQUEST: Duration = Duration::from_hours(1);
/// How much of what a failed command said is told.
const MOST_OF_OUTPUT: usize = 1024;

/// A container whose hook runs.
pub(crate) struct Hooked<'a> {
    pub(crate) pod: &'a Pod,
    pub(crate) container: &'a Container,
    pub(crate) id: &'a ContainerId,
    /// The pod's addresses, if they were observed.
    pub(crate) ips: &'a [IpAddr],
    /// Where the addresses can be asked for otherwise.
    pub(crate) sandbox: Option<&'a SandboxId>,
}

/// Why a hook failed.
#[derive(Debug, thiserror::Error)]
pub enum HookFailure {
    /// It makes no sense.
    #[error("read the hook")]
    Hook(#[source] HookError),
    /// The pod's address is not known.
    #[error("ask for the pod's address")]
    Address(#[source] RuntimeError),
    /// Its command did not run.
    #[error("run the command")]
    Exec(#[source] RuntimeError),
    /// Its command failed.
    #[error("the command exited with {code}: {output:?}")]
    ExitCode {
        /// Its exit code.
        code: i32,
        /// What it said.
        output: String,
    },
    /// Its request got no answer.
    #[error("make the request")]
    Http(#[source] HttpError),
}

impl PodRuntime {
    /// Runs a hook to its end; `limit` is how long anybody waits for it.
    pub(crate) async fn run_hook(
        &self,
        hooked: &Hooked<'_>,
        handler: &LifecycleHandler,
        limit: Option<Duration>,
    ) -> Result<(), HookFailure> {
        let address = if needs_address(handler) { self.address(hooked).await? } else { None };
        match hook(handler, hooked.container, address).map_err(HookFailure::Hook)? {
            Hook::Exec(command) => self.exec(hooked, &command).await,
            Hook::Http(http) => self.request(hooked, &http, limit).await,
            Hook::Sleep(time) => {
                tokio::time::sleep(time).await;
                Ok(())
            }
        }
    }

    async fn address(&self, hooked: &Hooked<'_>) -> Result<Option<IpAddr>, HookFailure> {
        if let (None, Some(sandbox)) = (hooked.ips.first(), hooked.sandbox) {
            let status = self.parts.runtime.pod_sandbox_status(sandbox).await;
            return Ok(status.map_err(HookFailure::Address)?.ips.first().copied());
        }
        Ok(hooked.ips.first().copied())
    }

    async fn exec(&self, hooked: &Hooked<'_>, command: &[String]) -> Result<(), HookFailure> {
        let output = self.parts.runtime.exec_sync(hooked.id, command, None).await;
        let output = output.map_err(HookFailure::Exec)?;
        if output.exit_code == 0 {
            return Ok(());
        }
        let mut said = [output.stdout, output.stderr].concat();
        said.truncate(MOST_OF_OUTPUT);
        let output_text = String::from_utf8_lossy(&said).into_owned();
        Err(HookFailure::ExitCode { code: output.exit_code, output: output_text })
    }

    /// An answer of any status is one, as upstream has it. A server that does not speak TLS is asked
    /// again without, and people are told.
    async fn request(
        &self,
        hooked: &Hooked<'_>,
        http: &HttpHook,
        limit: Option<Duration>,
    ) -> Result<(), HookFailure> {
        let get = |secure: bool| Get {
            url: http.url(secure),
            headers: if secure == http.secure {
                http.headers.clone()
            } else {
                http.plain_headers()
            },
            limit: MOST_OF_ANSWER,
            timeout: limit.unwrap_or(LONGEST_REQUEST),
        };
        let mut answer = self.parts.http.get(&get(http.secure)).await;
        if matches!(answer, Err(HttpError::NotSecure)) {
            answer = self.parts.http.get(&get(false)).await;
            if answer.is_ok() {
                let message = format!(
                    "request to HTTPS lifecycle hook {} got HTTP response, retry with HTTP succeeded",
                    http.authority
                );
                self.pod_reporter(hooked.pod).event(Warning, "LifecycleHTTPFallback", message);
            }
        }
        match answer {
            Ok(_) | Err(HttpError::TooLarge(_)) => Ok(()),
            Err(error) => Err(HookFailure::Http(error)),
        }
    }
}
