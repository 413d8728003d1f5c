//! The contract of the port to the web.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail, ensure};
use model::ports::http::{Get, Headers, HttpError, HttpGet};

use super::{Play, Report};
use crate::http::Page;

/// What a case needs beside the port. Made anew for every case.
pub trait World: Debug + Send + Sync {
    /// Who asks.
    fn http(&self) -> Arc<dyn HttpGet>;

    /// The URL of a page on the world's server.
    fn url(&self, page: &str) -> String;

    /// A URL where nobody listens.
    fn nowhere(&self) -> String;

    /// Puts a page on the server.
    fn put(&self, page: &str, content: Page);

    /// The values of a header in all requests for a page.
    fn asked(&self, page: &str, header: &str) -> Vec<Vec<String>>;
}

/// A case of the contract.
#[derive(Debug, Clone, Copy)]
pub struct Case {
    /// What it says, in a sentence.
    pub name: &'static str,
    play: for<'a> fn(&'a dyn World) -> Play<'a>,
}

/// Runs all cases, each in a new world.
pub async fn run<W: World>(mut new_world: impl AsyncFnMut() -> W) -> Vec<Report> {
    let mut reports = Vec::new();
    for case in CASES {
        let world = new_world().await;
        reports.push(Report::of(case.name, (case.play)(&world).await));
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

async fn page_is_fetched(world: &dyn World) -> Result<()> {
    for body in [&b"text\n"[..], b"", &[0, 255, b'\r', b'\n'], &[b'x'; 1000]] {
        world.put("page", Page::ok(body));
        let answer = world.http().get(&get(world.url("page"))).await?;
        ensure!(answer.status == 200 && answer.body == body, "{answer:?}");
    }
    Ok(())
}

async fn every_status_code_is_returned(world: &dyn World) -> Result<()> {
    for status in [201, 304, 404, 500, 503] {
        let body = if status == 304 { "" } else { "sorry" };
        world.put("page", Page::Answer(status, body.into()));
        let answer = world.http().get(&get(world.url("page"))).await?;
        ensure!(answer.status == status && answer.body == body.as_bytes(), "{answer:?}");
    }
    Ok(())
}

async fn response_body_over_the_limit_is_refused(world: &dyn World) -> Result<()> {
    world.put("page", Page::ok(vec![b'x'; 1001]));
    match world.http().get(&get(world.url("page"))).await {
        Err(HttpError::TooLarge(1000)) => Ok(()),
        other => bail!("{other:?}"),
    }
}

async fn headers_are_sent(world: &dyn World) -> Result<()> {
    world.put("page", Page::ok("text"));
    let headers = Headers(vec![
        ("X-One".to_owned(), vec!["1".to_owned()]),
        ("X-Two".to_owned(), vec!["2".to_owned(), "zwei".to_owned()]),
    ]);
    world.http().get(&Get { headers, ..get(world.url("page")) }).await?;
    ensure!(world.asked("page", "X-One") == [["1"]], "{:?}", world.asked("page", "X-One"));
    ensure!(world.asked("page", "X-Two") == [["2", "zwei"]], "{:?}", world.asked("page", "X-Two"));
    Ok(())
}

async fn redirect_is_followed(world: &dyn World) -> Result<()> {
    world.put("old", Page::Redirect(world.url("new")));
    world.put("new", Page::ok("text"));
    let answer = world.http().get(&get(world.url("old"))).await?;
    ensure!(answer.status == 200 && answer.body == b"text", "{answer:?}");
    Ok(())
}

async fn redirect_loop_ends(world: &dyn World) -> Result<()> {
    world.put("one", Page::Redirect(world.url("other")));
    world.put("other", Page::Redirect(world.url("one")));
    match world.http().get(&get(world.url("one"))).await {
        Err(HttpError::TooManyRedirects(10)) => Ok(()),
        other => bail!("{other:?}"),
    }
}

async fn silence_ends(world: &dyn World) -> Result<()> {
    world.put("page", Page::Silence);
    let timeout = Duration::from_millis(50);
    match world.http().get(&Get { timeout, ..get(world.url("page")) }).await {
        Err(HttpError::TooSlow(time)) if time == timeout => Ok(()),
        other => bail!("{other:?}"),
    }
}

async fn truncated_response_is_an_error(world: &dyn World) -> Result<()> {
    world.put("page", Page::CutOff);
    match world.http().get(&get(world.url("page"))).await {
        Err(HttpError::CutOff { .. }) => Ok(()),
        other => bail!("{other:?}"),
    }
}

async fn unreachable_server_is_an_error(world: &dyn World) -> Result<()> {
    match world.http().get(&get(world.nowhere())).await {
        Err(HttpError::Failed { .. }) => Ok(()),
        other => bail!("{other:?}"),
    }
}

async fn invalid_url_is_refused(world: &dyn World) -> Result<()> {
    for url in ["", "page", "/page", "ftp://host/page"] {
        match world.http().get(&get(url.to_owned())).await {
            Err(HttpError::Url(_)) => {}
            other => bail!("{url:?}: {other:?}"),
        }
    }
    Ok(())
}
