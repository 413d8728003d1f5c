//! Maintains one certificate of the node: requests it, waits for it, stores it.

use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use model::chain::Chain;
use model::jitter::fraction;
use model::ports::clock::WallClock;
use model::ports::cluster::ApiError;
use model::ports::events::{EventType, NodeEvent, NodeEvents};
use model::ports::signing::{ReloadIdentity, SigningRequests};
use model::signing::{SigningRequest, SigningRequestId, SigningState};
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::decide::{
    CertificateFacts, CertificateManager, IssuedPair, Next, Notice, PendingRequest, RequestOutcome,
    Role, Template, is_reusable,
};
use crate::keys::{KeyError, RequestKey};
use crate::metrics::CertificateMetrics;
use crate::pair::join;
use crate::store::{CertificateStore, StoreError};
use crate::watch_request::RequestWatch;

/// The longest wait between two checks of the wall clock, which may be set and which continues while the
/// machine sleeps.
const CHECK_PERIOD: Duration = Duration::from_mins(1);
/// Like `CHECK_PERIOD`, while there is no valid certificate, like upstream.
const CHECK_WITHOUT: Duration = Duration::from_secs(10);

/// The certificate in use, for other parts. Clones share it. Only its task writes it.
#[derive(Debug, Clone)]
pub struct NodeCertificate(watch::Sender<Option<Arc<CertificateFacts>>>);

impl Default for NodeCertificate {
    fn default() -> Self {
        Self(watch::Sender::new(None))
    }
}

impl NodeCertificate {
    /// The certificate and its changes.
    pub fn facts(&self) -> watch::Receiver<Option<Arc<CertificateFacts>>> {
        self.0.subscribe()
    }
}

/// The API server, with each set of credentials that may be used.
#[derive(Debug, Clone)]
pub struct ClientServers {
    /// As the node.
    pub node: Arc<dyn SigningRequests>,
    /// With the bootstrap credentials, for a node without a valid client certificate.
    pub bootstrap: Option<Arc<dyn SigningRequests>>,
}

/// The inputs of a [`CertificateTask`].
#[derive(Debug)]
pub struct CertificateTaskParts {
    /// What the certificate is for.
    pub role: Role,
    /// Where it is requested.
    pub servers: ClientServers,
    /// Its files.
    pub store: CertificateStore,
    /// What it must have; `None` while that is not known.
    pub templates: watch::Receiver<Option<Template>>,
    /// Whether a new one is requested at the start, even if there is a valid one.
    pub is_forced: bool,
    /// The wall clock.
    pub clock: Arc<dyn WallClock>,
    /// Takes notices.
    pub events: Arc<dyn NodeEvents>,
    /// The connection that uses the files.
    pub reload: Option<Arc<dyn ReloadIdentity>>,
    /// Counters.
    pub metrics: Option<CertificateMetrics>,
    /// The certificate in use.
    pub certificate: NodeCertificate,
}

/// The node has no valid client certificate, and gets none.
#[derive(Debug, thiserror::Error)]
#[error("no valid client certificate for {0:#}, and the API server issues none")]
pub struct IdentityLost(SignedDuration);

/// Why a first certificate was not issued.
#[derive(Debug, thiserror::Error)]
pub enum IssueError {
    /// It takes too long.
    #[error("no client certificate was issued within {0:?}")]
    TooLate(Duration),
    /// The API server refuses.
    #[error(transparent)]
    Lost(IdentityLost),
}

/// Why there is no request.
#[derive(Debug, thiserror::Error)]
enum RequestError {
    #[error("make a key and a request")]
    Key(#[from] KeyError),
    #[error("read or write the key of the request")]
    Store(#[from] StoreError),
    #[error("create the request")]
    Api(#[from] ApiError),
    #[error("request {0} of an earlier start cannot be used again")]
    Unusable(String),
}

/// Keeps one certificate.
#[derive(Debug)]
pub struct CertificateTask {
    parts: CertificateTaskParts,
}

/// The state of a run.
#[derive(Debug)]
struct Run {
    manager: CertificateManager,
    watch: Option<RequestWatch>,
    templates: watch::Receiver<Option<Template>>,
    /// Whether the API server refused the node's certificate, although it has not expired: it may have another
    /// authority now.
    is_rejected: bool,
    /// Whether a certificate was stored.
    has_stored: bool,
}

/// A created request, with the API server that has it.
struct Created {
    id: SigningRequestId,
    key: RequestKey,
    server: Arc<dyn SigningRequests>,
}

impl CertificateTask {
    /// A task for a certificate.
    pub fn new(parts: CertificateTaskParts) -> Self {
        Self { parts }
    }

    fn name(&self) -> &'static str {
        match self.parts.role {
            Role::Client => "client",
            Role::Serving => "serving",
        }
    }

    /// Maintains the certificate until it is stopped. A client that has no valid certificate for long, and gets
    /// none, is an error: a new start may find other credentials.
    pub async fn run(self, stop: CancellationToken) -> Result<(), IdentityLost> {
        let work = async {
            let mut run = self.load().await;
            loop {
                self.step(&mut run).await?;
            }
        };
        stop.run_until_cancelled(work).await.unwrap_or(Ok(()))
    }

    /// Requests a certificate, and waits until it is stored.
    pub async fn issue_once(self, patience: Duration) -> Result<(), IssueError> {
        let work = async {
            let mut run = self.load().await;
            while !run.has_stored {
                self.step(&mut run).await?;
            }
            Ok(())
        };
        let issued = timeout(patience, work).await.map_err(|_| IssueError::TooLate(patience))?;
        issued.map_err(IssueError::Lost)
    }

    async fn load(&self) -> Run {
        let parts = &self.parts;
        let found = parts.store.current().await.unwrap_or_else(|error| {
            let error = Chain(&error);
            warn!(certificate = self.name(), %error, "Cannot use the stored certificate, requesting another");
            None
        });
        let facts = found.map(|pair| pair.facts);
        parts.certificate.0.send_replace(facts.clone().map(Arc::new));
        let (now, role) = (parts.clock.now(), parts.role);
        let manager =
            CertificateManager::new(role, facts.as_ref(), parts.is_forced, now, fraction());
        let templates = parts.templates.clone();
        Run { manager, watch: None, templates, is_rejected: false, has_stored: false }
    }

    async fn step(&self, run: &mut Run) -> Result<(), IdentityLost> {
        let now = self.parts.clock.now();
        for notice in run.manager.notices(now) {
            self.report(&notice);
        }
        if let Some(lost) = run.manager.lost_for(now) {
            return Err(IdentityLost(lost));
        }
        let template = run.templates.borrow_and_update().clone();
        match run.manager.next(now, template.as_ref()) {
            Next::Request(template) => self.request(run, template, now).await,
            Next::Store(pair) => self.store(run, &pair).await,
            Next::Wait(until) => self.wait(run, until, now).await,
        }
        Ok(())
    }

    async fn wait(&self, run: &mut Run, until: Timestamp, now: Timestamp) {
        let has_any = run.manager.valid(now).is_some();
        let longest = if has_any { CHECK_PERIOD } else { CHECK_WITHOUT };
        let until = Duration::try_from(until.duration_since(now)).unwrap_or_default();
        let Run { watch, templates, .. } = run;
        let answer = async {
            match watch {
                Some(watch) => watch.next().await,
                None => std::future::pending().await,
            }
        };
        // Biased: an answer is rare, and the template changes rarely.
        let state = tokio::select! {
            biased;
            state = answer => state,
            Ok(()) = templates.changed() => return,
            () = sleep(until.min(longest)) => return,
        };
        self.answered(run, &state).await;
    }

    /// Requests a certificate in place of a pending one.
    async fn request(&self, run: &mut Run, template: Template, now: Timestamp) {
        // The task dropped the watch of an earlier request, whose certificate would not do.
        run.watch = None;
        let is_client = self.parts.role == Role::Client;
        let has_identity = !is_client || (run.manager.valid(now).is_some() && !run.is_rejected);
        let bootstrap = self.parts.servers.bootstrap.as_ref().filter(|_| !has_identity);
        let created = match bootstrap {
            Some(server) => self.create_first(server, &template).await,
            None => self.create(&template).await,
        };
        let now = self.parts.clock.now();
        match created {
            Ok(Created { id, key, server }) => {
                info!(
                    certificate = self.name(),
                    request = id.name,
                    "Certificate signing request created"
                );
                let key = key.pem().into();
                run.watch = Some(RequestWatch::new(server, id.clone()));
                run.manager.requested(PendingRequest { id, template, key, since: now }, now);
            }
            Err(error) => {
                let api = match &error {
                    RequestError::Api(error) => Some(error),
                    RequestError::Key(_) | RequestError::Store(_) | RequestError::Unusable(_) => {
                        None
                    }
                };
                let is_refused = matches!(api, Some(ApiError::Refused { code: 401, .. }));
                // The next attempt uses the other credentials, if there are any.
                run.is_rejected = is_refused && bootstrap.is_none();
                run.manager.not_requested(api, now, fraction());
                self.failed();
                let error = Chain(&error);
                warn!(certificate = self.name(), %error, "Cannot request a certificate, retrying");
            }
        }
    }

    /// Creates a request for a new key.
    async fn create(&self, template: &Template) -> Result<Created, RequestError> {
        let key = RequestKey::generate()?;
        let request = key.request(self.parts.role, template, false)?;
        let server = Arc::clone(&self.parts.servers.node);
        let id = server.create_signing_request(&request).await?;
        Ok(Created { id, key, server })
    }

    /// Creates the first request of a node, or finds that of an earlier start: its key is on disk, and its name
    /// depends on the key.
    async fn create_first(
        &self,
        server: &Arc<dyn SigningRequests>,
        template: &Template,
    ) -> Result<Created, RequestError> {
        let key = self.parts.store.pending_key().await?;
        let request = key.request(self.parts.role, template, true)?;
        let id = match server.create_signing_request(&request).await {
            Err(ApiError::Conflict(_)) => self.existing(&**server, &request, &key).await?,
            created => created?,
        };
        Ok(Created { id, key, server: Arc::clone(server) })
    }

    async fn existing(
        &self,
        server: &dyn SigningRequests,
        request: &SigningRequest,
        key: &RequestKey,
    ) -> Result<SigningRequestId, RequestError> {
        let name = request.name.clone().unwrap_or_default();
        let existing = server.signing_request(&name).await?;
        let now = self.parts.clock.now();
        let is_usable = |chain: &str| join(chain, &key.pem()).is_ok_and(|pair| pair.is_valid(now));
        match existing {
            Some(existing) if is_reusable(&existing, request, is_usable) => {
                info!(request = name, "Using the certificate signing request of an earlier start");
                Ok(existing.id)
            }
            // Deleted meanwhile: created at the next attempt.
            None => Err(RequestError::Unusable(name)),
            Some(_) => {
                self.parts.store.remove_pending_key().await?;
                Err(RequestError::Unusable(name))
            }
        }
    }

    async fn answered(&self, run: &mut Run, state: &SigningState) {
        let now = self.parts.clock.now();
        let name = run.watch.as_ref().map(|watch| watch.id.name.clone()).unwrap_or_default();
        let issued = match (state, run.manager.pending()) {
            (SigningState::Issued(chain), Some(request)) => {
                Some(join(chain, &request.key).map_err(|error| Chain(&error).to_string()))
            }
            _ => None,
        };
        match run.manager.answered(state, issued, now, fraction()) {
            RequestOutcome::Waiting => {}
            RequestOutcome::Issued => run.watch = None,
            RequestOutcome::Failed(why) => {
                run.watch = None;
                self.failed();
                warn!(
                    certificate = self.name(),
                    request = name,
                    why,
                    "Certificate request was not signed, retrying"
                );
                if matches!(state, SigningState::Refused { .. } | SigningState::Issued(_)) {
                    self.drop_pending_key().await;
                }
            }
        }
    }

    async fn store(&self, run: &mut Run, IssuedPair(pair): &IssuedPair) {
        let parts = &self.parts;
        let now = parts.clock.now();
        if let Err(error) = parts.store.update(pair, now).await {
            run.manager.not_stored(now, fraction());
            self.failed();
            let error = Chain(&error);
            warn!(certificate = self.name(), %error, "Cannot store the issued certificate, retrying");
            return;
        }
        let old = run.manager.stored(now, fraction());
        (run.has_stored, run.is_rejected) = (true, false);
        if let Some(reload) = &parts.reload {
            reload.reload_identity();
        }
        if let (Some(old), Some(metrics)) = (&old, &parts.metrics) {
            metrics.rotated(old.not_before, now);
        }
        let expires = pair.facts.not_after;
        info!(certificate = self.name(), %expires, "Certificate issued and stored");
        self.drop_pending_key().await;
        parts.certificate.0.send_replace(Some(Arc::new(pair.facts.clone())));
    }

    /// Removes the key of the first request. A key that stays is used for one request more.
    async fn drop_pending_key(&self) {
        if self.parts.role == Role::Client
            && let Err(error) = self.parts.store.remove_pending_key().await
        {
            let error = Chain(&error);
            warn!(%error, "Cannot remove the key of the first certificate request");
        }
    }

    fn failed(&self) {
        if let Some(metrics) = &self.parts.metrics {
            metrics.failed();
        }
    }

    fn report(&self, notice: &Notice) {
        let whose = self.name();
        let (reason, message) = match notice {
            Notice::WaitsForApproval { name } => (
                "CertificateRequestPending",
                format!(
                    "{whose} certificate request {name} waits for approval; approve it with: \
                     kubectl certificate approve {name}"
                ),
            ),
            Notice::Refused { name, has_failed, why } => {
                let verb = if *has_failed { "failed" } else { "was denied" };
                let reason = "CertificateRequestRefused";
                (reason, format!("{whose} certificate request {name} {verb}, {why}"))
            }
            Notice::ExpiresSoon(end) => (
                "CertificateExpiresSoon",
                format!("{whose} certificate of the node expires at {end}, and was not renewed"),
            ),
            Notice::Expired(end) => {
                ("CertificateExpired", format!("{whose} certificate of the node expired at {end}"))
            }
        };
        warn!(reason, "{message}");
        self.parts.events.record(NodeEvent { kind: EventType::Warning, reason, message });
    }
}
