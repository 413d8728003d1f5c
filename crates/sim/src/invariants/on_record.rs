//! What is on record of removals.

use std::collections::{BTreeMap, BTreeSet};

use super::Invariant;
use crate::history::{Event, Record, Thing};

/// Whatever is gone was removed by the agent, and the journal says by which rule. An agent that dies takes with
/// it what it was just about to write: the entries of removals whose end it had not heard of.
#[derive(Debug, Default)]
pub(super) struct OnRecord {
    /// Removals under way, and by which rule.
    open: BTreeMap<Thing, Vec<&'static str>>,
    /// Removals that died with their agent.
    lost: BTreeSet<Thing>,
    /// What was to go, and how often: it may come back, and go late.
    recorded: BTreeMap<Thing, usize>,
    /// A removal that the agent has just heard the end of.
    heard: Option<Thing>,
}

impl OnRecord {
    fn written(&mut self, thing: &Thing, rule: &str) -> Result<(), String> {
        let rules = self.open.get_mut(thing);
        let place = rules.as_ref().and_then(|rules| rules.iter().position(|one| *one == rule));
        let (Some(rules), Some(place)) = (rules, place) else {
            return Err(format!("{thing} is on record by {rule}, and nobody removed it so"));
        };
        rules.remove(place);
        if rules.is_empty() {
            self.open.remove(thing);
        }
        *self.recorded.entry(thing.clone()).or_default() += 1;
        Ok(())
    }
}

impl Invariant for OnRecord {
    fn sentence(&self) -> &'static str {
        "whatever is removed is on record, with the rule that said so"
    }

    fn read(&mut self, record: &Record) -> Result<(), String> {
        let heard = self.heard.take();
        if let Some(thing) = heard
            && !matches!(&record.event, Event::Written(written, _) if *written == thing)
        {
            return Err(format!("{thing} was removed, and nothing is on record"));
        }
        match &record.event {
            Event::RemovalBegan(thing, rule) => {
                self.open.entry(thing.clone()).or_default().push(rule);
            }
            Event::RemovalEnded(thing) => self.heard = Some(thing.clone()),
            Event::Written(thing, rule) => return self.written(thing, rule),
            Event::AgentDied => self.lost.extend(std::mem::take(&mut self.open).into_keys()),
            Event::AgentStarted(_) => {
                if let Some(thing) = self.open.keys().next() {
                    return Err(format!("{thing} was being removed when the agent was stopped"));
                }
            }
            Event::Gone(thing) => {
                let entries = self.recorded.get_mut(thing).filter(|entries| **entries > 0);
                if let Some(entries) = entries {
                    *entries -= 1;
                } else if !self.open.contains_key(thing) && !self.lost.remove(thing) {
                    return Err(format!("{thing} is gone, and nothing is on record"));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_removal_without_an_entry_is_found() {
        let thing = || Thing { kind: "container".to_owned(), id: "c".to_owned() };
        let (began, ended) =
            (|| Event::RemovalBegan(thing(), "old"), || Event::RemovalEnded(thing()));
        let written = |rule: &str| Event::Written(thing(), rule.to_owned());
        let (gone, died) = (|| Event::Gone(thing()), || Event::AgentDied);
        let started = || Event::AgentStarted(2);
        let rows = [
            (vec![began(), gone(), ended(), written("old"), started()], true),
            // It takes effect after it was given up.
            (vec![began(), ended(), written("old"), started(), gone()], true),
            (vec![gone()], false),
            (vec![began(), ended(), gone()], false),
            (vec![began(), ended(), written("other")], false),
            (vec![written("old")], false),
            // What comes back has to go again, which may be the end of an earlier removal.
            (
                [began(), ended(), written("old")]
                    .into_iter()
                    .cycle()
                    .take(6)
                    .chain([gone(), gone()])
                    .collect(),
                true,
            ),
            (vec![began(), ended(), written("old"), gone(), gone()], false),
            // What the agent had not heard of dies with it, and nothing else does.
            (vec![began(), died(), started(), gone()], true),
            (vec![began(), ended(), died()], false),
            (vec![began(), started()], false),
        ];
        for (row, (events, expected)) in rows.into_iter().enumerate() {
            let mut invariant = OnRecord::default();
            let at = Duration::ZERO;
            let read = |event| invariant.read(&Record { at, event });
            assert_eq!(events.into_iter().try_for_each(read).is_ok(), expected, "row {row}");
        }
    }
}
