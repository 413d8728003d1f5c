//! Lasting problems: logged once, and not at every check.

use std::error::Error;

use model::chain::Chain;

/// The last reported problem.
#[derive(Debug, Default)]
pub(super) struct Problem {
    last_text: Option<String>,
}

impl Problem {
    /// Whether this problem was not reported yet; records it as reported.
    pub(super) fn is_new(&mut self, error: &(dyn Error + 'static)) -> bool {
        let text = Chain(error).to_string();
        let is_new = self.last_text.as_ref() != Some(&text);
        self.last_text = Some(text);
        is_new
    }

    /// The current problem, if any.
    pub(super) fn text(&self) -> Option<&str> {
        self.last_text.as_deref()
    }

    /// Clears the problem. Returns whether there was one.
    pub(super) fn clear(&mut self) -> bool {
        self.last_text.take().is_some()
    }
}
