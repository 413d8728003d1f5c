//! Scenarios that run at the same time go from step to step together: none is measured while another still starts its
//! pods.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

/// Longer than the slowest step.
const PATIENCE: Duration = Duration::from_mins(30);

/// The error of players that end because another failed.
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
    /// The number of players that wait at the end of this step.
    waiting: usize,
    /// The number of completed steps.
    steps: usize,
    /// A player has failed.
    broken: bool,
}

impl Turn {
    /// A turn of this many scenarios.
    pub fn of(players: usize) -> Self {
        Self { players, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Joins a scenario; if it ends before [`Player::done`], the turn fails.
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
    /// Waits until all players have reached this step.
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

    /// The player has taken part in all steps.
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
    fn no_player_is_a_step_ahead_of_the_others() {
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
    fn dropped_player_ends_the_wait_of_the_others() {
        let turn = Turn::of(2);
        thread::scope(|scope| {
            let waiting = scope.spawn(|| turn.join().together().unwrap_err().to_string());
            drop(turn.join());
            assert_eq!(waiting.join().unwrap(), FOLLOWED);
        });
        turn.join().together().unwrap_err();
    }
}
