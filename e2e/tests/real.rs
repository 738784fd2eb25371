//! The same promises on real control planes: kube-apiserver, its controllers, kwok for nodes and pods. Run by `cargo xtask real run`.

use muster_e2e::{bed::Ground::Real, scenario};

/// One test for each scenario.
macro_rules! promises {
    ($($file:ident { $($promise:ident),* })*) => {
        $(mod $file {
            $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            #[ignore = "real: cargo xtask real run"]
            async fn $promise() {
                super::scenario::$file::$promise(super::Real).await;
            })*
        })*
    };
}

promises! {
    rollout { one_after_another, two_at_a_time, newest_wins }
    commit { is_all_it_takes }
    bad_version { stops_and_is_fixed }
    skipped { five_reasons, away_for_a_while }
    bootstrap { flux_objects_come_back }
    crash { in_the_middle, told_to_end }
    bad_input { refused_at_the_door }
}
