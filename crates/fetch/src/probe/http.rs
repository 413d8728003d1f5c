//! HTTP probes.

use model::ports::probes::HttpProbe;
use model::probe::{ProbeOutput, ProbeVerdict};
use tokio::time::{Instant, timeout_at};

use super::dial::Dialer;
use super::http_connection::{Reply, exchange};
use super::http_request::{Get, escaped, url};
use super::{failure, success};
use crate::target::Target;
use crate::tls::Tls;

/// The rest of a longer body is not read.
const MOST_BODY: usize = 10 * 1024;

const MOST_REQUESTS: usize = 10;

const NO_HEADERS: &str =
    "context deadline exceeded (Client.Timeout exceeded while awaiting headers)";

const NO_BODY: &str =
    "context deadline exceeded (Client.Timeout or context cancellation while reading body)";

/// Sends a GET request and judges the response. A body that cannot be read is an error, not a verdict.
pub(super) async fn probe(
    dialer: &Dialer,
    tls: &Tls,
    probe: &HttpProbe,
    deadline: Instant,
) -> Result<ProbeOutput, String> {
    let client = Client { dialer, tls, deadline };
    let mut reply = match client.follow(probe).await {
        Ok(reply) => reply,
        Err(cause) => return Ok(failure(cause)),
    };
    let body = timeout_at(deadline, reply.body(MOST_BODY)).await;
    let body = body.unwrap_or_else(|_| Err(NO_BODY.to_owned()))?;
    Ok(verdict(reply.status(), &body))
}

/// The verdict on a response. Only a redirect that is not followed shows its body, as upstream's
/// (kubernetes#99425).
fn verdict(status: u16, body: &[u8]) -> ProbeOutput {
    match status {
        200..300 => success(""),
        300..400 => {
            let body = String::from_utf8_lossy(body);
            let output = format!("Probe terminated redirects, Response body: {body}");
            ProbeOutput { verdict: ProbeVerdict::Warning, output }
        }
        _ => failure(format!("HTTP probe failed with statuscode: {status}")),
    }
}

#[derive(Debug, Clone, Copy)]
struct Client<'a> {
    dialer: &'a Dialer,
    tls: &'a Tls,
    deadline: Instant,
}

impl Client<'_> {
    /// The response after redirects within the first host. The error is the complete message.
    async fn follow(self, probe: &HttpProbe) -> Result<Reply, String> {
        let failed = |url: &str, cause: &str| format!("Get \"{url}\": {cause}");
        let first = Target::parse(&escaped(probe.url.as_bytes()));
        let first = first.map_err(|error| failed(&probe.url, &error.to_string()))?;
        let request = Get::new(first.clone(), &probe.headers);
        let mut request = request.map_err(|cause| failed(&url(&first), &cause))?;
        for sent in 1.. {
            let reply = self.send(&request).await;
            let reply = reply.map_err(|cause| failed(&url(&request.target), &cause))?;
            let Some(location) = reply.location() else { return Ok(reply) };
            let next = request.target.join(&location).map_err(|_| {
                let cause = format!("failed to parse Location header \"{location}\"");
                failed(&url(&request.target), &cause)
            })?;
            if !next.has_host_of(&first) {
                return Ok(reply);
            }
            if sent >= MOST_REQUESTS {
                // Go's client names the location here, not the URL that it leads to.
                return Err(failed(&location, "stopped after 10 redirects"));
            }
            request = request.redirected(next, &location);
        }
        unreachable!("the loop ends with a response or too many redirects")
    }

    async fn send(self, request: &Get) -> Result<Reply, String> {
        let reply = exchange(self.dialer, self.tls, request, self.deadline);
        match timeout_at(self.deadline, reply).await {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(cause)) if Instant::now() < self.deadline => Err(cause),
            _ => Err(NO_HEADERS.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdict_follows_the_status_and_hides_the_body() {
        let redirect = "Probe terminated redirects, Response body: secret";
        let rows = [
            (101, ProbeVerdict::Failure, "HTTP probe failed with statuscode: 101"),
            (200, ProbeVerdict::Success, ""),
            (299, ProbeVerdict::Success, ""),
            (300, ProbeVerdict::Warning, redirect),
            (399, ProbeVerdict::Warning, redirect),
            (400, ProbeVerdict::Failure, "HTTP probe failed with statuscode: 400"),
            (503, ProbeVerdict::Failure, "HTTP probe failed with statuscode: 503"),
        ];
        for (status, expected, output) in rows {
            let output = output.to_owned();
            assert_eq!(verdict(status, b"secret"), ProbeOutput { verdict: expected, output });
        }
    }
}
