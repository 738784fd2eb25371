//! All promises on the virtual bed: paused time, so that times are asserted too.

use muster_e2e::{bed::Ground::Virtual, scenario};

/// One test per scenario.
macro_rules! promises {
    ($($file:ident { $($promise:ident),* })*) => {
        $(mod $file {
            $(#[tokio::test(start_paused = true)]
            async fn $promise() {
                super::scenario::$file::$promise(super::Virtual).await;
            })*
        })*
    };
}

promises! {
    rollout { one_after_another, two_at_a_time, newest_wins, observer_would_notice }
    commit { is_all_it_takes }
    bad_version { stops_and_is_fixed }
    confirmed { means_true, means_true_after_a_restart }
    skipped { five_reasons, away_for_a_while }
    bootstrap { needs_no_agent, flux_objects_come_back, foreign_objects_are_left_alone }
    cluster_api { newest_release, older_version_stored, upgraded, deleted_in_the_foreground }
    infra { secret_gone, api_down, source_away, webhook_late, checking_again }
    crash { in_the_middle, anywhere, shutdown_in_the_middle }
    will { paused, deselected, deleted }
    windows { freeze_in_mid_run, stop_the_line, bypass, dst_night }
    bad_input { refused_at_the_door, nothing_moves, stops_at_the_first_cluster, kubeconfigs }
    classes { as_the_table_says, clusters_away }
    removal { orphaned, held, away, clusters_deleted, assemblages_deleted, definitions_deleted }
    hand { puts_nothing_astray, credentials_change }
    surprises { clocks_are_wrong, suspended_by_hand, definitions_of_flux }
    rest { nothing_is_written, nothing_is_written_after_a_restart }
    bad_input_fleet {
        numbers_and_sizes_at_the_door, the_longest_names, values_over_their_size, secrets, names_that_others_have, a_hostile_status,
        an_annotation_that_is_no_json
    }
    bad_input_rollout { stages_and_numbers_at_the_door, words_that_cannot_be_meant, settings_that_cannot_be_meant }
    docs { rollouts }
    rules {
        stages_with_approval, gates_hold_back, batches_grow, domains_are_exclusive, goes_back, aborted_and_tried_again, tried_again_in_vain,
        known_bad_is_refused_for_a_joiner, depends_on, unmatched_is_left_out, a_stage_without_clusters, unreachable_is_waited_for,
        pinned, history
    }
    third_party { follows_the_sun }
    plans { a_migration_fails_and_is_fixed }
    zones { stop_at_the_first }
    old_bugs { what_leaves_a_version_leaves_the_clusters, what_is_ours_goes_with_its_cluster, overtaken_writes_are_retried }
}
