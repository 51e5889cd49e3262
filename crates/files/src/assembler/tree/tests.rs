use proptest::prelude::*;

use super::*;

/// Returns the tree of a sender: for each directory's ordinal, the first ordinal after its content; and the number of
/// entries.
fn found(shape: &[u8]) -> (BTreeMap<u32, u32>, u32) {
    let (mut ends, mut path) = (BTreeMap::new(), Vec::new());
    for (index, kind) in (0..).zip(shape) {
        for _ in 0..kind / 4 {
            if let Some(left) = path.pop() {
                ends.insert(left, index);
            }
        }
        if kind % 4 == 0 {
            path.push(index);
        }
    }
    let entries = shape.len() as u32;
    ends.extend(path.into_iter().map(|left| (left, entries)));
    (ends, entries)
}

/// Settles an ordinal in a tree without directories, where only the ranges matter.
fn settle(tree: &mut Tree, index: u32) -> Result<(), ProtocolError> {
    tree.settle(index).map(|complete| assert!(complete.is_empty()))
}

proptest! {
    /// Model test: the settled ranges behave like a set of ordinals.
    #[test]
    fn ranges_are_the_set_of_what_was_settled(indices in proptest::collection::vec(0_u32..60, 0..60)) {
        let (mut tree, mut model) = (Tree::default(), std::collections::BTreeSet::new());
        for index in indices {
            prop_assert_eq!(tree.is_new(index), !model.contains(&index));
            prop_assert_eq!(settle(&mut tree, index).is_ok(), model.insert(index));
        }
        let listed: Vec<u32> = tree.settled.iter().flat_map(|(first, end)| *first..*end).collect();
        prop_assert_eq!(listed, model.into_iter().collect::<Vec<_>>());
        let joined = tree.settled.iter().zip(tree.settled.iter().skip(1)).any(|((_, end), (first, _))| end >= first);
        prop_assert!(!joined);
    }

    /// Property, for any order of files: a directory is complete exactly when the sender has left it and all its
    /// entries are settled.
    #[test]
    fn a_directory_is_complete_with_the_last_of_its_entries(
        shape in proptest::collection::vec(0_u8..12, 1..40),
        seed in any::<u64>(),
    ) {
        let (ends, entries) = found(&shape);
        let output = tempfile::tempdir().unwrap();
        let store = crate::store::Store::open(output.path(), crate::store::StoreOptions::default()).unwrap();
        let mut changed = crate::store::Changed::default();
        // Directories arrive in order, with files at random positions among them.
        let mut files: Vec<u32> = (0..entries).filter(|index| !ends.contains_key(index)).collect();
        let mut directories = ends.keys().copied().collect::<std::collections::VecDeque<_>>();
        let (mut random, mut path, mut tree) = (seed, Vec::<(u32, String)>::new(), Tree::default());
        let (mut settled, mut left) = (std::collections::BTreeSet::new(), BTreeMap::new());
        while !files.is_empty() || !directories.is_empty() {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let pick = (random >> 33) as usize;
            let complete = if !directories.is_empty() && (files.is_empty() || pick.is_multiple_of(3)) {
                let index = directories.pop_front().unwrap();
                while path.last().is_some_and(|(above, _)| ends[above] <= index) {
                    let (above, _) = path.pop().unwrap();
                    left.insert(above, index);
                }
                let text = path.last().map_or_else(|| index.to_string(), |(_, above)| format!("{above}/{index}"));
                let entry = Entry {
                    index, directories: 0, mode: 0o755, mtime_s: 0, mtime_ns: 0, size_hint_bytes: 0, len: None, name: text.clone().into_bytes(),
                };
                let name = RelativeName::parse(&entry.name).unwrap();
                let complete = tree.leave(index, Some(&name)).unwrap();
                let made = store.make_directory(&name, &entry, &mut changed).unwrap();
                tree.enter(index, OpenDirectory { name, entry, made });
                path.push((index, text));
                complete
            } else {
                let index = files.swap_remove(pick % files.len());
                settled.insert(index);
                tree.settle(index).unwrap()
            };
            for (index, _) in complete {
                prop_assert!((index + 1..left[&index]).all(|inside| settled.contains(&inside)), "{index} is not complete");
                prop_assert!(settled.insert(index));
            }
            for (index, end) in &left {
                let is_whole = (index + 1..*end).all(|inside| settled.contains(&inside));
                prop_assert_eq!(is_whole, settled.contains(index), "{} waits", index);
            }
        }
        for (index, _) in tree.finish(entries).unwrap() {
            prop_assert!(settled.insert(index));
        }
        prop_assert_eq!(settled.len() as u32, entries);
    }
}

#[test]
fn gaps_are_bounded() {
    let mut tree = Tree::default();
    for gap in 0..UNANSWERED_MAX as u32 {
        settle(&mut tree, 2 * gap).unwrap();
    }
    let refused = settle(&mut tree, 2 * UNANSWERED_MAX as u32).unwrap_err();
    assert_eq!(refused, ProtocolError::TooManyGaps);
    assert!(matches!(settle(&mut Tree::default(), u32::MAX), Err(ProtocolError::Ordinal { .. })));
}
