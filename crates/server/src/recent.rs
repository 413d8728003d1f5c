//! A small cache of answers.

use tokio::time::Instant;

/// The most entries; beyond that, the one that expires first is replaced.
const MOST: usize = 64;

/// Answers by their questions, each until it expires.
#[derive(Debug)]
pub(crate) struct Recent<Q, A> {
    answers: Vec<(Q, A, Instant)>,
}

impl<Q, A> Default for Recent<Q, A> {
    fn default() -> Self {
        Self { answers: Vec::new() }
    }
}

impl<Q: PartialEq, A: Clone> Recent<Q, A> {
    /// The answer to a question, if one is stored and has not expired.
    pub(crate) fn get(&self, question: &Q, now: Instant) -> Option<A> {
        let mut valid = self.answers.iter().filter(|(_, _, until)| *until > now);
        valid.find(|(asked, _, _)| asked == question).map(|(_, answer, _)| answer.clone())
    }

    /// Stores an answer until a time.
    pub(crate) fn keep(&mut self, question: Q, answer: A, until: Instant, now: Instant) {
        self.answers.retain(|(asked, _, until)| *until > now && *asked != question);
        if until <= now {
            return;
        }
        if self.answers.len() >= MOST {
            let ends = self.answers.iter().enumerate().min_by_key(|(_, (_, _, until))| *until);
            if let Some((first, _)) = ends {
                self.answers.swap_remove(first);
            }
        }
        self.answers.push((question, answer, until));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn answers_expire_and_their_number_is_bounded() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let mut recent = Recent::default();
        recent.keep(0, "a", start + second, start);
        assert_eq!(recent.get(&0, start), Some("a"));
        assert_eq!(recent.get(&1, start), None);
        assert_eq!(recent.get(&0, start + second), None);
        recent.keep(0, "b", start + second * 2, start);
        assert_eq!(recent.get(&0, start), Some("b"));
        recent.keep(1, "c", start, start);
        assert_eq!(recent.get(&1, start), None, "expired at once");
        for question in 1..=MOST {
            recent.keep(question, "d", start + second * 9, start);
        }
        assert_eq!((recent.answers.len(), recent.get(&0, start)), (MOST, None));
    }
}
