//! Programs in memory.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use model::ports::programs::{ProgramError, ProgramRun, Programs};
use tokio::time::sleep;

/// How a program ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProgramScript {
    /// It prints this.
    Prints(String),
    /// It prints this after some time.
    PrintsAfter(Duration, String),
    /// It fails.
    Fails,
    /// It never ends.
    Hangs,
}

/// Programs by their path. A run of any other fails.
#[derive(Debug, Default)]
pub struct MemoryPrograms {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    scripts: BTreeMap<PathBuf, ProgramScript>,
    runs: Vec<ProgramRun>,
}

impl MemoryPrograms {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets how a program ends.
    pub fn set(&self, path: impl Into<PathBuf>, script: ProgramScript) {
        self.state().scripts.insert(path.into(), script);
    }

    /// All runs so far.
    pub fn runs(&self) -> Vec<ProgramRun> {
        self.state().runs.clone()
    }
}

#[async_trait]
impl Programs for MemoryPrograms {
    async fn run(&self, run: ProgramRun) -> Result<Vec<u8>, ProgramError> {
        let script = {
            let mut state = self.state();
            state.runs.push(run.clone());
            state.scripts.get(&run.path).cloned()
        };
        let path = run.path;
        let printed = |text: String| {
            let longest = run.longest_output;
            let is_short = text.len() <= longest;
            let error = ProgramError::TooMuch { path: path.clone(), longest };
            is_short.then(|| text.into_bytes()).ok_or(error)
        };
        match script {
            Some(ProgramScript::Prints(text)) => printed(text),
            Some(ProgramScript::PrintsAfter(time, text)) => {
                sleep(time).await;
                printed(text)
            }
            Some(ProgramScript::Fails) => {
                Err(ProgramError::Failed { path, status: "exit status: 1".to_owned() })
            }
            Some(ProgramScript::Hangs) => {
                sleep(run.limit).await;
                Err(ProgramError::TooSlow { path, limit: run.limit })
            }
            None => Err(ProgramError::Run { path, source: io::ErrorKind::NotFound.into() }),
        }
    }
}
