//! A call of an agent that may go wrong, and over which it may die.

use tokio::time::sleep;

use crate::life::Life;
use crate::outside::{Asked, Outside};
use crate::plan::Fault;

/// Makes a call: well, slowly, not at all or, with late success, so that it was made and is said to have failed.
pub(crate) async fn faulty<T, E>(
    (outside, life): (&Outside, &Life),
    (asked, what): (Asked, &str),
    broken: impl Fn() -> E,
    work: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    let work = async {
        let fault = outside.fault(asked);
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
