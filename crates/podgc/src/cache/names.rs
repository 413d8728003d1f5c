//! Names shared by many pods, each stored once.

use std::hash::BuildHasher as _;

use hashbrown::{DefaultHashBuilder, HashTable};

/// A name, its users, and its counts.
#[derive(Debug, Default)]
pub(super) struct Name {
    text: Box<str>,
    /// The number of pods and nodes with this name; its slot is free at zero.
    pub(super) users: u32,
    /// The number of removable pods on the node of this name.
    pub(super) pods: u32,
    /// The number of terminated ones among them.
    pub(super) terminated: u32,
    /// The node of this name, if it exists: whether it is ready, and whether it is out of service.
    pub(super) node: Option<(bool, bool)>,
    /// Whether the current list of nodes has contained the node so far.
    pub(super) is_listed: bool,
}

/// Names by number.
#[derive(Debug, Default)]
pub(super) struct Names {
    seed: DefaultHashBuilder,
    all: Vec<Name>,
    free: Vec<u32>,
    table: HashTable<u32>,
}

impl Names {
    /// The number of a name, with one more user.
    pub(super) fn take(&mut self, text: &str) -> u32 {
        if let Some(id) = self.find(text) {
            self.all[id as usize].users += 1;
            return id;
        }
        let name = Name { text: text.into(), users: 1, ..Name::default() };
        let id = if let Some(id) = self.free.pop() {
            self.all[id as usize] = name;
            id
        } else {
            self.all.push(name);
            u32::try_from(self.all.len() - 1).expect("fewer names than fit into memory")
        };
        let (seed, all) = (&self.seed, &self.all);
        let hash = |id: &u32| seed.hash_one(&*all[*id as usize].text);
        self.table.insert_unique(hash(&id), id, hash);
        id
    }

    /// Releases one use.
    pub(super) fn let_go(&mut self, id: u32) {
        let name = &mut self.all[id as usize];
        name.users -= 1;
        if name.users > 0 {
            return;
        }
        let text = std::mem::take(&mut name.text);
        if let Ok(entry) = self.table.find_entry(self.seed.hash_one(&*text), |other| *other == id) {
            entry.remove();
        }
        self.free.push(id);
    }

    /// The number of a name in use.
    pub(super) fn find(&self, text: &str) -> Option<u32> {
        let is_it = |id: &u32| &*self.all[*id as usize].text == text;
        self.table.find(self.seed.hash_one(text), is_it).copied()
    }

    pub(super) fn get(&self, id: u32) -> &Name {
        &self.all[id as usize]
    }

    pub(super) fn get_mut(&mut self, id: u32) -> &mut Name {
        &mut self.all[id as usize]
    }

    pub(super) fn text(&self, id: u32) -> &str {
        &self.all[id as usize].text
    }

    /// The numbers of all names in use.
    pub(super) fn ids(&self) -> Vec<u32> {
        self.table.iter().copied().collect()
    }

    /// Names with more than `cap` terminated pods, in order.
    pub(super) fn over(&self, cap: u32) -> Vec<(&str, u32)> {
        let over = self.table.iter().map(|id| self.get(*id)).filter(|name| name.terminated > cap);
        let mut over: Vec<_> = over.map(|name| (&*name.text, name.terminated)).collect();
        over.sort_unstable();
        over
    }
}
