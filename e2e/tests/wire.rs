//! The same promises with real processes: the binary `muster`, HTTPS, git over http, SIGKILL. Times are printed.

use muster_e2e::{bed::Ground::Wire, scenario};

/// One test per scenario. Those after `long` are for `cargo xtask long wire`: the test command runs the same ones on
/// the virtual bed.
macro_rules! promises {
    ($($file:ident { $($promise:ident),* $(; long $($long:ident),*)? })*) => {
        $(mod $file {
            $($(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            #[ignore = "long: cargo xtask long"]
            async fn $long() {
                super::scenario::$file::$long(super::Wire).await;
            })*)?
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $promise() {
                super::scenario::$file::$promise(super::Wire).await;
            })*
        })*
    };
}

promises! {
    rollout { one_after_another }
    commit { is_all_it_takes }
    bad_version { stops_and_is_fixed }
    confirmed { ; long means_true }
    skipped { five_reasons; long away_for_a_while }
    bootstrap { flux_objects_come_back }
    crash { in_the_middle; long shutdown_in_the_middle }
    bad_input { ; long refused_at_the_door }
    rules { ; long gates_hold_back }
    plan { comes_true }
    plans { a_migration_fails_and_is_fixed }
    windows { ; long freeze_in_mid_run, stop_the_line, bypass }
}
