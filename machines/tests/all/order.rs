//! Promise: updaters have one order, whatever order they were given in (CX7: a walk of a map gives another one each time).

use muster_machines::in_order;
use proptest::prelude::*;

proptest! {
    #[test]
    fn by_number_and_then_by_name(mut updaters in prop::collection::btree_map("[a-d]{1,2}", -1..3_i32, 0..6).prop_map(|map| map.into_iter().collect::<Vec<_>>()).prop_shuffle()) {
        in_order(&mut updaters, |(name, number)| (*number, name));
        let mut expected = updaters.clone();
        expected.sort_by_key(|(name, number)| (*number, name.clone()));
        prop_assert_eq!(updaters, expected);
    }
}
