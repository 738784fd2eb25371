//! Promise: the order of updaters does not depend on the order of the input (CX7: iterating over a map gives a
//! different order each time).

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
