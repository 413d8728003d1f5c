//! An entry of the journal.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;
use model::ports::incidents::{Incident, IncidentKind};
use model::ports::journal::Outcome;
use model::ports::streaming::Session;
use model::verdict::{Detail, Input, Owner, Verdict};
use serde::de::{MapAccess, Visitor};
use serde::ser::SerializeMap as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

/// The maximum number of bytes of a text of an entry, so that its line has a bound.
const LONGEST_TEXT: usize = 1024;
/// The maximum number of bytes of a list of texts; the last ones are dropped.
const LONGEST_LIST: usize = 8 * 1024;
/// The maximum number of bytes of an ID, which may be a path.
const LONGEST_ID: usize = 2048;

/// The maximum number of recorded ports of a session.
const MOST_PORTS: usize = 64;

/// The rule of sessions: none.
const SESSION: &str = "session";

/// The error of a removal whose outcome is unknown.
pub(crate) const NO_ANSWER: &str = "the process ended before the answer";

/// The outcome of a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum EntryOutcome {
    /// It was removed.
    Removed,
    /// It did not exist.
    Gone,
    /// It was deleted, and finalizers still held it.
    Held,
    /// The removal failed.
    Failed,
    /// The process ended before the response to the removal.
    Unknown,
    /// A session was opened.
    Opened,
    /// A session was refused.
    Refused,
    /// A container was killed, by the agent or the kernel.
    Killed,
    /// A container was restarted.
    Restarted,
    /// A pod was rejected.
    Rejected,
    /// A pod was evicted.
    Evicted,
    /// An image was pulled.
    Pulled,
}

impl EntryOutcome {
    /// The outcome as text.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Removed => "removed",
            Self::Gone => "gone",
            Self::Held => "held",
            Self::Failed => "failed",
            Self::Unknown => "unknown",
            Self::Opened => "opened",
            Self::Refused => "refused",
            Self::Killed => "killed",
            Self::Restarted => "restarted",
            Self::Rejected => "rejected",
            Self::Evicted => "evicted",
            Self::Pulled => "pulled",
        }
    }
}

impl From<Outcome<'_>> for EntryOutcome {
    fn from(outcome: Outcome<'_>) -> Self {
        match outcome {
            Outcome::Removed => Self::Removed,
            Outcome::AlreadyGone => Self::Gone,
            Outcome::Held => Self::Held,
            Outcome::Failed(_) => Self::Failed,
        }
    }
}

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    /// The time.
    pub time: Timestamp,
    /// The kind of object: `container`, `sandbox`, `image`, `log`, `pod-directory`.
    pub kind: String,
    /// Its id or path.
    pub id: String,
    /// Its name for users; empty if it has only an ID.
    #[serde(default)]
    pub name: String,
    /// Its pod, as `NAMESPACE/NAME`; null if it has no pod, or if only the
    /// UID is known.
    #[serde(default)]
    pub pod: Option<String>,
    /// That pod's uid.
    #[serde(default)]
    pub pod_uid: Option<String>,
    /// The rule that decided it.
    pub rule: String,
    /// The inputs of the rule.
    #[serde(default)]
    pub detail: Inputs,
    /// The outcome.
    pub outcome: EntryOutcome,
    /// Why it was not removed, or why the outcome is unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The version of the agent that removed it.
    pub version: String,
}

impl Entry {
    /// The entry of a verdict that was carried out, or could not be.
    pub fn new(verdict: &Verdict, outcome: Outcome<'_>, time: Timestamp, version: &str) -> Self {
        let owner = verdict.owner.as_ref();
        let pod = owner.and_then(|owner| owner.pod.as_ref()).map(ToString::to_string);
        Self {
            time,
            kind: verdict.subject.kind().to_owned(),
            id: shortened(&verdict.subject.id(), LONGEST_ID),
            name: shortened(&verdict.name, LONGEST_TEXT),
            pod: pod.map(|pod| shortened(&pod, LONGEST_TEXT)),
            pod_uid: owner
                .and_then(Owner::known_uid)
                .map(|uid| shortened(uid.as_str(), LONGEST_TEXT)),
            rule: verdict.rule.to_owned(),
            detail: Inputs::from(&verdict.detail),
            outcome: outcome.into(),
            error: match outcome {
                Outcome::Failed(why) => Some(shortened(why, LONGEST_TEXT)),
                _ => None,
            },
            version: version.to_owned(),
        }
    }

    /// The entry of a session. Its kind is that of the session, its id and name are those of the container.
    pub(crate) fn of_session(session: &Session, time: Timestamp, version: &str) -> Self {
        let text = |text: &str| shortened(text, LONGEST_TEXT);
        let mut detail = vec![("user".to_owned(), Value::from(text(&session.user)))];
        if let Some(address) = session.address {
            detail.push(("from".to_owned(), address.to_string().into()));
        }
        if let Some(program) = &session.program {
            detail.push(("program".to_owned(), text(program).into()));
        }
        if !session.ports.is_empty() {
            let ports = session.ports.iter().take(MOST_PORTS).copied();
            detail.push(("ports".to_owned(), ports.map(Value::from).collect()));
        }
        let refusal = session.refusal.as_deref();
        Self {
            time,
            kind: session.kind.as_str().to_owned(),
            id: shortened(session.object.as_str(), LONGEST_ID),
            name: text(&session.container),
            pod: Some(text(&session.pod.to_string())),
            pod_uid: Some(text(session.uid.as_str())),
            rule: SESSION.to_owned(),
            detail: Inputs(detail),
            outcome: if refusal.is_some() { EntryOutcome::Refused } else { EntryOutcome::Opened },
            error: refusal.map(text),
            version: version.to_owned(),
        }
    }

    /// The entry of an incident. Its kind is that of the incident, its id and name are those of the container.
    pub(crate) fn of_incident(incident: &Incident, now: Timestamp, version: &str) -> Self {
        let text = |text: &str| shortened(text, LONGEST_TEXT);
        Self {
            // The clock of the runtime may be ahead.
            time: incident.at.map_or(now, |at| at.min(now)),
            kind: incident.kind.as_str().to_owned(),
            id: shortened(&incident.id, LONGEST_ID),
            name: text(&incident.container),
            pod: Some(text(&incident.pod.to_string())),
            pod_uid: Some(text(incident.uid.as_str())),
            rule: text(&incident.rule),
            detail: Inputs::from(&incident.detail),
            outcome: match incident.kind {
                IncidentKind::Kill | IncidentKind::Oom => EntryOutcome::Killed,
                IncidentKind::Restart => EntryOutcome::Restarted,
                IncidentKind::Rejection => EntryOutcome::Rejected,
                IncidentKind::Eviction => EntryOutcome::Evicted,
                IncidentKind::Pull => EntryOutcome::Pulled,
            },
            error: None,
            version: version.to_owned(),
        }
    }

    /// Whether it is an incident and not a removal.
    pub fn is_incident(&self) -> bool {
        matches!(
            self.outcome,
            EntryOutcome::Killed
                | EntryOutcome::Restarted
                | EntryOutcome::Rejected
                | EntryOutcome::Evicted
                | EntryOutcome::Pulled
        )
    }

    /// Whether it is about an image: a removal or a pull.
    pub fn is_of_image(&self) -> bool {
        self.kind == "image" || self.outcome == EntryOutcome::Pulled
    }

    /// Whether it is a session and not a removal.
    pub fn is_session(&self) -> bool {
        matches!(self.outcome, EntryOutcome::Opened | EntryOutcome::Refused)
    }

    /// The entry of a verdict that is about to be carried out.
    pub(crate) fn of_begun(verdict: &Verdict, time: Timestamp, version: &str) -> Self {
        let entry = Self::new(verdict, Outcome::Removed, time, version);
        Self { outcome: EntryOutcome::Unknown, error: Some(NO_ANSWER.to_owned()), ..entry }
    }
}

/// The first bytes of a text, at most `limit`.
fn shortened(text: &str, most: usize) -> String {
    let end = (0..=most.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    text[..end.unwrap_or(0)].to_owned()
}

/// The inputs of a rule, as JSON, in the order of the rule. Times are in
/// RFC 3339, durations like `1h2m3s`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inputs(pub Vec<(String, Value)>);

impl Inputs {
    /// The input with a name.
    pub fn get(&self, name: &str) -> Option<&Value> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value)
    }

    /// The texts of an input; empty if there are none.
    pub fn texts(&self, name: &str) -> impl Iterator<Item = &str> {
        let list = self.get(name).and_then(Value::as_array);
        list.into_iter().flatten().filter_map(Value::as_str)
    }

    /// An input as text for users.
    pub fn text(&self, name: &str) -> Option<String> {
        self.get(name).map(plain)
    }
}

/// An input as text for users: without the quotes of JSON strings.
pub fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(values) => values.iter().map(plain).collect::<Vec<_>>().join(" "),
        Value::Null => "none".to_owned(),
        other => other.to_string(),
    }
}

/// The texts that fit the limit.
fn bounded(texts: &[String]) -> Vec<Value> {
    let mut room = LONGEST_LIST;
    let texts = texts.iter().map(|text| shortened(text, LONGEST_TEXT));
    let fits = |text: &String| {
        let left = room.checked_sub(text.len());
        room = left.unwrap_or(room);
        left.is_some()
    };
    texts.take_while(fits).map(Value::from).collect()
}

impl fmt::Display for Inputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, (name, value)) in self.0.iter().enumerate() {
            let gap = if position == 0 { "" } else { ", " };
            write!(f, "{gap}{name} {}", plain(value))?;
        }
        Ok(())
    }
}

impl From<&Detail> for Inputs {
    fn from(detail: &Detail) -> Self {
        let value = |input: &Input| match input {
            Input::Text(text) => Value::from(shortened(text, LONGEST_TEXT)),
            Input::Texts(texts) => Value::from(bounded(texts)),
            Input::Number(number) => Value::from(*number),
            Input::Flag(flag) => Value::from(*flag),
            Input::Time(time) => Value::from(time.to_string()),
            Input::Span(span) => Value::from(span_text(*span)),
            Input::Nothing => Value::Null,
        };
        let inputs = detail.0.iter().map(|(name, input)| ((*name).to_owned(), value(input)));
        Self(inputs.collect())
    }
}

/// A duration as in the configuration: `1h2m3s`, `1.5s`. To the millisecond.
fn span_text(span: Duration) -> String {
    let seconds = span.as_secs();
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    let fraction = match span.subsec_millis() {
        0 => String::new(),
        millis => format!(".{millis:03}").trim_end_matches('0').to_owned(),
    };
    let rest = format!("{}{fraction}s", seconds % 60);
    match (hours, minutes) {
        (0, 0) => rest,
        (0, _) => format!("{minutes}m{rest}"),
        _ => format!("{hours}h{minutes}m{rest}"),
    }
}

impl Serialize for Inputs {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (name, value) in &self.0 {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

impl<'de> Deserialize<'de> for Inputs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;
        impl<'de> Visitor<'de> for InOrder {
            type Value = Inputs;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Inputs, A::Error> {
                let mut inputs = Vec::new();
                while let Some(input) = map.next_entry()? {
                    inputs.push(input);
                }
                Ok(Inputs(inputs))
            }
        }
        deserializer.deserialize_map(InOrder)
    }
}

#[cfg(test)]
mod tests {
    use model::ids::PodName;
    use model::verdict::Subject;

    use super::*;

    #[test]
    fn entry_is_one_line_of_json() {
        let verdict = Verdict {
            subject: Subject::Container("c1".into()),
            name: "main".into(),
            owner: Some(Owner { uid: "u1".into(), pod: Some(PodName::new("default", "web")) }),
            rule: "per-container-cap",
            detail: Detail::default()
                .with("position", Input::Number(3))
                .with("age", Input::Span(Duration::from_secs(90)))
                .with("aggressive", Input::Flag(false))
                .with("lastUsed", Input::Nothing),
            at: Timestamp::UNIX_EPOCH,
        };
        let entry = Entry::new(&verdict, Outcome::Failed("busy"), Timestamp::UNIX_EPOCH, "0.1.0");
        let text = serde_json::to_string(&entry).unwrap();
        assert_eq!(
            text,
            r#"{"time":"1970-01-01T00:00:00Z","kind":"container","id":"c1","name":"main","pod":"default/web","podUid":"u1","rule":"per-container-cap","detail":{"position":3,"age":"1m30s","aggressive":false,"lastUsed":null},"outcome":"failed","error":"busy","version":"0.1.0"}"#
        );
        assert_eq!(serde_json::from_str::<Entry>(&text).unwrap(), entry);
        let owner = Some(Owner::named(PodName::new("default", "web")));
        let of_link = Verdict { owner, ..verdict };
        let of_link = Entry::new(&of_link, Outcome::Removed, Timestamp::UNIX_EPOCH, "0.1.0");
        assert_eq!((of_link.pod.as_deref(), of_link.pod_uid), (Some("default/web"), None));
        assert_eq!(
            entry.detail.to_string(),
            "position 3, age 1m30s, aggressive false, lastUsed none"
        );
    }

    #[test]
    fn lists_keep_their_order_and_are_limited() {
        let texts: Vec<String> =
            (0..100).map(|number| format!("{number}-{}", "x".repeat(200))).collect();
        let list = |texts: &[String]| {
            Inputs::from(&Detail::default().with("names", Input::Texts(texts.to_vec())))
        };
        let short = list(&["a:1".to_owned(), "a:2".to_owned()]);
        assert_eq!(short.texts("names").collect::<Vec<_>>(), ["a:1", "a:2"]);
        assert_eq!(short.to_string(), "names a:1 a:2");
        assert_eq!(short.texts("other").count(), 0);
        let long = list(&texts);
        let kept: usize = long.texts("names").map(str::len).sum();
        assert!(kept <= LONGEST_LIST && kept > LONGEST_LIST / 2, "{kept}");
        assert!(long.texts("names").next().is_some_and(|first| first.starts_with("0-")));
    }

    #[test]
    fn durations_have_the_format_of_the_configuration() {
        let rows =
            [(0, "0s"), (1500, "1.5s"), (90_000, "1m30s"), (3_600_000, "1h0m0s"), (1, "0.001s")];
        for (millis, text) in rows {
            assert_eq!(span_text(Duration::from_millis(millis)), text);
        }
    }

    #[test]
    fn texts_are_cut_at_character_boundaries() {
        assert_eq!(shortened("aäb", 2), "a");
        assert_eq!(shortened("aäb", 3), "aä");
        assert_eq!(shortened("", 3), "");
    }
}
