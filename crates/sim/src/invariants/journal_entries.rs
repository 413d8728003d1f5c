//! Journal entries of removals.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Invariant;
use crate::history::{Event, ObjectRef, Record};

/// How long an agent may look for the removals in progress of its predecessor.
const SETTLED: Duration = Duration::from_mins(3);

/// Every removed object was removed by the agent, and the journal has the rule. A removal in progress at the
/// death of an agent is recorded by the next one. A removal that fails again with the same error is not
/// recorded again.
#[derive(Debug, Default)]
pub(super) struct JournalEntries {
    /// Removals in progress, with their rules.
    open: BTreeMap<ObjectRef, Vec<&'static str>>,
    /// Intents that are recorded and not settled, of the current agent and of those before it.
    noted: Removals,
    noted_before: Removals,
    /// Removals in progress at the death of their agent without an entry.
    owed: BTreeSet<ObjectRef>,
    /// Requested removals, counted: an object may come back, and be removed late.
    recorded: BTreeMap<ObjectRef, usize>,
    /// The last recorded failures of the current agent.
    failed: BTreeSet<(ObjectRef, String)>,
    /// A removal whose result the agent has just got.
    answered: Option<ObjectRef>,
    /// The time since when an agent lives.
    since: Option<Duration>,
}

/// Removals by object and rule, counted.
#[derive(Debug, Default)]
struct Removals(BTreeMap<(ObjectRef, String), usize>);

impl Removals {
    fn add(&mut self, object: &ObjectRef, rule: &str, count: usize) {
        *self.0.entry((object.clone(), rule.to_owned())).or_default() += count;
    }

    /// Removes one entry; returns whether there was one.
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
    /// Ends a removal in progress; returns whether there is one with such a rule.
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
                return Err(format!("{object} is recorded by {rule}, and was not removed so"));
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

    /// A removal has ended without an entry.
    fn unwritten(&mut self, object: &ObjectRef) -> Result<(), String> {
        let failed = std::mem::take(&mut self.failed);
        let failed_before = |rule: &str| failed.contains(&(object.clone(), rule.to_owned()));
        let is_known = self.close(object, failed_before);
        self.failed = failed;
        if is_known { Ok(()) } else { Err(format!("{object} was removed without an entry")) }
    }

    fn gone(&mut self, object: &ObjectRef) -> Result<(), String> {
        let entries = self.recorded.get_mut(object).filter(|entries| **entries > 0);
        if let Some(entries) = entries {
            *entries -= 1;
        } else if !self.open.contains_key(object) && !self.owed.contains(object) {
            return Err(format!("{object} is gone without an entry"));
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
        "every removal is recorded in the journal with its rule"
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
                "{object} was being removed when an agent died, and is not recorded"
            ));
        }
        match &record.event {
            Event::IntentWritten(object, rule) => self.noted.add(object, rule, 1),
            Event::IntentSettled(object, rule) => drop(self.noted.take(object, rule)),
            Event::RemovalBegan(object, rule) => {
                if !self.noted.has(object, rule) {
                    return Err(format!("{object} is removed by {rule} without a recorded intent"));
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
