//! Pods of one name.

use std::collections::{BTreeMap, BTreeSet};

use model::ids::{ContainerId, PodUid};

use super::Invariant;
use crate::history::{Event, Record};

/// A static pod does not start while an earlier pod of its name runs.
#[derive(Debug, Default)]
pub(super) struct OnePodInstance {
    names: BTreeMap<PodUid, String>,
    live: BTreeMap<String, BTreeMap<PodUid, BTreeSet<ContainerId>>>,
}

impl Invariant for OnePodInstance {
    fn sentence(&self) -> &'static str {
        "no container of a pod starts while one of an earlier pod of that name lives"
    }

    fn read(&mut self, record: &Record) -> Result<(), String> {
        match &record.event {
            Event::Wanted(uid, pod) => {
                self.names.insert(uid.clone(), pod.name.clone());
            }
            Event::Container(one, _) => {
                let Some(name) = self.names.get(&one.uid) else { return Ok(()) };
                let pods = self.live.entry(name.clone()).or_default();
                if !one.may_live() {
                    if let Some(live) = pods.get_mut(&one.uid) {
                        live.remove(&one.id);
                    }
                    pods.retain(|_, live| !live.is_empty());
                    return Ok(());
                }
                let is_new = pods.entry(one.uid.clone()).or_default().insert(one.id.clone());
                let other = pods.iter().find(|(uid, _)| **uid != one.uid);
                if let Some((_, others)) = other.filter(|_| is_new) {
                    return Err(format!("{} starts while {others:?} lives", one.id));
                }
            }
            _ => {}
        }
        Ok(())
    }
}
