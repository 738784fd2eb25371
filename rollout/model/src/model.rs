//! Implements stateright's model: the possible events, and the laws that must hold.

use stateright::{Model, Property};

use crate::event::Event;
use crate::reached;
use crate::state::State;
use crate::world::World;

/// Whether a law holds.
fn holds(state: &State, law: &str) -> bool {
    state
        .broken
        .as_deref()
        .is_none_or(|broken| broken.split([':', ' ']).next() != Some(law))
}

macro_rules! laws {
    ($($law:literal, $text:literal;)*) => {
        /// The laws that are checked in single states, with their descriptions.
        pub const LAWS: &[(&str, &str)] = &[$(($law, concat!($law, " ", $text)),)*];

        fn laws() -> Vec<Property<World>> {
            vec![$(Property::always(concat!($law, " ", $text), |_, state| holds(state, $law)),)*]
        }
    };
}

laws! {
    "E1", "the limit holds at all times";
    "E2", "one domain";
    "E3", "no known bad revision is assigned";
    "E4", "no revision is condemned without enough failures";
    "E5", "only good revisions are restored";
    "E6", "no cluster that is held, paused or ineligible is written";
    "E7", "order of stages";
    "E8", "no unacknowledged withdrawal";
    "E9", "the order of the input does not matter";
    "E10", "planning twice returns no new steps";
    "E12", "one reason for each cluster, and a true one";
    "E13", "memory within its limits";
    "W2", "the greatest token does not decrease";
}

impl Model for World {
    type State = State;
    type Action = Event;

    fn init_states(&self) -> Vec<State> {
        vec![self.begin()]
    }

    fn actions(&self, state: &State, all: &mut Vec<Event>) {
        self.possible(state, all);
    }

    fn next_state(&self, state: &State, what: Event) -> Option<State> {
        let mut next = state.clone();
        self.apply(&mut next, &what);
        self.put_in_order(&mut next);
        (next != *state).then_some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let mut all = laws();
        all.extend(reached::all());
        all.extend(crate::fair::goals(self));
        all
    }
}
