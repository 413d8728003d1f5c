//! A call of an agent that may fail, and over which the agent may die.

use tokio::time::sleep;

use crate::life::Life;
use crate::outside::{FaultPoint, Outside};
use crate::plan::Fault;

/// A call about to be made.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attempt<'a, F> {
    /// The kind of call, by which faults find it.
    pub(crate) point: FaultPoint,
    /// The call in words.
    pub(crate) what: &'a str,
    /// Makes the error of a call that fails.
    pub(crate) broken: F,
}

/// Makes a call: well, slowly, not at all or, with late success, so that it took effect and reports failure.
pub(crate) async fn faulty<T, E>(
    outside: &Outside,
    life: &Life,
    attempt: Attempt<'_, impl Fn() -> E>,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let Attempt { point, what, broken } = attempt;
    let work = async {
        let fault = outside.fault(point);
        match fault {
            Some(fault) => outside.say(format!("FAULT    {fault} on {what}")),
            None => outside.note(what),
        }
        match fault {
            Some(Fault::Error(_)) => Err(broken()),
            Some(Fault::LateSuccess) => {
                drop(work.await);
                Err(broken())
            }
            Some(Fault::Slow(time)) => {
                sleep(time).await;
                work.await
            }
            _ => work.await,
        }
    };
    life.call(what, work).await
}
