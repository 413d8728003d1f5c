//! Credential plugins: programs of the kubeconfig (`users[].exec`) that print a token or a client certificate.
//!
//! A plugin runs on its own thread, one at a time, and is killed at its deadline. Calls use the last token
//! while it is valid; only calls without a valid token wait for the plugin.

mod output;
mod program;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use blocking::Flights;
use http::HeaderValue;
use kube::config::{AuthInfo, ExecConfig};
use tokio::time::Instant;
use tracing::warn;

use output::Credential;
pub(crate) use output::Identity;
use program::Program;

/// The timeout of a plugin.
const LIMIT: Duration = Duration::from_secs(30);
/// How long a caller waits; a running plugin may have to be killed first.
const PATIENCE: Duration = Duration::from_secs(40);
/// How long before its expiry a token is replaced.
const EARLY: Duration = Duration::from_mins(1);

/// An error of a plugin. It never contains the output, which is secret.
#[derive(Debug, Clone, thiserror::Error)]
pub(crate) enum PluginError {
    #[error("credential plugin {0}: {1}")]
    Settings(String, &'static str),
    #[error("start credential plugin {0}")]
    Start(String, #[source] Arc<std::io::Error>),
    #[error("credential plugin {0} did not end within {1:?} and was killed")]
    TooSlow(String, Duration),
    #[error("credential plugin {0} failed: {1}")]
    Failed(String, std::process::ExitStatus),
    #[error("output of credential plugin {0}: {1}")]
    Output(String, &'static str),
    #[error("credential plugin {0} has not returned")]
    Stuck(String),
}

/// A plugin and its last token.
#[derive(Debug)]
pub(crate) struct Plugin {
    program: Arc<Program>,
    flights: Flights<Result<(), PluginError>>,
    /// Written by the thread that ran the plugin. Never held across an await.
    last: Arc<Mutex<Option<CachedToken>>>,
}

#[derive(Debug, Clone)]
struct CachedToken {
    /// `None` if the plugin only returns a certificate.
    header: Option<HeaderValue>,
    received: Instant,
    lifetime: Option<Duration>,
    /// The server refused it.
    is_refused: bool,
}

/// What to do with the last token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Use {
    Valid,
    /// It is valid, and must be replaced soon.
    Replace,
    Invalid,
}

impl CachedToken {
    fn at(&self, now: Instant) -> Use {
        if self.is_refused {
            return Use::Invalid;
        }
        let Some(lifetime) = self.lifetime else { return Use::Valid };
        let age = now.saturating_duration_since(self.received);
        if age >= lifetime {
            Use::Invalid
        } else if age >= lifetime.saturating_sub(EARLY).max(lifetime / 2) {
            Use::Replace
        } else {
            Use::Valid
        }
    }
}

impl Plugin {
    /// The plugin, if the kubeconfig has no other credential; and the client certificate, if the plugin
    /// returned one.
    pub(crate) async fn open(
        user: &mut AuthInfo,
    ) -> Result<Option<(Self, Option<Identity>)>, PluginError> {
        let Some(exec) = user.exec.take().filter(|_| !has_other_credential(user)) else {
            return Ok(None);
        };
        Self::start(exec, LIMIT).await.map(Some)
    }

    async fn start(
        exec: ExecConfig,
        limit: Duration,
    ) -> Result<(Self, Option<Identity>), PluginError> {
        let program = Arc::new(Program::new(exec, limit)?);
        let plugin = Self { program, flights: Flights::new(1), last: Arc::default() };
        let identity = Arc::new(Mutex::new(None));
        let kept = Arc::clone(&identity);
        plugin.run(move |credential| *lock(&kept) = credential.identity.take()).await?;
        let identity = lock(&identity).take();
        Ok((plugin, identity))
    }

    /// The header of a call; `None` if the plugin only returns a certificate.
    pub(crate) async fn header(&self) -> Result<Option<HeaderValue>, PluginError> {
        let last = lock(&self.last).clone();
        match last.as_ref().map_or(Use::Invalid, |last| last.at(Instant::now())) {
            Use::Valid => {}
            Use::Replace => drop(self.join(|_| {})),
            Use::Invalid => {
                if let Err(error) = self.run(|_| {}).await {
                    // As client-go: a refused token is sent again, and the server decides.
                    let old = last.filter(|last| last.is_refused).ok_or(error.clone())?;
                    warn!(%error, "Credential plugin failed, using the last token");
                    return Ok(old.header);
                }
            }
        }
        Ok(lock(&self.last).as_ref().and_then(|last| last.header.clone()))
    }

    /// The server refused the token of a call that started at `begun`.
    pub(crate) fn refused(&self, begun: Instant) {
        if let Some(last) = lock(&self.last).as_mut().filter(|last| last.received <= begun) {
            last.is_refused = true;
        }
    }

    /// Runs the plugin, or waits for the current run.
    async fn run(
        &self,
        also: impl FnOnce(&mut Credential) + Send + 'static,
    ) -> Result<(), PluginError> {
        let stuck = || PluginError::Stuck(self.program.name());
        let flight = self.join(also).ok_or_else(stuck)?;
        flight.wait(PATIENCE).await.unwrap_or_else(|| Err(stuck()))
    }

    fn join(
        &self,
        also: impl FnOnce(&mut Credential) + Send + 'static,
    ) -> Option<blocking::Flight<Result<(), PluginError>>> {
        let (program, last) = (Arc::clone(&self.program), Arc::clone(&self.last));
        self.flights.join("", move || {
            let mut credential = program.run()?;
            also(&mut credential);
            let Credential { header, lifetime, .. } = credential;
            let received = Instant::now();
            *lock(&last) = Some(CachedToken { header, received, lifetime, is_refused: false });
            Ok(())
        })
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the kubeconfig has another credential, which takes precedence over a plugin.
fn has_other_credential(user: &AuthInfo) -> bool {
    let with_password = user.username.is_some() && user.password.is_some();
    let with_token = user.token.is_some() || user.token_file.is_some();
    user.auth_provider.is_some() || with_password || with_token
}

#[cfg(test)]
#[path = "plugin_tests.rs"]
mod tests;
