//! Problems that last: said once, and not every time somebody looks.

use std::error::Error;

use model::chain::Chain;

/// What was said about one thing last.
#[derive(Debug, Default)]
pub(super) struct Problem {
    said: Option<String>,
}

impl Problem {
    /// Whether this has not been said yet. From now on it has.
    pub(super) fn is_news(&mut self, error: &(dyn Error + 'static)) -> bool {
        let text = Chain(error).to_string();
        let is_news = self.said.as_ref() != Some(&text);
        self.said = Some(text);
        is_news
    }

    /// What is wrong now, if anything.
    pub(super) fn text(&self) -> Option<&str> {
        self.said.as_deref()
    }

    /// It is over. Whether there was any.
    pub(super) fn is_over(&mut self) -> bool {
        self.said.take().is_some()
    }
}
