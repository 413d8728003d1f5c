//! A call of an agent that may fail, or during which the agent may die.

use tokio::time::sleep;

use crate::life::Life;
use crate::outside::{FaultPoint, Outside};
use crate::plan::Fault;

/// A call before its execution.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Attempt<'a, F> {
    /// The fault point of the call.
    pub(crate) point: FaultPoint,
    /// The call as text.
    pub(crate) what: &'a str,
    /// Creates the error of a failed call.
    pub(crate) broken: F,
}

/// Executes a call: normally, slowly, not at all or, for a late success, with its effect and an error.
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
