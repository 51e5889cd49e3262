//! Power cuts, and the unflushed changes that survive them.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;

use rand::{RngExt, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::{Disk, ROOT};
use crate::content::Fate;
use crate::node::{Directory, Ino, Kind, Node};

/// A power cut, and the unflushed changes that it loses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Loss {
    /// Seed of all random choices.
    pub seed: u64,
    /// Fate of name changes. The changes of one directory survive as a prefix, oldest first.
    pub names: Fate,
    /// Fate of file contents, and of attributes of files and directories.
    pub contents: Fate,
}

impl Loss {
    /// Draws both fates from the seed as well. The extremes come up often, because one kind surviving without the other exposes most bugs
    /// (a renamed file without its content).
    pub fn drawn(seed: u64) -> Self {
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        let mut fate = || [Fate::Lost, Fate::Kept, Fate::Drawn, Fate::Drawn][random.random_range(0..4)];
        Self { seed, names: fate(), contents: fate() }
    }
}

impl Disk {
    /// State after a power cut: the durable part, and a part of the rest drawn from `seed`. The same seed gives the same state.
    #[must_use]
    pub fn after_power_cut(&self, seed: u64) -> Self {
        self.after_loss(Loss::drawn(seed))
    }

    /// [`Disk::after_power_cut`] with given fates.
    #[must_use]
    pub fn after_loss(&self, loss: Loss) -> Self {
        let mut random = Pcg64Mcg::seed_from_u64(loss.seed.wrapping_add(1));
        let entries = self.names_left(loss.names, &mut random);
        let (reached, links) = reachable(&entries);
        let mut nodes = BTreeMap::new();
        for (ino, node) in self.nodes.iter().filter(|(ino, _)| reached.contains(ino)) {
            let mut left = node_left(node, loss.contents, &mut random);
            if let Kind::Directory(directory) = &mut left.kind {
                let names = entries.get(ino).cloned().unwrap_or_default();
                // A moved directory may have both names on the disk. It keeps the first name, because it cannot have
                // two parents.
                let kept = names.into_iter().filter(|(name, to)| {
                    !entries.contains_key(to) || links.get(to).is_some_and(|places| places[0] == (*ino, name.clone()))
                });
                directory.entries = kept.collect();
                directory.durable = directory.entries.clone();
            }
            let places = links.get(ino).map_or(&[][..], Vec::as_slice);
            left.links = if left.directory().is_some() { 1 } else { places.len() as u32 };
            left.place = places.first().cloned();
            nodes.insert(*ino, left);
        }
        Self { nodes, ..self.clone_without_nodes() }
    }

    fn clone_without_nodes(&self) -> Self {
        let Self { next, next_change, capacity_bytes, folds, now, .. } = *self;
        Self { nodes: BTreeMap::new(), next, next_change, capacity_bytes, folds, now }
    }

    /// Draws the surviving entries of each directory.
    fn names_left(&self, fate: Fate, random: &mut Pcg64Mcg) -> BTreeMap<Ino, BTreeMap<OsString, Ino>> {
        let directories: BTreeMap<Ino, &Directory> =
            self.nodes.iter().filter_map(|(ino, node)| Some((*ino, node.directory()?))).collect();
        let mut counts: BTreeMap<Ino, usize> = BTreeMap::new();
        for (ino, directory) in &directories {
            let all = directory.unflushed.len();
            let count = match fate {
                Fate::Lost => 0,
                Fate::Kept => all,
                Fate::Drawn => random.random_range(0..=all),
            };
            counts.insert(*ino, count);
        }
        // Dropping a change can invalidate others that depend on it, so repeat until nothing changes.
        loop {
            let is_left = |(ino, number): (Ino, u64), counts: &BTreeMap<Ino, usize>| {
                let waiting = directories.get(&ino).map_or(&[][..], |directory| &directory.unflushed);
                // A change that is not in the list is durable already.
                let at = waiting.iter().position(|change| change.number == number);
                at.is_none_or(|at| counts.get(&ino).is_some_and(|count| at < *count))
            };
            let too_early = directories.iter().find_map(|(ino, directory)| {
                let kept = &directory.unflushed[..counts[ino]];
                let at = kept.iter().position(|change| change.after.is_some_and(|other| !is_left(other, &counts)));
                at.map(|at| (*ino, at))
            });
            let Some((ino, count)) = too_early else { break };
            counts.insert(ino, count);
        }
        directories.iter().map(|(ino, directory)| (*ino, directory.with_changes(counts[ino]))).collect()
    }
}

/// A directory and a name in it.
type Place = (Ino, OsString);

/// Nodes reachable from the root, and all names of each.
fn reachable(entries: &BTreeMap<Ino, BTreeMap<OsString, Ino>>) -> (BTreeSet<Ino>, BTreeMap<Ino, Vec<Place>>) {
    let mut reached = BTreeSet::from([ROOT]);
    let mut places: BTreeMap<Ino, Vec<Place>> = BTreeMap::new();
    let mut waiting = vec![ROOT];
    while let Some(directory) = waiting.pop() {
        for (name, ino) in entries.get(&directory).into_iter().flatten() {
            places.entry(*ino).or_default().push((directory, name.clone()));
            if reached.insert(*ino) && entries.contains_key(ino) {
                waiting.push(*ino);
            }
        }
    }
    (reached, places)
}

/// The surviving content and attributes of a node.
fn node_left(node: &Node, fate: Fate, random: &mut Pcg64Mcg) -> Node {
    let mut left = node.clone();
    if let Kind::File(file) = &mut left.kind {
        file.content = file.durable.after_power_cut(&file.content, file.shortest, fate, random);
    }
    if let Kind::Directory(directory) = &mut left.kind {
        directory.unflushed.clear();
    }
    let is_kept = fate == Fate::Kept || fate == Fate::Drawn && random.random_bool(0.5);
    if !is_kept {
        left.attributes = left.durable_attributes.clone();
    }
    // Surviving content is durable now. The caller sets the entries of directories.
    left.flush(true);
    left
}
