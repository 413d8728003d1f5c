//! Answers that are believed for a while.

use tokio::time::Instant;

/// How many are kept; beyond that, the one that ends first goes.
const MOST: usize = 64;

/// A few answers by their questions, each until its time is over.
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
    /// The answer to a question, if there is one that still counts.
    pub(crate) fn get(&self, question: &Q, now: Instant) -> Option<A> {
        let mut counting = self.answers.iter().filter(|(_, _, until)| *until > now);
        counting.find(|(asked, _, _)| asked == question).map(|(_, answer, _)| answer.clone())
    }

    /// Keeps an answer until then.
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
    async fn an_answer_counts_until_its_time_is_over_and_there_are_few() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let mut recent = Recent::default();
        recent.keep(0, "a", start + second, start);
        assert_eq!(recent.get(&0, start), Some("a"));
        assert_eq!(recent.get(&1, start), None);
        assert_eq!(recent.get(&0, start + second), None);
        recent.keep(0, "b", start + second * 2, start);
        assert_eq!(recent.get(&0, start), Some("b"));
        recent.keep(1, "c", start, start);
        assert_eq!(recent.get(&1, start), None, "no time at all");
        for question in 1..=MOST {
            recent.keep(question, "d", start + second * 9, start);
        }
        assert_eq!((recent.answers.len(), recent.get(&0, start)), (MOST, None));
    }
}
