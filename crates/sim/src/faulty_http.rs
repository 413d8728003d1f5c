//! The HTTP port of an agent: servers are down, hung or slow, and the agent dies during requests.

use std::io;
use std::sync::Arc;

use async_trait::async_trait;
use model::ports::http::{Answer, Get, HttpError, HttpGet};
use podspec::Origin;
use testkit::http::MemoryHttp;
use tokio::time::{sleep, timeout};

use crate::history::Event;
use crate::life::Life;
use crate::outside::{FaultPoint, Outside};
use crate::plan::Fault;

/// The HTTP port of one agent.
#[derive(Debug)]
pub(crate) struct FaultyHttp {
    pub(crate) outside: Arc<Outside>,
    pub(crate) life: Arc<Life>,
    /// The servers.
    pub(crate) web: Arc<MemoryHttp>,
    /// The fault point of requests.
    pub(crate) point: FaultPoint,
}

impl FaultyHttp {
    async fn answer(&self, request: &Get) -> Result<Answer, HttpError> {
        let fault = self.outside.fault(self.point);
        match fault {
            Some(fault) => self.outside.say(format!("FAULT    {fault} on get {}", request.url)),
            None => self.outside.note("get"),
        }
        match fault {
            Some(Fault::Error(_)) => Err(failed("connect to", io::ErrorKind::ConnectionRefused)),
            Some(Fault::Refused(status)) => Ok(Answer { status, body: b"not now".to_vec() }),
            Some(Fault::Slow(time)) => {
                sleep(time).await;
                self.web.get(request).await
            }
            Some(Fault::Hang) => {
                // A request may take an hour; a hung server is restarted before that.
                self.outside.calm.up().await;
                Err(failed("read from", io::ErrorKind::ConnectionReset))
            }
            _ => self.web.get(request).await,
        }
    }
}

fn failed(step: &'static str, why: io::ErrorKind) -> HttpError {
    HttpError::Failed { step, server: "memory".to_owned(), source: io::Error::from(why).into() }
}

#[async_trait]
impl HttpGet for FaultyHttp {
    async fn get(&self, request: &Get) -> Result<Answer, HttpError> {
        if self.point == FaultPoint::PodWeb && !self.life.over.is_cancelled() {
            self.outside.say(format!("agent {}  get {}", self.life.number, request.url));
            self.outside.record(Event::PodHttpRequested);
        }
        let answer = timeout(request.timeout, self.answer(request));
        let answer = async { answer.await.unwrap_or(Err(HttpError::TooSlow(request.timeout))) };
        let answer = self.life.call("get", answer).await;
        let is_ok = answer.as_ref().is_ok_and(|answer| answer.status == 200);
        if is_ok && self.point == FaultPoint::Web {
            self.outside.record(Event::OriginRead(Origin::Url(request.url.clone())));
        }
        answer
    }
}
