use std::collections::BTreeSet;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use model::ports::cluster::ApiError;
use model::signing::{SigningRequestId, SigningState};
use proptest::prelude::*;

use super::manager::{CertificateManager, Next, PendingRequest, RequestOutcome, Role, rotation_at};
use super::{CertificateFacts, Notice, Template};

const DAY: Duration = Duration::from_hours(24);

fn start() -> Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

fn facts(life: Duration) -> CertificateFacts {
    let template = Template::client("n1");
    CertificateFacts {
        not_before: start(),
        not_after: start() + life,
        common_name: template.common_name,
        organizations: [template.organization].into(),
        dns_names: BTreeSet::new(),
        ips: BTreeSet::new(),
    }
}

fn manager(current: Option<&CertificateFacts>) -> CertificateManager {
    CertificateManager::new(Role::Client, current, false, start(), 0.5)
}

fn request(name: &str, since: Timestamp) -> PendingRequest {
    let id = SigningRequestId { name: name.to_owned(), uid: "u".to_owned() };
    PendingRequest { id, template: Template::client("n1"), key: "".into(), since }
}

fn denied() -> SigningState {
    let (reason, message) = ("No".to_owned(), "never".to_owned());
    SigningState::Refused { has_failed: false, reason, message }
}

/// The next step as a word, with the seconds until it.
fn step(manager: &CertificateManager, now: Timestamp, template: &Template) -> (String, i64) {
    match manager.next(now, Some(template)) {
        Next::Request(_) => ("request".to_owned(), 0),
        Next::Store(_) => ("store".to_owned(), 0),
        Next::Wait(until) => ("wait".to_owned(), until.duration_since(now).as_secs()),
    }
}

// behaviour: CERT-9
#[test]
fn certificate_is_requested_when_none_fits_or_its_rotation_is_due() {
    let template = Template::client("n1");
    let year = facts(365 * DAY);
    let cases = [
        ("no certificate", None, false, "n1", 0, "request"),
        ("valid certificate", Some(&year), false, "n1", 0, "wait"),
        ("forced", Some(&year), true, "n1", 0, "request"),
        ("another node name", Some(&year), false, "n2", 0, "request"),
        ("before 80 % of its life", Some(&year), false, "n1", 291, "wait"),
        ("after 80 % of its life", Some(&year), false, "n1", 293, "request"),
        ("expired", Some(&year), false, "n1", 400, "request"),
        ("clock set back", Some(&year), false, "n1", -100, "wait"),
    ];
    for (case, current, is_forced, node, days, expected) in cases {
        let manager = CertificateManager::new(Role::Client, current, is_forced, start(), 0.5);
        let now = start() + SignedDuration::from_hours(24 * days);
        let template = Template { common_name: format!("system:node:{node}"), ..template.clone() };
        assert_eq!(step(&manager, now, &template).0, expected, "{case}");
    }
    assert!(matches!(manager(None).next(start(), None), Next::Wait(_)), "no addresses yet");
}

// behaviour: CERT-10
#[test]
fn failures_back_off_to_half_a_minute_and_refusals_to_five_minutes() {
    let template = Template::client("n1");
    let mut failing = manager(None);
    let mut refused = manager(None);
    let (mut after_failure, mut after_refusal) = (Vec::new(), Vec::new());
    for _ in 0..9 {
        failing.not_requested(None, start(), 0.0);
        after_failure.push(step(&failing, start(), &template).1);
        refused.requested(request("csr-1", start()), start());
        let outcome = refused.answered(&denied(), None, start(), 0.0);
        assert!(matches!(outcome, RequestOutcome::Failed(_)));
        after_refusal.push(step(&refused, start(), &template).1);
    }
    assert_eq!(after_failure, [2, 4, 8, 16, 32, 32, 32, 32, 32]);
    assert_eq!(after_refusal, [2, 4, 8, 16, 32, 64, 128, 256, 300]);
    // Planned before the clock was set back by a day.
    let earlier = start() - DAY;
    assert_eq!(step(&refused, earlier, &template).0, "request");
}

// behaviour: CERT-7
#[test]
fn undecided_request_is_kept_until_late_approval() {
    let template = Template::client("n1");
    let mut manager = manager(None);
    manager.requested(request("csr-1", start()), start());
    for hours in 0..48 {
        let now = start() + SignedDuration::from_hours(hours);
        manager.notices(now);
        assert_eq!(step(&manager, now, &template).0, "wait", "after {hours} hours");
        manager.answered(&SigningState::Pending, None, now, 0.0);
    }
    let other = Template { ips: ["10.0.0.1".parse().unwrap()].into(), ..template };
    assert_eq!(step(&manager, start(), &other).0, "request", "the node has other addresses");
    manager.answered(&SigningState::Deleted, None, start(), 0.0);
    assert!(manager.pending().is_none());
}

// behaviour: CERT-9
#[test]
fn certificate_that_was_dated_back_is_used_before_it_is_rotated() {
    let template = Template::client("n1");
    let pair = crate::test_signer::pair(&template, start(), Duration::from_mins(6));
    let now = start() + SignedDuration::from_mins(5) + SignedDuration::from_secs(30);
    let mut manager = manager(None);
    manager.requested(request("csr-1", now), now);
    let issued = SigningState::Issued("".into());
    assert_eq!(manager.answered(&issued, Some(Ok(pair)), now, 0.0), RequestOutcome::Issued);
    assert_eq!(step(&manager, now, &template).0, "store");
    manager.stored(now, 0.0);
    assert_eq!(step(&manager, now, &template), ("wait".to_owned(), 15));
}

// behaviour: CERT-16
#[test]
fn waiting_request_is_reported_with_its_name_until_it_is_approved() {
    let mut manager = manager(None);
    manager.requested(request("csr-1", start()), start());
    let at = |seconds| start() + SignedDuration::from_secs(seconds);
    let waits = Notice::WaitsForApproval { name: "csr-1".to_owned() };
    assert_eq!(manager.notices(at(9)), []);
    assert_eq!(manager.notices(at(10)), std::slice::from_ref(&waits));
    assert_eq!(manager.notices(at(11)), []);
    assert_eq!(manager.notices(at(3100)), [waits], "events are stored for an hour");
    manager.answered(&SigningState::Approved, None, at(3101), 0.0);
    assert_eq!(manager.notices(at(9000)), []);
}

// behaviour: CERT-17
#[test]
fn expiry_is_reported_a_week_before_or_in_the_last_tenth_of_a_short_validity() {
    let cases = [(365 * DAY, 358 * DAY), (10 * DAY, 9 * DAY), (DAY, DAY * 9 / 10)];
    for (life, from) in cases {
        let facts = facts(life);
        let mut manager = manager(Some(&facts));
        assert_eq!(manager.notices(start() + from - Duration::from_mins(1)), [], "{life:?}");
        let soon = [Notice::ExpiresSoon(facts.not_after)];
        assert_eq!(manager.notices(start() + from), soon, "{life:?}");
        assert_eq!(manager.notices(start() + from), [], "{life:?}");
        let over = start() + life + Duration::from_secs(2);
        assert_eq!(manager.notices(over), [Notice::Expired(facts.not_after)], "{life:?}");
    }
}

// behaviour: CERT-12
#[test]
fn client_is_lost_after_five_minutes_without_certificate_while_the_server_refuses() {
    let refused = |code| ApiError::Refused { code, message: String::new() };
    let away = || ApiError::Unreachable("away".into());
    let rows: [(&str, Option<ApiError>, bool); 5] = [
        ("unauthorized", Some(refused(401)), true),
        ("forbidden", Some(refused(403)), true),
        ("not found", Some(ApiError::NotFound), true),
        ("server error", Some(refused(500)), false),
        ("unreachable", Some(away()), false),
    ];
    let at = |minutes| start() + SignedDuration::from_mins(minutes);
    for (case, error, is_lost) in rows {
        let mut manager = manager(None);
        manager.not_requested(error.as_ref(), start(), 0.0);
        assert_eq!(manager.lost_for(at(5)), None, "{case}");
        assert_eq!(manager.lost_for(at(6)).is_some(), is_lost, "{case}");
    }
    let mut waiting = manager(None);
    waiting.requested(request("csr-1", start()), start());
    assert_eq!(waiting.lost_for(at(600)), None, "a first approval may be late");
    let mut expired = manager(Some(&facts(DAY)));
    assert_eq!(expired.lost_for(start() + DAY), None);
    expired.not_requested(Some(&refused(401)), start() + DAY, 0.0);
    assert!(expired.lost_for(start() + DAY + Duration::from_secs(301)).is_some());
    assert_eq!(expired.lost_for(at(-60)), None, "the clock was set back");
}

proptest! {
    // behaviour: CERT-9
    #[test]
    fn rotation_is_due_after_70_to_90_percent_of_any_validity(
        life in 1u64..4_000_000_000,
        fraction in 0.0f64..=1.0,
    ) {
        let facts = facts(Duration::from_secs(life));
        let rotation = rotation_at(&facts, fraction);
        let percent = |part: u64| start() + Duration::from_secs(life) * u32::try_from(part).unwrap() / 100;
        prop_assert!(percent(70) - Duration::from_millis(1) <= rotation);
        prop_assert!(rotation <= percent(90) + Duration::from_millis(1));
    }

    // behaviour: CERT-10
    #[test]
    fn next_step_is_never_a_wait_into_the_past(
        events in proptest::collection::vec((0u8..6, -1000i64..100_000), 1..40),
        has_any: bool,
    ) {
        let template = Template::client("n1");
        let day = facts(DAY);
        let mut manager = manager(has_any.then_some(&day));
        let mut now = start();
        for (event, seconds) in events {
            now += SignedDuration::from_secs(seconds);
            match event {
                0 => manager.requested(request("csr-1", now), now),
                1 => manager.not_requested(None, now, 0.5),
                2 => _ = manager.answered(&denied(), None, now, 0.5),
                3 => _ = manager.answered(&SigningState::Pending, None, now, 0.5),
                4 => _ = manager.answered(&SigningState::Issued("garbage".into()), None, now, 0.5),
                _ => manager.not_stored(now, 0.5),
            }
            manager.notices(now);
            let next = manager.next(now, Some(&template));
            if let Next::Wait(until) = next {
                prop_assert!(until > now);
                // Without a request in progress, a node without certificate tries again within minutes.
                if manager.valid(now).is_none() && manager.pending().is_none() {
                    prop_assert!(until <= now + SignedDuration::from_mins(6));
                    prop_assert!(matches!(manager.next(until, Some(&template)), Next::Request(_)));
                }
            }
        }
    }
}
