//! An interceptor that ends an agent before or after the n-th of its effects.
//!
//! Calls that change something count as effects; reads do not. The test defines how the agent ends: the end of a
//! process, or of all tasks of an agent in this one.

use std::any::Any;
use std::fmt::Debug;
use std::sync::atomic::{AtomicUsize, Ordering};

use anyhow::{Context as _, bail};
use async_trait::async_trait;
use model::intercept::{Call, Interceptor, Kind, Port};

/// When an agent crashes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moment {
    /// Before a change, counted from 1.
    Before(usize),
    /// After it.
    After(usize),
}

impl std::fmt::Display for Moment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Before(effect) => write!(f, "before:{effect}"),
            Self::After(effect) => write!(f, "after:{effect}"),
        }
    }
}

impl std::str::FromStr for Moment {
    type Err = anyhow::Error;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (side, effect) =
            text.split_once(':').context("invalid crash point: want before:N or after:N")?;
        let effect = effect.parse().with_context(|| format!("{effect:?} is no number"))?;
        match side {
            "before" => Ok(Self::Before(effect)),
            "after" => Ok(Self::After(effect)),
            _ => bail!("{side:?} is neither before nor after"),
        }
    }
}

/// How an agent is killed.
#[async_trait]
pub trait Death: Debug + Send + Sync {
    /// Ends the agent; never returns. Can be called again by tasks that have not ended yet.
    async fn die(&self);
    /// Whether the agent is dead already, so that none of its changes may happen any more.
    fn is_over(&self) -> bool;
}

/// Counts the changes of an agent through all its ports, and ends it at one of them.
#[derive(Debug)]
pub struct CrashPoint {
    effects: AtomicUsize,
    moment: Option<Moment>,
    death: Box<dyn Death>,
}

impl CrashPoint {
    /// A crash point, or none.
    pub fn new(moment: Option<Moment>, death: impl Death + 'static) -> Self {
        Self { effects: AtomicUsize::new(0), moment, death: Box::new(death) }
    }

    async fn end_at(&self, moment: Moment) {
        if self.death.is_over() || self.moment == Some(moment) {
            self.death.die().await;
        }
    }
}

impl<P: Port + ?Sized> Interceptor<P> for CrashPoint {
    async fn around<T: Any + Send>(
        &self,
        call: &Call<'_>,
        run: impl Future<Output = Result<T, P::Error>> + Send,
    ) -> Result<T, P::Error> {
        if call.kind == Kind::Read {
            return run.await;
        }
        let number = self.effects.fetch_add(1, Ordering::SeqCst) + 1;
        self.end_at(Moment::Before(number)).await;
        let result = run.await;
        self.end_at(Moment::After(number)).await;
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crash_point_round_trips_through_text() {
        for moment in [Moment::Before(1), Moment::After(12)] {
            assert_eq!(moment.to_string().parse::<Moment>().unwrap(), moment);
        }
        for text in ["", "before", "before:x", "during:1"] {
            text.parse::<Moment>().unwrap_err();
        }
    }
}
