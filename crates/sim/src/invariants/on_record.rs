//! What is on record of removals.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::Invariant;
use crate::history::{Event, Record, Thing};

/// For so long an agent may look for what its predecessor was removing.
const SETTLED: Duration = Duration::from_mins(3);

/// Whatever is gone was removed by the agent, and the journal says by which rule. What an agent was removing
/// when it died, the next one puts on record. Of what fails again as it failed before, nothing more is.
#[derive(Debug, Default)]
pub(super) struct OnRecord {
    /// Removals under way, and by which rule.
    open: BTreeMap<Thing, Vec<&'static str>>,
    /// What was noted down before it began and is not over, by the agent that lives and by those before it.
    noted: Removals,
    noted_before: Removals,
    /// Removals that were under way when their agent died, and that are not on record.
    owed: BTreeSet<Thing>,
    /// What was to go, and how often: it may come back, and go late.
    recorded: BTreeMap<Thing, usize>,
    /// What the agent that lives has on record as failed last.
    failed: BTreeSet<(Thing, String)>,
    /// A removal that the agent has just heard the end of.
    heard: Option<Thing>,
    /// Since when an agent lives.
    since: Option<Duration>,
}

/// Removals by what and by which rule, counted.
#[derive(Debug, Default)]
struct Removals(BTreeMap<(Thing, String), usize>);

impl Removals {
    fn add(&mut self, thing: &Thing, rule: &str, count: usize) {
        *self.0.entry((thing.clone(), rule.to_owned())).or_default() += count;
    }

    /// Takes one away; whether there was one.
    fn take(&mut self, thing: &Thing, rule: &str) -> bool {
        let count = self.0.get_mut(&(thing.clone(), rule.to_owned()));
        let count = count.filter(|count| **count > 0);
        count.map(|count| *count -= 1).is_some()
    }

    fn has(&self, thing: &Thing, rule: &str) -> bool {
        self.0.get(&(thing.clone(), rule.to_owned())).is_some_and(|count| *count > 0)
    }
}

impl OnRecord {
    /// Ends a removal that is under way; whether there is one by such a rule.
    fn close(&mut self, thing: &Thing, is_it: impl Fn(&str) -> bool) -> bool {
        let Some(rules) = self.open.get_mut(thing) else { return false };
        let Some(place) = rules.iter().position(|rule| is_it(rule)) else { return false };
        rules.remove(place);
        if rules.is_empty() {
            self.open.remove(thing);
        }
        *self.recorded.entry(thing.clone()).or_default() += 1;
        true
    }

    fn written(&mut self, thing: &Thing, rule: &str, failed: bool) -> Result<(), String> {
        if !self.close(thing, |one| one == rule) {
            if !self.noted_before.take(thing, rule) {
                return Err(format!("{thing} is on record by {rule}, and nobody removed it so"));
            }
            *self.recorded.entry(thing.clone()).or_default() += 1;
        }
        self.owed.remove(thing);
        self.failed.retain(|(one, _)| one != thing);
        if failed {
            self.failed.insert((thing.clone(), rule.to_owned()));
        }
        Ok(())
    }

    /// A removal has ended, and nothing was written.
    fn unwritten(&mut self, thing: &Thing) -> Result<(), String> {
        let failed = std::mem::take(&mut self.failed);
        let failed_before = |rule: &str| failed.contains(&(thing.clone(), rule.to_owned()));
        let is_known = self.close(thing, failed_before);
        self.failed = failed;
        if is_known {
            Ok(())
        } else {
            Err(format!("{thing} was removed, and nothing is on record"))
        }
    }

    fn gone(&mut self, thing: &Thing) -> Result<(), String> {
        let entries = self.recorded.get_mut(thing).filter(|entries| **entries > 0);
        if let Some(entries) = entries {
            *entries -= 1;
        } else if !self.open.contains_key(thing) && !self.owed.contains(thing) {
            return Err(format!("{thing} is gone, and nothing is on record"));
        }
        Ok(())
    }

    fn died(&mut self) {
        self.owed.extend(std::mem::take(&mut self.open).into_keys());
        for ((thing, rule), count) in std::mem::take(&mut self.noted).0 {
            self.noted_before.add(&thing, &rule, count);
        }
        self.failed.clear();
        self.since = None;
    }
}

impl Invariant for OnRecord {
    fn sentence(&self) -> &'static str {
        "whatever is removed is on record, with the rule that said so"
    }

    fn read(&mut self, record: &Record) -> Result<(), String> {
        if let Some(thing) = self.heard.take()
            && !matches!(&record.event, Event::Written(written, ..) if *written == thing)
        {
            self.unwritten(&thing)?;
        }
        if let (Some(since), Some(thing)) = (self.since, self.owed.first())
            && record.at > since + SETTLED
        {
            return Err(format!(
                "{thing} was being removed when an agent died, and is not on record"
            ));
        }
        match &record.event {
            Event::Noted(thing, rule) => self.noted.add(thing, rule, 1),
            Event::Settled(thing, rule) => drop(self.noted.take(thing, rule)),
            Event::RemovalBegan(thing, rule) => {
                if !self.noted.has(thing, rule) {
                    return Err(format!(
                        "{thing} is removed by {rule}, and that is not noted down"
                    ));
                }
                self.open.entry(thing.clone()).or_default().push(rule);
            }
            Event::RemovalEnded(thing) => self.heard = Some(thing.clone()),
            Event::Written(thing, rule, failed) => return self.written(thing, rule, *failed),
            Event::AgentDied => self.died(),
            Event::AgentStarted(_) => {
                if let Some(thing) = self.open.keys().next() {
                    return Err(format!("{thing} was being removed when the agent was stopped"));
                }
                self.failed.clear();
                self.since = Some(record.at);
            }
            Event::Gone(thing) => return self.gone(thing),
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
#[path = "on_record_tests.rs"]
mod tests;
