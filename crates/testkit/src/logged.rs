//! Collects log messages.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use tracing::subscriber::DefaultGuard;
use tracing_subscriber::fmt::MakeWriter;

/// Collects the log messages of this thread until it is dropped.
#[derive(Debug)]
pub struct Logged {
    text: Text,
    _guard: DefaultGuard,
}

#[derive(Debug, Clone, Default)]
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
    /// Starts collecting.
    #[expect(clippy::new_without_default, reason = "it redirects the log messages of this thread")]
    pub fn new() -> Self {
        let text = Text::default();
        let subscriber =
            tracing_subscriber::fmt().with_writer(text.clone()).without_time().finish();
        Self { text, _guard: tracing::subscriber::set_default(subscriber) }
    }

    /// The warnings since the last call.
    pub fn warnings(&self) -> Vec<String> {
        let text = self.text();
        text.lines().filter(|line| line.contains("WARN")).map(str::to_owned).collect()
    }

    /// The number of warnings since the last call that contain this text.
    pub fn warnings_of(&self, words: &str) -> usize {
        self.warnings().iter().filter(|line| line.contains(words)).count()
    }

    /// All log messages since the last call.
    pub fn text(&self) -> String {
        let mut text = self.text.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&std::mem::take(&mut *text)).into_owned()
    }
}
