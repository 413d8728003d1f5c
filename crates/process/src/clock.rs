//! The system clock.

use jiff::Timestamp;
use model::ports::clock::WallClock;

/// The machine's clock.
#[derive(Debug, Clone, Copy)]
pub struct SystemClock;

impl WallClock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the clock behind the port")]
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }
}
