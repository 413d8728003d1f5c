//! HTTP servers in memory.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use model::ports::http::{Answer, Get, Headers, HttpError, HttpGet};
use tokio::time::timeout;

/// The response at a URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Page {
    /// A response with this status and body.
    Answer(u16, Vec<u8>),
    /// A redirect to another URL.
    Redirect(String),
    /// A server that accepts the request and never answers.
    Silence,
    /// A server that breaks the connection within the response.
    CutOff,
    /// A server without TLS at an https URL.
    NotSecure,
}

impl Page {
    /// A response with status 200.
    pub fn ok(body: impl Into<Vec<u8>>) -> Self {
        Self::Answer(200, body.into())
    }
}

/// Pages by URL. All other URLs refuse the connection.
#[derive(Debug, Default)]
pub struct MemoryHttp {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    pages: BTreeMap<String, Page>,
    requests: Vec<(String, Headers)>,
}

impl MemoryHttp {
    /// Puts a page at a URL.
    pub fn put(&self, url: impl Into<String>, page: Page) {
        self.state().pages.insert(url.into(), page);
    }

    /// Removes the server of a URL.
    pub fn remove(&self, url: &str) {
        self.state().pages.remove(url);
    }

    /// The headers of all requests for a URL.
    pub fn request_headers(&self, url: &str) -> Vec<Headers> {
        let state = self.state();
        let requests = state.requests.iter().filter(|(requested, _)| requested == url);
        requests.map(|(_, headers)| headers.clone()).collect()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn follow(&self, request: &Get) -> Result<Answer, HttpError> {
        const MOST: usize = 10;
        let mut url = request.url.clone();
        for _ in 0..MOST {
            let page = {
                let mut state = self.state();
                state.requests.push((url.clone(), request.headers.clone()));
                state.pages.get(&url).cloned()
            };
            match page {
                None => {
                    let source = std::io::Error::from(std::io::ErrorKind::ConnectionRefused);
                    let (step, server) = ("connect to", "memory".to_owned());
                    return Err(HttpError::Failed { step, server, source: source.into() });
                }
                Some(Page::Silence) => std::future::pending().await,
                Some(Page::CutOff) => {
                    let source = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
                    let server = "memory".to_owned();
                    return Err(HttpError::CutOff { server, source: source.into() });
                }
                Some(Page::NotSecure) => return Err(HttpError::NotSecure),
                Some(Page::Redirect(next)) => url = next,
                Some(Page::Answer(_, body)) if body.len() as u64 > request.limit => {
                    return Err(HttpError::TooLarge(request.limit));
                }
                Some(Page::Answer(status, body)) => return Ok(Answer { status, body }),
            }
        }
        Err(HttpError::TooManyRedirects(MOST))
    }
}

#[async_trait]
impl HttpGet for MemoryHttp {
    async fn get(&self, request: &Get) -> Result<Answer, HttpError> {
        if !request.url.starts_with("http://") && !request.url.starts_with("https://") {
            return Err(HttpError::Url("it must begin with http:// or https://"));
        }
        let answer = timeout(request.timeout, self.follow(request)).await;
        answer.unwrap_or(Err(HttpError::TooSlow(request.timeout)))
    }
}
