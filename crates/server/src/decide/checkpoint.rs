//! The query and the archive of a checkpoint.

use jiff::Timestamp;
use model::ids::PodName;

/// The timeout of a checkpoint request in seconds, 0 if there is none; of several the last one counts. `None` if it is
/// not a number.
pub fn checkpoint_timeout(query: Option<&str>) -> Option<i64> {
    let parameters = form_urlencoded::parse(query.unwrap_or_default().as_bytes());
    let timeout = parameters.filter(|(name, _)| name == "timeout").last();
    timeout.map_or(Some(0), |(_, value)| value.parse().ok())
}

/// The file name of the archive.
pub fn checkpoint_name(pod: &PodName, container: &str, now: Timestamp) -> String {
    let PodName { namespace, name } = pod;
    let time = now.strftime("%Y-%m-%dT%H:%M:%SZ");
    format!("checkpoint-{name}_{namespace}-{container}-{time}.tar")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_timeout_is_used() {
        let rows = [
            (None, Some(0)),
            (Some("x=1"), Some(0)),
            (Some("timeout=5&timeout=7"), Some(7)),
            (Some("timeout=7&timeout=x"), None),
            (Some("timeout="), None),
            (Some("timeout=-1"), Some(-1)),
        ];
        for (query, expected) in rows {
            assert_eq!(checkpoint_timeout(query), expected, "{query:?}");
        }
    }

    #[test]
    fn archive_is_named_after_the_container_and_the_time() {
        let name = checkpoint_name(&PodName::new("shop", "web"), "main", Timestamp::UNIX_EPOCH);
        assert_eq!(name, "checkpoint-web_shop-main-1970-01-01T00:00:00Z.tar");
    }
}
