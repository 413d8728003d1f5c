//! Reports of panics, recorded for tests.

use std::sync::{Arc, Mutex, PoisonError};

use model::panics::{CaughtPanic, PanicGuard, PanicReports, PanicStep, PanicSubject};

/// Records every report, in order.
#[derive(Debug, Default)]
pub struct KeptPanics {
    reports: Mutex<Vec<(PanicStep, String)>>,
}

impl KeptPanics {
    /// A recorder and a guard that reports to it.
    pub fn guard() -> (Arc<Self>, PanicGuard) {
        let kept = Arc::<Self>::default();
        let guard = PanicGuard::new(Arc::clone(&kept) as _);
        (kept, guard)
    }

    /// The reports so far: the step, and the UID of the pod or the object.
    pub fn all(&self) -> Vec<(PanicStep, String)> {
        self.reports.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl PanicReports for KeptPanics {
    fn report(&self, panic: &CaughtPanic, of: PanicSubject<'_>) {
        let subject = match of {
            PanicSubject::Pod(uid, _) => uid.to_string(),
            PanicSubject::Object(object) => object.to_owned(),
        };
        let mut reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        reports.push((panic.step, subject));
    }
}
