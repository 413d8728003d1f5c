//! The agent's API requests, from the API server's own audit log.

use std::collections::BTreeMap;
use std::fs;
use std::io::{ErrorKind, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Deserialize;
use testbed::User;

/// Requests by their verb and resource, with the code of a refusal.
pub type Requests = BTreeMap<String, u64>;

/// Resources that an agent requests for the node itself, independent of the number of pods.
const OF_THE_NODE: [&str; 4] = ["leases", "nodes", "nodes/status", "csinodes"];

/// The audit log of a node.
#[derive(Debug)]
pub(super) struct AuditLog {
    path: PathBuf,
    policy: PathBuf,
}

/// A line of the log.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Line {
    stage: String,
    verb: String,
    #[serde(default)]
    object_ref: Option<Object>,
    #[serde(rename = "requestURI")]
    request_uri: String,
    #[serde(default)]
    response_status: Option<Response>,
}

#[derive(Debug, Deserialize)]
struct Object {
    #[serde(default)]
    resource: String,
    #[serde(default)]
    subresource: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Response {
    #[serde(default)]
    code: u16,
}

impl Line {
    /// The kind of the request; nothing for the entry at the end of a watch.
    fn kind(&self) -> Option<String> {
        if self.verb == "watch" && self.stage != "ResponseStarted" {
            return None;
        }
        let of = match &self.object_ref {
            Some(Object { resource, subresource: Some(part) }) => format!("{resource}/{part}"),
            Some(Object { resource, .. }) => resource.clone(),
            None => self.request_uri.split('?').next().unwrap_or_default().to_owned(),
        };
        let code = self.response_status.as_ref().map_or(0, |status| status.code);
        let refused = if code >= 400 { format!(" ({code})") } else { String::new() };
        Some(format!("{} {of}{refused}", self.verb))
    }
}

/// The number of requests of each kind in a log.
fn counted(log: &str) -> Result<Requests> {
    let mut requests = Requests::new();
    for line in log.lines() {
        let line: Line =
            serde_json::from_str(line).with_context(|| format!("understand {line}"))?;
        if let Some(kind) = line.kind() {
            *requests.entry(kind).or_default() += 1;
        }
    }
    Ok(requests)
}

/// The number of requests that are made for pods.
pub fn of_pods(requests: &Requests) -> u64 {
    let of_the_node = |kind: &str| {
        let resource = kind.split(' ').nth(1).unwrap_or_default();
        OF_THE_NODE.contains(&resource)
    };
    requests.iter().filter(|(kind, _)| !of_the_node(kind)).map(|(_, count)| count).sum()
}

impl AuditLog {
    /// An audit log of a user in a directory.
    pub(super) fn of(user: &User, directory: &Path) -> Result<Self> {
        let policy = directory.join("audit-policy.yaml");
        let text = format!(
            "apiVersion: audit.k8s.io/v1\n\
             kind: Policy\n\
             omitStages: [RequestReceived]\n\
             rules:\n\
             - {{level: Metadata, users: [\"{}\"]}}\n\
             - {{level: None}}\n",
            user.name()
        );
        fs::write(&policy, text).context("write the audit policy")?;
        Ok(Self { path: directory.join("audit.log"), policy })
    }

    /// The API server's flags for it.
    pub(super) fn flags(&self) -> Vec<String> {
        vec![
            format!("--audit-policy-file={}", self.policy.display()),
            format!("--audit-log-path={}", self.path.display()),
        ]
    }

    /// Its current length, to count from here.
    pub(super) fn mark(&self) -> Result<u64> {
        match fs::metadata(&self.path) {
            Ok(metadata) => Ok(metadata.len()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(0),
            Err(error) => Err(error).context("inspect the audit log"),
        }
    }

    /// The requests since a mark.
    pub(super) fn since(&self, mark: u64) -> Result<Requests> {
        counted(&self.lines_since(mark)?)
    }

    /// The complete lines since a mark.
    pub(super) fn lines_since(&self, mark: u64) -> Result<String> {
        let mut file = fs::File::open(&self.path).context("open the audit log")?;
        file.seek(SeekFrom::Start(mark)).context("read the audit log")?;
        let mut text = String::new();
        file.read_to_string(&mut text).context("read the audit log")?;
        // The last line may be incomplete.
        text.truncate(text.rfind('\n').map_or(0, |end| end + 1));
        Ok(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = r#"{"stage":"ResponseStarted","verb":"watch","requestURI":"/api/v1/pods?watch=1","objectRef":{"resource":"pods"}}
{"stage":"ResponseComplete","verb":"watch","requestURI":"/api/v1/pods?watch=1","objectRef":{"resource":"pods"},"responseStatus":{"code":200}}
{"stage":"ResponseComplete","verb":"patch","requestURI":"/x","objectRef":{"resource":"pods","subresource":"status","name":"a"},"responseStatus":{"metadata":{},"code":200}}
{"stage":"ResponseComplete","verb":"patch","requestURI":"/x","objectRef":{"resource":"pods","subresource":"status","name":"b"},"responseStatus":{"code":200}}
{"stage":"ResponseComplete","verb":"get","requestURI":"/x","objectRef":{"resource":"pods","name":"b"},"responseStatus":{"code":404}}
{"stage":"ResponseComplete","verb":"update","requestURI":"/x","objectRef":{"resource":"leases","name":"n"},"responseStatus":{"code":200}}
{"stage":"ResponseComplete","verb":"patch","requestURI":"/x","objectRef":{"resource":"nodes","subresource":"status"},"responseStatus":{"code":200}}
{"stage":"ResponseComplete","verb":"get","requestURI":"/version?x","responseStatus":{"code":200}}
"#;

    #[test]
    fn requests_are_counted_by_kind_and_those_of_the_node_apart() {
        let requests = counted(LOG).unwrap();
        let expected = [
            ("get /version", 1),
            ("get pods (404)", 1),
            ("patch nodes/status", 1),
            ("patch pods/status", 2),
            ("update leases", 1),
            ("watch pods", 1),
        ];
        let expected = expected.map(|(kind, count)| (kind.to_owned(), count));
        assert_eq!(requests, Requests::from(expected));
        assert_eq!(of_pods(&requests), 5);
    }

    #[test]
    fn log_is_counted_from_a_mark_without_an_incomplete_line() {
        let directory = std::env::temp_dir().join(format!("audit-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let log = AuditLog::of(&User::node("n"), &directory).unwrap();
        assert_eq!(log.mark().unwrap(), 0);
        fs::write(&log.path, LOG).unwrap();
        let mark = log.mark().unwrap();
        assert!(log.since(mark).unwrap().is_empty());
        let more = LOG.lines().nth(2).unwrap();
        fs::write(&log.path, format!("{LOG}{more}\n{}", &more[..20])).unwrap();
        let counted = log.since(mark).unwrap();
        fs::remove_dir_all(&directory).unwrap();
        assert_eq!(counted, Requests::from([("patch pods/status".to_owned(), 1)]));
    }
}
