//! How long each test took when it last passed on this machine.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::pool::TestResult;

/// Where the times are kept, in the cache folder.
const FILE: &str = "test-times.json";

/// The expected time of a test that has not been run: more than most, so that it is not the last to start.
const UNKNOWN: f64 = 5.0;

#[derive(Debug, Default)]
pub(super) struct Times {
    seconds: BTreeMap<String, f64>,
    file: Option<PathBuf>,
}

impl Times {
    /// Reads the times; there are none on a new machine, or without a cache folder.
    pub(super) fn load() -> Result<Self> {
        let Some(cache) = std::env::var_os("FERROLET_CACHE") else { return Ok(Self::default()) };
        let file = PathBuf::from(cache).join(FILE);
        let seconds = match std::fs::read(&file) {
            // A truncated file costs only the order.
            Ok(text) => serde_json::from_slice(&text).unwrap_or_default(),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(error).with_context(|| format!("read {}", file.display())),
        };
        Ok(Self { seconds, file: Some(file) })
    }

    pub(super) fn expected(&self, test: &str) -> f64 {
        self.seconds.get(test).copied().unwrap_or(UNKNOWN)
    }

    #[cfg(test)]
    pub(super) fn set(&mut self, test: &str, seconds: f64) {
        self.seconds.insert(test.to_owned(), seconds);
    }

    pub(super) fn record(&mut self, results: &[TestResult]) {
        for result in results.iter().filter(|result| result.passed) {
            let millis = u32::try_from(result.time.as_millis()).unwrap_or(u32::MAX);
            self.seconds.insert(result.name.clone(), f64::from(millis) / 1000.0);
        }
    }

    pub(super) fn save(&self) -> Result<()> {
        let Some(file) = &self.file else { return Ok(()) };
        let text = serde_json::to_vec(&self.seconds).context("write times")?;
        let new = file.with_extension(std::process::id().to_string());
        std::fs::write(&new, text)
            .and_then(|()| std::fs::rename(&new, file))
            .with_context(|| format!("write {}", file.display()))
    }
}
