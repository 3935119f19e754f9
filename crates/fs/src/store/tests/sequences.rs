//! Random sequences of operations, done to the store and to the model; to end a life and begin another is one of them.

use proptest::prelude::*;

use super::model::{Model, Step, observe, perform};
use super::open_in_boot;

#[derive(Clone, Debug)]
enum Deed {
    Step(Step),
    /// The process ends; nothing is written then, so it is a kill between two operations.
    Reopen,
    /// The machine starts anew.
    Reboot,
    /// What is made next is held.
    Hold,
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        30 => any::<(u8, u8, u8)>().prop_map(|numbers| Deed::Step(Step::decode(numbers))),
        3 => Just(Deed::Reopen),
        1 => Just(Deed::Reboot),
        2 => Just(Deed::Hold),
    ]
}

fn run(deeds: &[Deed]) -> Result<(), TestCaseError> {
    let folder = tempfile::tempdir().unwrap();
    let mut boot = 0;
    let mut store = open_in_boot(folder.path(), "boot 0");
    let mut model = Model::default();
    let (mut held, mut hold, mut rename) = (Vec::new(), false, None);
    for (number, deed) in (1_u32..).zip(deeds) {
        match deed {
            Deed::Hold => hold = true,
            Deed::Reopen | Deed::Reboot => {
                held.clear();
                model.held.clear();
                drop(store);
                if matches!(deed, Deed::Reboot) {
                    boot += 1;
                    let safe = &model.safe;
                    model
                        .state
                        .files
                        .retain(|file| file.dirty.is_some() || safe.contains(file));
                }
                model.begun = false;
                store = open_in_boot(folder.path(), &format!("boot {boot}"));
            }
            Deed::Step(step) if model.allows(step) => {
                let before = model.state.clone();
                model.apply(step, number);
                let copy = perform(&store, step, number, &mut rename);
                if let (true, Some(copy), true) = (hold, copy, before != model.state) {
                    // What is held is identified by its names: let go when they change.
                    let names = model
                        .state
                        .files
                        .iter()
                        .find(|file| file.content == number)
                        .unwrap()
                        .names
                        .clone();
                    model.held.insert(names.clone());
                    held.push((names, copy));
                    hold = false;
                }
                let still = |names: &std::collections::BTreeSet<String>| {
                    model.state.files.iter().any(|file| &file.names == names)
                };
                held.retain(|(names, copy)| {
                    still(names) && store.entry_of(copy.id()).unwrap().is_some()
                });
                model.held = held.iter().map(|(names, _)| names.clone()).collect();
            }
            Deed::Step(_) => {}
        }
        prop_assert_eq!(&observe(&store), &model.state, "after {:?}", deed);
        prop_assert!(store.used_bytes() <= 4096 * 64);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 250, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_store_is_as_the_model_says(deeds in prop::collection::vec(deed(), 1..120)) {
        run(&deeds)?;
    }
}
