//! When a certificate is requested, waited for and stored.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use model::ports::cluster::ApiError;
use model::signing::{SigningRequestId, SigningState};

use super::notices::{END_AGAIN, Notice, UNAPPROVED, UNAPPROVED_AGAIN, report_end_from};
use super::pair::{CertificateFacts, CertificatePair};
use super::template::Template;

/// The delay after the first failure; it doubles with each further one.
const FIRST_RETRY: Duration = Duration::from_secs(2);
/// The longest delay after a failure, like upstream.
const LONGEST_RETRY: Duration = Duration::from_secs(32);
/// The longest delay after a refusal. Upstream's is 32 s, which fills the API server with denied requests.
const LONGEST_AFTER_REFUSAL: Duration = Duration::from_mins(5);
/// How long a client may lack a valid certificate while the API server answers.
const LOST_AFTER: SignedDuration = SignedDuration::from_mins(5);

/// How long a new certificate is used, unless half of its life is shorter.
const SHORTEST_USE: SignedDuration = SignedDuration::from_mins(1);

/// What a certificate is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Calls to the API server.
    Client,
    /// The node's API.
    Serving,
}

/// A request that is not decided.
#[derive(Clone, PartialEq, Eq)]
pub struct PendingRequest {
    /// Its identity.
    pub id: SigningRequestId,
    /// What it is for.
    pub template: Template,
    /// The key, in PEM. Never printed.
    pub key: Box<str>,
    /// When it was created.
    pub since: Timestamp,
}

impl std::fmt::Debug for PendingRequest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PendingRequest").field("id", &self.id).finish_non_exhaustive()
    }
}

/// An issued certificate that is not stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IssuedPair(pub CertificatePair);

/// The next step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// Request a certificate.
    Request(Template),
    /// Store the issued certificate.
    Store(IssuedPair),
    /// Nothing before this time, or an answer to the request.
    Wait(Timestamp),
}

/// The result of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum RequestOutcome {
    /// It is not decided yet.
    Waiting,
    /// The certificate was issued, and is to be stored.
    Issued,
    /// There will be no certificate for this request.
    Failed(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Idle,
    Requested { request: PendingRequest, is_approved: bool, report_at: Timestamp },
    Issued(IssuedPair),
}

/// The state of one certificate of the node.
#[derive(Debug, Clone)]
pub struct CertificateManager {
    role: Role,
    step: Step,
    current: Option<Current>,
    /// The next certificate is requested at once.
    is_forced: bool,
    /// The number of failures in a row, and of refusals among the latest of them.
    failures: u32,
    /// Not before this time.
    retry_at: Option<Timestamp>,
    /// Whether the API server answered the last request for a certificate.
    server_answers: bool,
    /// When there was a valid certificate last; the start without one.
    valid_at: Timestamp,
    refused: Option<Notice>,
}

#[derive(Debug, Clone)]
struct Current {
    facts: CertificateFacts,
    rotate_at: Timestamp,
    report_end_at: Timestamp,
}

/// The time of rotation: after 70 to 90 % of the life, by a number from zero to one.
pub fn rotation_at(facts: &CertificateFacts, fraction: f64) -> Timestamp {
    let life = facts.not_after.duration_since(facts.not_before).max(SignedDuration::ZERO);
    let part = 0.7 + 0.2 * fraction.clamp(0.0, 1.0);
    facts.not_before + life.mul_f64(part)
}

/// The delay after failures, up to a longest one, with a tenth of jitter.
fn back_off(failures: u32, longest: Duration, fraction: f64) -> Duration {
    let doubled = 2u32.saturating_pow(failures.saturating_sub(1).min(16));
    FIRST_RETRY.saturating_mul(doubled).min(longest).mul_f64(1.0 + 0.1 * fraction.clamp(0.0, 1.0))
}

impl CertificateManager {
    /// The state at the start. `is_forced` requests a new certificate even if the current one is valid.
    pub fn new(
        role: Role,
        current: Option<&CertificateFacts>,
        is_forced: bool,
        now: Timestamp,
        fraction: f64,
    ) -> Self {
        Self {
            role,
            step: Step::Idle,
            current: current.map(|facts| Current::new(facts.clone(), fraction)),
            is_forced,
            failures: 0,
            retry_at: None,
            server_answers: false,
            valid_at: now,
            refused: None,
        }
    }

    /// The certificate in use, unless it has expired.
    pub fn valid(&self, now: Timestamp) -> Option<&CertificateFacts> {
        let current = self.current.as_ref()?;
        (now <= current.facts.not_after).then_some(&current.facts)
    }

    /// The undecided request.
    pub fn pending(&self) -> Option<&PendingRequest> {
        match &self.step {
            Step::Requested { request, .. } => Some(request),
            Step::Idle | Step::Issued(_) => None,
        }
    }

    /// The next step for a template; there is none while the node lacks addresses.
    pub fn next(&self, now: Timestamp, template: Option<&Template>) -> Next {
        let retry_at = self.retry_at.filter(|at| is_ahead(*at, now));
        match &self.step {
            Step::Issued(pair) => match retry_at {
                None => Next::Store(pair.clone()),
                Some(at) => Next::Wait(at),
            },
            Step::Requested { request, report_at, .. } => match template {
                // The requested certificate would not do.
                Some(template) if *template != request.template => Next::Request(template.clone()),
                _ => Next::Wait(*report_at),
            },
            Step::Idle => {
                let Some(template) = template else { return Next::Wait(self.report_at()) };
                let due = self.due_at(template, now);
                match (due <= now, retry_at) {
                    (true, None) => Next::Request(template.clone()),
                    (true, Some(at)) => Next::Wait(at),
                    (false, _) => Next::Wait(due.min(self.report_at())),
                }
            }
        }
    }

    /// When to request a certificate.
    fn due_at(&self, template: &Template, now: Timestamp) -> Timestamp {
        match &self.current {
            Some(current) if !self.is_forced && template.is_satisfied_by(&current.facts) => {
                current.rotate_at
            }
            _ => now,
        }
    }

    fn report_at(&self) -> Timestamp {
        self.current.as_ref().map_or(Timestamp::MAX, |current| current.report_end_at)
    }

    /// A request was created, or found again.
    pub fn requested(&mut self, request: PendingRequest, now: Timestamp) {
        self.retry_at = None;
        self.step = Step::Requested { request, is_approved: false, report_at: now + UNAPPROVED };
    }

    /// A request could not be created.
    pub fn not_requested(&mut self, error: Option<&ApiError>, now: Timestamp, fraction: f64) {
        // Like upstream's `updateServerError`.
        self.server_answers = match error {
            Some(ApiError::NotFound | ApiError::Refused { code: 401 | 403 | 404, .. }) => true,
            Some(_) => false,
            None => self.server_answers,
        };
        self.step = Step::Idle;
        self.fail(now, LONGEST_RETRY, fraction);
    }

    fn fail(&mut self, now: Timestamp, longest: Duration, fraction: f64) {
        self.failures = self.failures.saturating_add(1);
        self.retry_at = Some(now + back_off(self.failures, longest, fraction));
    }

    /// The request has a state; an issued certificate was joined with its key, or cannot be used.
    pub fn answered(
        &mut self,
        state: &SigningState,
        issued: Option<Result<CertificatePair, String>>,
        now: Timestamp,
        fraction: f64,
    ) -> RequestOutcome {
        let Step::Requested { request, is_approved, .. } = &mut self.step else {
            return RequestOutcome::Waiting;
        };
        match state {
            SigningState::Pending => RequestOutcome::Waiting,
            SigningState::Approved => {
                *is_approved = true;
                RequestOutcome::Waiting
            }
            SigningState::Issued(_) => match issued {
                Some(Ok(pair)) if request.template.is_satisfied_by(&pair.facts) => {
                    self.step = Step::Issued(IssuedPair(pair));
                    self.retry_at = None;
                    RequestOutcome::Issued
                }
                Some(Err(error)) => self.refuse(now, fraction, &error),
                Some(Ok(_)) | None => {
                    self.refuse(now, fraction, "the issued certificate is not the requested one")
                }
            },
            SigningState::Refused { has_failed, reason, message } => {
                let why = format!("reason: {reason}, message: {message}");
                let (name, has_failed) = (request.id.name.clone(), *has_failed);
                self.refused = Some(Notice::Refused { name, has_failed, why: why.clone() });
                self.refuse(now, fraction, &why)
            }
            SigningState::Deleted => self.refuse(now, fraction, "the request was deleted"),
        }
    }

    fn refuse(&mut self, now: Timestamp, fraction: f64, why: &str) -> RequestOutcome {
        self.step = Step::Idle;
        self.fail(now, LONGEST_AFTER_REFUSAL, fraction);
        RequestOutcome::Failed(why.to_owned())
    }

    /// The issued certificate could not be stored.
    pub fn not_stored(&mut self, now: Timestamp, fraction: f64) {
        self.fail(now, LONGEST_RETRY, fraction);
    }

    /// The issued certificate was stored, and replaces the current one, which is returned.
    pub fn stored(&mut self, now: Timestamp, fraction: f64) -> Option<CertificateFacts> {
        let step = std::mem::replace(&mut self.step, Step::Idle);
        let Step::Issued(IssuedPair(pair)) = step else {
            self.step = step;
            return None;
        };
        (self.failures, self.retry_at, self.is_forced) = (0, None, false);
        (self.server_answers, self.valid_at) = (true, now);
        let mut current = Current::new(pair.facts, fraction);
        // A signer may date a short life back by minutes, so that its rotation is due when it is issued.
        let left = current.facts.not_after.duration_since(now).max(SignedDuration::ZERO);
        current.rotate_at = current.rotate_at.max(now + (left / 2).min(SHORTEST_USE));
        let late = current.facts.not_after.duration_since(current.rotate_at) / 2;
        current.report_end_at = current.report_end_at.max(current.rotate_at + late);
        self.current.replace(current).map(|old| old.facts)
    }

    /// How long a client has had no valid certificate, if that is too long and the API server answers: a new
    /// start may find other credentials.
    pub fn lost_for(&mut self, now: Timestamp) -> Option<SignedDuration> {
        // A clock that was set back does not count as time without certificate.
        if self.valid(now).is_some() || now < self.valid_at {
            self.valid_at = now;
        }
        let lost = now.duration_since(self.valid_at);
        (self.role == Role::Client && self.server_answers && lost > LOST_AFTER).then_some(lost)
    }

    /// The notices that are due.
    pub fn notices(&mut self, now: Timestamp) -> Vec<Notice> {
        let mut notices: Vec<Notice> = self.refused.take().into_iter().collect();
        if let Step::Requested { request, is_approved, report_at } = &mut self.step
            && *report_at <= now
        {
            *report_at = now + UNAPPROVED_AGAIN;
            if !*is_approved {
                notices.push(Notice::WaitsForApproval { name: request.id.name.clone() });
            }
        }
        if let Some(current) = &mut self.current
            && current.report_end_at <= now
        {
            let end = current.facts.not_after;
            let is_over = end < now;
            notices.push(if is_over { Notice::Expired(end) } else { Notice::ExpiresSoon(end) });
            let again = now + END_AGAIN;
            current.report_end_at = if is_over { again } else { again.min(end + END_MARGIN) };
        }
        notices
    }
}

/// After its end, a certificate is reported as expired.
const END_MARGIN: Duration = Duration::from_secs(1);

impl Current {
    fn new(facts: CertificateFacts, fraction: f64) -> Self {
        let rotate_at = rotation_at(&facts, fraction);
        let report_end_at = report_end_from(facts.not_before, facts.not_after);
        Self { facts, rotate_at, report_end_at }
    }
}

/// Whether a retry is ahead. One that is further ahead than any delay was planned before the clock was set back.
fn is_ahead(at: Timestamp, now: Timestamp) -> bool {
    at > now && at.duration_since(now) <= SignedDuration::from_mins(6)
}
