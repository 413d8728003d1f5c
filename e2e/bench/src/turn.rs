//! Scenarios that are played at the same time go from step to step together: nothing is measured in
//! one while another still gets its pods running.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

/// Longer than the slowest may take for a step.
const PATIENCE: Duration = Duration::from_mins(30);

/// What those say who end because somebody else did.
pub const FOLLOWED: &str = "another scenario failed";

/// The steps of one turn of an agent in all scenarios.
#[derive(Debug)]
pub struct Turn {
    players: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// How many wait at the end of this step.
    waiting: usize,
    /// Steps that are over.
    steps: usize,
    /// Somebody will not come any more.
    broken: bool,
}

impl Turn {
    /// A turn of so many scenarios.
    pub fn of(players: usize) -> Self {
        Self { players, state: Mutex::default(), changed: Condvar::new() }
    }

    /// One of the scenarios joins; if it leaves before it says that it is done, the turn is over.
    pub fn join(&self) -> Player<'_> {
        Player { turn: self, done: false }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A scenario in a turn.
#[derive(Debug)]
pub struct Player<'a> {
    turn: &'a Turn,
    done: bool,
}

impl Player<'_> {
    /// Waits until all have come as far as this.
    pub fn together(&self) -> Result<()> {
        let (end, mut state) = (Instant::now() + PATIENCE, self.turn.state());
        let step = state.steps;
        state.waiting += 1;
        if state.waiting == self.turn.players && !state.broken {
            state.waiting = 0;
            state.steps += 1;
            self.turn.changed.notify_all();
        }
        while state.steps == step && !state.broken {
            let left = end.saturating_duration_since(Instant::now());
            ensure!(!left.is_zero(), "the other scenarios take longer than {PATIENCE:?}");
            let waited = self.turn.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        ensure!(state.steps > step, FOLLOWED);
        Ok(())
    }

    /// It has taken part in all steps.
    pub fn done(mut self) {
        self.done = true;
    }
}

impl Drop for Player<'_> {
    fn drop(&mut self) {
        if !self.done {
            self.turn.state().broken = true;
            self.turn.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn no_player_is_a_step_ahead() {
        let (turn, reached) = (Turn::of(3), AtomicUsize::new(0));
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    let player = turn.join();
                    for step in 1..=50 {
                        reached.fetch_add(1, Ordering::SeqCst);
                        player.together().unwrap();
                        assert!(reached.load(Ordering::SeqCst) >= 3 * step);
                    }
                    player.done();
                });
            }
        });
        assert_eq!(reached.load(Ordering::SeqCst), 150);
    }

    #[test]
    fn player_that_leaves_early_ends_the_wait_of_the_others() {
        let turn = Turn::of(2);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| turn.join().together().unwrap_err().to_string());
            drop(turn.join());
            assert_eq!(waiting.join().unwrap(), FOLLOWED);
        });
        turn.join().together().unwrap_err();
    }
}
