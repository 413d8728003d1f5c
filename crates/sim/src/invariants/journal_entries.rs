//! What is on record of removals.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Invariant;
use crate::history::{Event, ObjectRef, Record};

/// For so long an agent may look for what its predecessor was removing.
const SETTLED: Duration = Duration::from_mins(3);

/// Whatever is gone was removed by the agent, and the journal says by which rule. What an agent was removing
/// when it died, the next one puts on record. Of what fails again as it failed before, nothing more is.
#[derive(Debug, Default)]
pub(super) struct JournalEntries {
    /// Removals under way, and by which rule.
    open: BTreeMap<ObjectRef, Vec<&'static str>>,
    /// What was noted down before it began and is not over, by the agent that lives and by those before it.
    noted: Removals,
    noted_before: Removals,
    /// Removals that were under way when their agent died, and that are not on record.
    owed: BTreeSet<ObjectRef>,
    /// What was to go, and how often: it may come back, and go late.
    recorded: BTreeMap<ObjectRef, usize>,
    /// What the agent that lives has on record as failed last.
    failed: BTreeSet<(ObjectRef, String)>,
    /// A removal that the agent has just heard the end of.
    answered: Option<ObjectRef>,
    /// Since when an agent lives.
    since: Option<Duration>,
}

/// Removals by what and by which rule, counted.
#[derive(Debug, Default)]
struct Removals(BTreeMap<(ObjectRef, String), usize>);

impl Removals {
    fn add(&mut self, object: &ObjectRef, rule: &str, count: usize) {
        *self.0.entry((object.clone(), rule.to_owned())).or_default() += count;
    }

    /// Takes one away; whether there was one.
    fn take(&mut self, object: &ObjectRef, rule: &str) -> bool {
        let count = self.0.get_mut(&(object.clone(), rule.to_owned()));
        let count = count.filter(|count| **count > 0);
        count.map(|count| *count -= 1).is_some()
    }

    fn has(&self, object: &ObjectRef, rule: &str) -> bool {
        self.0.get(&(object.clone(), rule.to_owned())).is_some_and(|count| *count > 0)
    }
}

impl JournalEntries {
    /// Ends a removal that is under way; whether there is one by such a rule.
    fn close(&mut self, object: &ObjectRef, is_it: impl Fn(&str) -> bool) -> bool {
        let Some(rules) = self.open.get_mut(object) else { return false };
        let Some(place) = rules.iter().position(|rule| is_it(rule)) else { return false };
        rules.remove(place);
        if rules.is_empty() {
            self.open.remove(object);
        }
        *self.recorded.entry(object.clone()).or_default() += 1;
        true
    }

    fn written(&mut self, object: &ObjectRef, rule: &str, failed: bool) -> Result<(), String> {
        if !self.close(object, |one| one == rule) {
            if !self.noted_before.take(object, rule) {
                return Err(format!("{object} is on record by {rule}, and nobody removed it so"));
            }
            *self.recorded.entry(object.clone()).or_default() += 1;
        }
        self.owed.remove(object);
        self.failed.retain(|(one, _)| one != object);
        if failed {
            self.failed.insert((object.clone(), rule.to_owned()));
        }
        Ok(())
    }

    /// A removal has ended, and nothing was written.
    fn unwritten(&mut self, object: &ObjectRef) -> Result<(), String> {
        let failed = std::mem::take(&mut self.failed);
        let failed_before = |rule: &str| failed.contains(&(object.clone(), rule.to_owned()));
        let is_known = self.close(object, failed_before);
        self.failed = failed;
        if is_known {
            Ok(())
        } else {
            Err(format!("{object} was removed, and nothing is on record"))
        }
    }

    fn gone(&mut self, object: &ObjectRef) -> Result<(), String> {
        let entries = self.recorded.get_mut(object).filter(|entries| **entries > 0);
        if let Some(entries) = entries {
            *entries -= 1;
        } else if !self.open.contains_key(object) && !self.owed.contains(object) {
            return Err(format!("{object} is gone, and nothing is on record"));
        }
        Ok(())
    }

    fn died(&mut self) {
        self.owed.extend(std::mem::take(&mut self.open).into_keys());
        for ((object, rule), count) in std::mem::take(&mut self.noted).0 {
            self.noted_before.add(&object, &rule, count);
        }
        self.failed.clear();
        self.since = None;
    }
}

impl Invariant for JournalEntries {
    fn sentence(&self) -> &'static str {
        "whatever is removed is on record, with the rule that said so"
    }

    fn read(&mut self, record: &Record) -> Result<(), String> {
        if let Some(object) = self.answered.take()
            && !matches!(&record.event, Event::EntryWritten(written, ..) if *written == object)
        {
            self.unwritten(&object)?;
        }
        if let (Some(since), Some(object)) = (self.since, self.owed.first())
            && record.at > since + SETTLED
        {
            return Err(format!(
                "{object} was being removed when an agent died, and is not on record"
            ));
        }
        match &record.event {
            Event::IntentWritten(object, rule) => self.noted.add(object, rule, 1),
            Event::IntentSettled(object, rule) => drop(self.noted.take(object, rule)),
            Event::RemovalBegan(object, rule) => {
                if !self.noted.has(object, rule) {
                    return Err(format!(
                        "{object} is removed by {rule}, and that is not noted down"
                    ));
                }
                self.open.entry(object.clone()).or_default().push(rule);
            }
            Event::RemovalEnded(object) => self.answered = Some(object.clone()),
            Event::EntryWritten(object, rule, failed) => {
                return self.written(object, rule, *failed);
            }
            Event::AgentDied => self.died(),
            Event::AgentStarted(_) => {
                if let Some(object) = self.open.keys().next() {
                    return Err(format!("{object} was being removed when the agent was stopped"));
                }
                self.failed.clear();
                self.since = Some(record.at);
            }
            Event::Gone(object) => return self.gone(object),
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "journal_entries_tests.rs"]
mod tests;
