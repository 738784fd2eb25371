//! The same promises on the wire: the binary `muster`, HTTPS, git over http, SIGKILL. Times are printed.

use muster_e2e::{bed::Ground::Wire, scenario};

/// One test for each scenario.
macro_rules! promises {
    ($($file:ident { $($promise:ident),* })*) => {
        $(mod $file {
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
    confirmed { means_true }
    skipped { five_reasons, away_for_a_while }
    bootstrap { flux_objects_come_back }
    crash { in_the_middle, told_to_end }
    bad_input { refused_at_the_door }
    rules { gates_hold_back }
    plan { comes_true }
    windows { freeze_in_mid_run, stop_the_line, bypass }
}
