//! The end of the machine's console output.

use std::io::Read;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// The number of kept bytes.
const KEPT: usize = 32 << 10;

/// The end of what was printed so far.
#[derive(Debug, Clone)]
pub(crate) struct Console(Arc<Mutex<Vec<u8>>>, Arc<AtomicBool>);

impl Console {
    /// Reads everything until its end, in a thread: writers are never blocked.
    pub(crate) fn read(mut from: impl Read + Send + 'static) -> Self {
        let console = Self(Arc::default(), Arc::default());
        let (kept, ended) = (Arc::clone(&console.0), Arc::clone(&console.1));
        thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(length @ 1..) = from.read(&mut buffer) {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.extend_from_slice(&buffer[..length]);
                let surplus = kept.len().saturating_sub(KEPT);
                kept.drain(..surplus);
            }
            ended.store(true, Ordering::Release);
        });
        console
    }

    /// The text once all of it is read, which takes a moment after the end of the machine; at most a while.
    pub(crate) fn last_text(&self) -> String {
        for _ in 0..100 {
            if self.1.load(Ordering::Acquire) {
                break;
            }
            thread::sleep(Duration::from_millis(20));
        }
        self.text()
    }

    pub(crate) fn text(&self) -> String {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&kept).replace('\r', "")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::time::Duration;

    #[test]
    fn console_keeps_its_end() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let console = Console::read(reader);
        writer.write_all(&vec![b'x'; 3 * KEPT]).unwrap();
        writer.write_all(b"end\r\n").unwrap();
        drop(writer);
        testbed::wait::until("everything is read", Duration::from_secs(10), || {
            let text = console.text();
            Ok(if text.ends_with("xend\n") { Ok(()) } else { Err(text.len().to_string()) })
        })
        .unwrap();
        assert_eq!(console.text().len(), KEPT - 1);
    }
}
