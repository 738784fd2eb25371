//! Promise: a check succeeds only with evidence: a pattern that matches, an interface that is up, an address that
//! responds.

use muster_node::{Checks, Config, Dial, failing};

use crate::support::world::{World, config};

fn names(world: &World, config: &Config, checks: &Checks) -> Vec<String> {
    failing(checks, config, world.host.as_ref())
        .into_iter()
        .map(|failing| failing.name)
        .collect()
}

fn interfaces(patterns: &[&str]) -> Checks {
    Checks {
        interfaces: patterns.iter().map(|pattern| (*pattern).to_owned()).collect(),
        ..Checks::default()
    }
}

#[test]
fn each_pattern_has_to_match() {
    let world = World::new();
    let table: [(&[&str], &[&str]); 7] = [
        (&[], &[]),
        (&["bond0"], &[]),
        (&["bond?", "b*"], &[]),
        (&["bond0", "eth*"], &["interface eth*"]),
        (&["bond1"], &["interface bond1"]),
        // The loopback interface has no state.
        (&["lo"], &["interface lo"]),
        (&["eth[", "bond[01]"], &["interface eth["]),
    ];
    for (patterns, wanted) in table {
        assert_eq!(
            names(&world, &config(), &interfaces(patterns)),
            wanted,
            "{patterns:?}"
        );
    }
}

#[test]
fn all_are_run_and_each_has_a_name() {
    let world = World::new();
    world
        .host
        .outage
        .set((std::time::Duration::ZERO, std::time::Duration::MAX));
    world.host.peer_fails.set(true);
    let checks = Checks {
        tcp: vec!["10.0.0.1:179".to_owned(), "[fd00::1]:179".to_owned()],
        services: vec!["peer".to_owned()],
        api_server: true,
        ..interfaces(&["eth0"])
    };
    let wanted = [
        "interface eth0",
        "tcp 10.0.0.1:179",
        "tcp [fd00::1]:179",
        "service peer",
        "apiServer",
    ];
    assert_eq!(names(&world, &config(), &checks), wanted);
}

/// DX12: an address that was reached before proves nothing.
#[test]
fn each_check_probes_again() {
    let world = World::new();
    let checks = Checks {
        tcp: vec!["10.0.0.1:179".to_owned()],
        api_server: true,
        ..Checks::default()
    };
    assert_eq!(names(&world, &config(), &checks), <[&str; 0]>::default());
    world
        .host
        .outage
        .set((std::time::Duration::ZERO, std::time::Duration::MAX));
    assert_eq!(
        names(&world, &config(), &checks),
        ["tcp 10.0.0.1:179", "apiServer"]
    );
}

#[test]
fn a_connection_is_tried_as_often_as_the_configuration_says() {
    let world = World::new();
    world
        .host
        .outage
        .set((std::time::Duration::ZERO, std::time::Duration::MAX));
    let checks = Checks {
        tcp: vec!["10.0.0.1:179".to_owned()],
        ..Checks::default()
    };
    for tries in [1, 3] {
        world.host.dialed.set(0);
        let config = Config {
            dial: Dial {
                tries,
                ..Dial::default()
            },
            ..config()
        };
        assert_eq!(names(&world, &config, &checks).len(), 1);
        assert_eq!(world.host.dialed.get(), usize::try_from(tries).unwrap());
    }
}

#[test]
fn nothing_is_dialled_that_the_configuration_no_longer_allows() {
    let world = World::new();
    let checks = Checks {
        tcp: vec!["192.0.2.1:179".to_owned()],
        ..Checks::default()
    };
    assert_eq!(names(&world, &config(), &checks), ["tcp 192.0.2.1:179"]);
    assert_eq!(world.host.dialed.get(), 0);
}
