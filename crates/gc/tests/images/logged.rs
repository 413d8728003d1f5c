//! What is logged.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tracing::subscriber::DefaultGuard;
use tracing_subscriber::fmt::MakeWriter;

/// Collects what this thread logs, until it is dropped.
pub(crate) struct Logged {
    text: Text,
    _guard: DefaultGuard,
}

#[derive(Clone, Default)]
struct Text(Arc<Mutex<Vec<u8>>>);

impl io::Write for Text {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Text {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

impl Logged {
    pub(crate) fn new() -> Self {
        let text = Text::default();
        let subscriber =
            tracing_subscriber::fmt().with_writer(text.clone()).without_time().finish();
        Self { text, _guard: tracing::subscriber::set_default(subscriber) }
    }

    /// How many warnings since the last time have these words.
    pub(crate) fn warnings(&self, words: &str) -> usize {
        let bytes = std::mem::take(&mut *self.text.0.lock().unwrap());
        let text = String::from_utf8(bytes).unwrap();
        text.lines().filter(|line| line.contains("WARN") && line.contains(words)).count()
    }
}
