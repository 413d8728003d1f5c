//! The time in which the API server served requests that the start of a pod waits for.

use anyhow::{Context, Result};
use jiff::Timestamp;
use serde::Deserialize;

/// Requests for the content of volumes: tokens, config maps and secrets.
const AWAITED: [(&str, Option<&str>); 3] =
    [("serviceaccounts", Some("token")), ("configmaps", None), ("secrets", None)];

/// A line of the audit log.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    stage: String,
    verb: String,
    #[serde(default)]
    object_ref: Option<Object>,
    request_received_timestamp: Timestamp,
    stage_timestamp: Timestamp,
}

#[derive(Debug, Deserialize)]
struct Object {
    #[serde(default)]
    resource: String,
    #[serde(default)]
    subresource: Option<String>,
}

impl Line {
    /// Whether the start of a pod waits for the response. A watch is awaited until its response begins.
    fn is_awaited(&self) -> bool {
        let is_response = (self.verb == "watch") == (self.stage == "ResponseStarted");
        let object = self.object_ref.as_ref();
        let object = object.map(|object| (object.resource.as_str(), object.subresource.as_deref()));
        is_response && object.is_some_and(|object| AWAITED.contains(&object))
    }
}

/// The seconds between two times in which at least one of these requests was being served.
pub(super) fn awaited_seconds(log: &str, from: Timestamp, to: Timestamp) -> Result<f64> {
    let mut spans = Vec::new();
    for line in log.lines() {
        let parsed: Line = serde_json::from_str(line).with_context(|| format!("parse {line}"))?;
        if parsed.is_awaited() {
            let received = parsed.request_received_timestamp.max(from);
            spans.push((received, parsed.stage_timestamp.min(to)));
        }
    }
    spans.sort_unstable();
    let (mut seconds, mut end) = (0.0, from);
    for (received, answered) in spans {
        let begun = received.max(end);
        if answered > begun {
            seconds += answered.duration_since(begun).as_secs_f64();
            end = answered;
        }
    }
    Ok(seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(verb: &str, stage: &str, object: &str, from: u32, to: u32) -> String {
        let time = |millis| format!("2026-01-02T03:04:05.{millis:03}000Z");
        let (from, to) = (time(from), time(to));
        format!(
            r#"{{"stage":"{stage}","verb":"{verb}","objectRef":{object},"requestReceivedTimestamp":"{from}","stageTimestamp":"{to}"}}"#
        )
    }

    #[test]
    fn overlapping_requests_count_once_and_status_updates_do_not_count() {
        let token = r#"{"resource":"serviceaccounts","subresource":"token"}"#;
        let (map, status) =
            (r#"{"resource":"configmaps"}"#, r#"{"resource":"pods","subresource":"status"}"#);
        let log = [
            line("create", "ResponseComplete", token, 110, 130),
            line("watch", "ResponseStarted", map, 120, 150),
            // The end of a watch is not awaited.
            line("watch", "ResponseComplete", map, 100, 190),
            line("patch", "ResponseComplete", status, 100, 200),
            // Before and after.
            line("create", "ResponseComplete", token, 10, 20),
            line("create", "ResponseComplete", token, 190, 300),
        ];
        let at = |millis| format!("2026-01-02T03:04:05.{millis}Z").parse().unwrap();
        let seconds = awaited_seconds(&log.join("\n"), at("100"), at("200")).unwrap();
        assert!((seconds - 0.05).abs() < 1e-9, "{seconds}");
        assert!(awaited_seconds("", at("100"), at("200")).unwrap().abs() < 1e-9);
    }
}
