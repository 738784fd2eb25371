//! The same promises on real control planes: kube-apiserver, its controllers, kwok for nodes and pods; with the
//! built-in sync, and where Flux applies. Run by `cargo xtask real run`.

use muster_e2e::{
    bed::Ground,
    scenario::{
        self,
        limit::{LIMITS, holds, holds_with_two_leaders},
    },
    seed,
};

#[allow(clippy::unwrap_used, reason = "a helper that fails fails its test")]
#[path = "support/real_dashboard.rs"]
mod dashboard;
#[allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a helper that fails fails its test"
)]
#[path = "support/zones/mod.rs"]
mod zones;

/// How many processes are killed in a run for the limit.
const ENDS: usize = 12;

/// One test per scenario and bed.
macro_rules! promises {
    ($($ground:ident $sync:ident { $($file:ident { $($promise:ident),* })* })*) => {
        $(mod $sync {
            use super::{Ground, scenario};

            $(mod $file {
                $(#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                #[ignore = "real: cargo xtask real run"]
                async fn $promise() {
                    super::scenario::$file::$promise(super::Ground::$ground).await;
                })*
            })*
        })*
    };
}

promises! {
    Real builtin {
        install { is_admitted, is_well }
        distribute { comes_and_goes }
        rollout { one_after_another, two_at_a_time, newest_wins }
        commit { is_all_it_takes }
        bad_version { stops_and_is_fixed }
        confirmed { means_true, means_true_after_a_restart }
        skipped { five_reasons, away_for_a_while }
        bootstrap { needs_no_agent, flux_objects_come_back, foreign_objects_are_left_alone }
        crash { in_the_middle, shutdown_in_the_middle }
        bad_input { refused_at_the_door }
        will { paused, deselected, deleted }
        windows { freeze_in_mid_run, stop_the_line, bypass }
        plans { a_migration_fails_and_is_fixed, with_the_definitions_of_flux }
        old_bugs { what_leaves_a_version_leaves_the_clusters }
        identity { leads_elsewhere }
        removal { orphaned, held, away, clusters_deleted, assemblages_deleted, definitions_deleted }
        classes { as_the_table_says, clusters_away }
        cluster_api { newest_release, older_version_stored, upgraded, deleted_in_the_foreground }
        moves { to_flux_and_back }
        hand { puts_nothing_astray, credentials_change }
        surprises { servers_restart, certificates, webhooks, suspended_by_hand, definitions_of_flux }
        rules { stages_with_approval, gates_hold_back, goes_back, known_bad_is_refused_for_a_joiner, pinned, history }
        zones { stop_at_the_first }
        rest { nothing_is_written, nothing_is_written_after_a_restart }
    }
    Flux flux {
        install { is_admitted, is_well }
        rollout { one_after_another, two_at_a_time, newest_wins }
        commit { is_all_it_takes }
        bad_version { stops_and_is_fixed }
        skipped { five_reasons, away_for_a_while }
        bootstrap { needs_no_agent, flux_objects_come_back }
        crash { in_the_middle, shutdown_in_the_middle }
        will { paused, deselected, deleted }
        windows { freeze_in_mid_run, stop_the_line, bypass }
        old_bugs { what_leaves_a_version_leaves_the_clusters }
        identity { leads_elsewhere }
        removal { orphaned, held, away, clusters_deleted, assemblages_deleted, definitions_deleted }
        classes { as_the_table_says, clusters_away, canceled_checks }
        hand { puts_nothing_astray, credentials_change }
        surprises { servers_restart, certificates, webhooks, suspended_by_hand, definitions_of_flux }
        rest { nothing_is_written, nothing_is_written_after_a_restart }
        flux_sources { are_read, are_refused }
        flux_directory { kustomized, helm_release_fails }
        flux_mode { an_oci_tag_is_pinned, an_artifact_is_verified_by_cosign, patched_and_decrypted, a_signature_that_fails_moves_nothing }
    }
}

/// The limit, checked with the watches of the real servers.
mod limit {
    use super::{ENDS, Ground, LIMITS, holds, holds_with_two_leaders, seed};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "real: cargo xtask real run"]
    async fn over_kills() {
        holds(Ground::Real, LIMITS[1], ENDS, seed()).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "real: cargo xtask real run"]
    async fn with_two_controllers() {
        holds_with_two_leaders(Ground::Real, LIMITS[0], ENDS, seed()).await;
    }
}

/// Printed, not asserted.
mod figures {
    use super::{Ground, scenario::figures};

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "real: cargo xtask real run figures"]
    async fn builtin() {
        figures::all(Ground::Real).await;
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    #[ignore = "real: cargo xtask real run figures"]
    async fn flux() {
        figures::all(Ground::Flux).await;
    }
}
