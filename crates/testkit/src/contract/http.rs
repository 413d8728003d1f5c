//! The contract of the HTTP port.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use model::ports::http::{Get, Headers, HttpError, HttpGet};

use super::{Play, Report};
use crate::http::Page;

/// The environment of a case, created for each one.
pub trait Harness: Debug + Send + Sync {
    /// The client under test.
    fn http(&self) -> Arc<dyn HttpGet>;

    /// The URL of a page on the harness's server.
    fn url(&self, page: &str) -> String;

    /// A URL without a server.
    fn nowhere(&self) -> String;

    /// Adds a page to the server.
    fn put(&self, page: &str, content: Page);

    /// The values of a header in all requests for a page.
    fn request_headers(&self, page: &str, header: &str) -> Vec<Vec<String>>;
}

/// A case of the contract.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// Its name.
    pub name: &'static str,
    play: for<'a> fn(&'a dyn Harness) -> Play<'a>,
}

/// Runs all cases, each in a new harness.
pub async fn run<W: Harness>(mut new_harness: impl AsyncFnMut() -> W) -> Vec<Report> {
    let mut reports = Vec::new();
    for case in CASES {
        let harness = new_harness().await;
        reports.push(Report::of(case.name, (case.play)(&harness).await));
    }
    reports
}

cases! {
    page_is_fetched
    every_status_code_is_returned
    response_body_over_the_limit_is_refused
    headers_are_sent
    redirect_is_followed
    redirect_loop_ends
    silence_ends
    truncated_response_is_an_error
    unreachable_server_is_an_error
    invalid_url_is_refused
}

fn get(url: String) -> Get {
    Get { url, headers: Headers::default(), limit: 1000, timeout: Duration::from_secs(10) }
}

async fn page_is_fetched(harness: &dyn Harness) -> Result<()> {
    for body in [&b"text\n"[..], b"", &[0, 255, b'\r', b'\n'], &[b'x'; 1000]] {
        harness.put("page", Page::ok(body));
        let answer = harness.http().get(&get(harness.url("page"))).await?;
        ensure!(answer.status == 200 && answer.body == body, "{answer:?}");
    }
    Ok(())
}

async fn every_status_code_is_returned(harness: &dyn Harness) -> Result<()> {
    for status in [201, 304, 404, 500, 503] {
        let body = if status == 304 { "" } else { "sorry" };
        harness.put("page", Page::Answer(status, body.into()));
        let answer = harness.http().get(&get(harness.url("page"))).await?;
        ensure!(answer.status == status && answer.body == body.as_bytes(), "{answer:?}");
    }
    Ok(())
}

async fn response_body_over_the_limit_is_refused(harness: &dyn Harness) -> Result<()> {
    harness.put("page", Page::ok(vec![b'x'; 1001]));
    match harness.http().get(&get(harness.url("page"))).await {
        Err(HttpError::TooLarge(1000)) => Ok(()),
        other => bail!("{other:?}"),
    }
}

async fn headers_are_sent(harness: &dyn Harness) -> Result<()> {
    harness.put("page", Page::ok("text"));
    let headers = Headers(vec![
        ("X-One".to_owned(), vec!["1".to_owned()]),
        ("X-Two".to_owned(), vec!["2".to_owned(), "zwei".to_owned()]),
    ]);
    harness.http().get(&Get { headers, ..get(harness.url("page")) }).await?;
    ensure!(
        harness.request_headers("page", "X-One") == [["1"]],
        "{:?}",
        harness.request_headers("page", "X-One")
    );
    ensure!(
        harness.request_headers("page", "X-Two") == [["2", "zwei"]],
        "{:?}",
        harness.request_headers("page", "X-Two")
    );
    Ok(())
}

async fn redirect_is_followed(harness: &dyn Harness) -> Result<()> {
    harness.put("old", Page::Redirect(harness.url("new")));
    harness.put("new", Page::ok("text"));
    let answer = harness.http().get(&get(harness.url("old"))).await?;
    ensure!(answer.status == 200 && answer.body == b"text", "{answer:?}");
    Ok(())
}

async fn redirect_loop_ends(harness: &dyn Harness) -> Result<()> {
    harness.put("one", Page::Redirect(harness.url("other")));
    harness.put("other", Page::Redirect(harness.url("one")));
    match harness.http().get(&get(harness.url("one"))).await {
        Err(HttpError::TooManyRedirects(10)) => Ok(()),
        other => bail!("{other:?}"),
    }
}

async fn silence_ends(harness: &dyn Harness) -> Result<()> {
    harness.put("page", Page::Silence);
    let timeout = Duration::from_millis(50);
    match harness.http().get(&Get { timeout, ..get(harness.url("page")) }).await {
        Err(HttpError::TooSlow(time)) if time == timeout => Ok(()),
        other => bail!("{other:?}"),
    }
}

async fn truncated_response_is_an_error(harness: &dyn Harness) -> Result<()> {
    harness.put("page", Page::CutOff);
    match harness.http().get(&get(harness.url("page"))).await {
        Err(HttpError::CutOff { .. }) => Ok(()),
        other => bail!("{other:?}"),
    }
}

async fn unreachable_server_is_an_error(harness: &dyn Harness) -> Result<()> {
    match harness.http().get(&get(harness.nowhere())).await {
        Err(HttpError::Failed { .. }) => Ok(()),
        other => bail!("{other:?}"),
    }
}

async fn invalid_url_is_refused(harness: &dyn Harness) -> Result<()> {
    for url in ["", "page", "/page", "ftp://host/page"] {
        match harness.http().get(&get(url.to_owned())).await {
            Err(HttpError::Url(_)) => {}
            other => bail!("{url:?}: {other:?}"),
        }
    }
    Ok(())
}
