//! Incidents, recorded for tests.

use std::sync::{Mutex, PoisonError};

use model::ports::incidents::{Incident, IncidentRecord};

/// Records every incident, in order.
#[derive(Debug, Default)]
pub struct KeptIncidents(Mutex<Vec<Incident>>);

impl KeptIncidents {
    /// The incidents so far.
    pub fn all(&self) -> Vec<Incident> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Each incident as one line: kind, container, rule, numbers.
    pub fn lines(&self) -> Vec<String> {
        let line = |incident: Incident| {
            let Incident { kind, container, rule, detail, .. } = incident;
            format!("{} {container} {rule}: {detail}", kind.as_str())
        };
        self.all().into_iter().map(line).collect()
    }
}

impl IncidentRecord for KeptIncidents {
    fn record_incident(&self, incident: Incident) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(incident);
    }
}
