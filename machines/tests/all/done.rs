//! Promise: a machine is done when each updater has acknowledged the digest of the plan, and not before; a step ends at
//! its deadline.

use jiff::SignedDuration;
use muster_api::update_plan::UpdateNodeAction;
use muster_machines::{Acknowledgement, Polled, Progress, Reply, Step, Task, polled, resumed_at};

use crate::support::*;

fn done(message: &str) -> Polled {
    Polled::Done {
        message: message.to_owned(),
    }
}

fn in_progress(progress: &mut Progress, steps: &[muster_machines::Step], seconds: i64) -> String {
    match progress.reply(steps, at(seconds)) {
        Reply::InProgress { after, message } => {
            assert!(after > 0, "zero would be the end");
            message
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_after_the_other_and_each_acknowledges() {
    let steps = [
        step("kubelet", Acknowledgement::Digest),
        step("image", Acknowledgement::Digest),
    ];
    let mut progress = Progress::default();
    assert_eq!(
        progress.call(&steps, at(0)).unwrap().task.to_string(),
        "updater kubelet"
    );
    progress.take(&steps, "sha256:2", done("installed, digest=sha256:2"), at(1));
    assert_eq!(
        in_progress(&mut progress, &steps, 1),
        "step 2 of 2, updater image"
    );
    assert_eq!(
        progress.call(&steps, at(1)).unwrap().task.to_string(),
        "updater image"
    );
    progress.take(&steps, "sha256:2", done("digest=sha256:2"), at(2));
    assert_eq!(progress.reply(&steps, at(2)), Reply::Done);
    assert_eq!(progress.call(&steps, at(3)), None);
}

/// CX1, R36: a success is accepted only if it names the digest that was sent.
#[test]
fn an_end_that_names_no_digest_or_another_is_none() {
    let steps = [step("kubelet", Acknowledgement::Digest)];
    for words in [
        "",
        "done",
        "digest=sha256:1",
        "digest=sha256:22",
        "xdigest=sha256:2",
        "sha256:2",
    ] {
        let mut progress = Progress::default();
        progress.call(&steps, at(0));
        progress.take(&steps, "sha256:2", done(words), at(1));
        let message = in_progress(&mut progress, &steps, 1);
        assert!(message.contains("but not with digest=sha256:2"), "{message}");
    }
    let steps = [step("foreign", Acknowledgement::Trust)];
    let mut progress = Progress::default();
    progress.call(&steps, at(0));
    progress.take(&steps, "sha256:2", done(""), at(1));
    assert_eq!(progress.reply(&steps, at(1)), Reply::Done);
}

/// CX3, R31: failure, progress and success are three different answers; a step that always fails has a deadline.
#[test]
fn a_failure_is_in_progress_with_its_words_until_the_deadline() {
    let steps = [step("kubelet", Acknowledgement::Digest)];
    let mut progress = Progress::default();
    // The time counts from the first call on, not from the first question.
    in_progress(&mut progress, &steps, 0);
    progress.call(&steps, at(1_000)).unwrap();
    let failure = polled(Ok((200, br#"{"status": "Failure", "message": "disk full"}"#)));
    progress.take(&steps, "sha256:2", failure, at(1_001));
    assert_eq!(
        in_progress(&mut progress, &steps, 1_001),
        "step 1 of 1, updater kubelet: disk full"
    );
    assert_eq!(
        progress.call(&steps, at(1_002)),
        None,
        "it is left alone for a while"
    );
    in_progress(&mut progress, &steps, 1_599);
    let Reply::Failed(failed) = progress.reply(&steps, at(1_700)) else {
        panic!()
    };
    assert_eq!((failed.at, failed.message.as_str()), (at(1_600), "disk full"));
    // Late messages change nothing; a retry does.
    progress.take(&steps, "sha256:2", done("digest=sha256:2"), at(1_701));
    assert!(matches!(progress.reply(&steps, at(1_701)), Reply::Failed(_)));
    assert_eq!(progress.call(&steps, at(1_702)), None);
    progress.retry(&steps);
    assert_eq!(
        progress.call(&steps, at(1_703)).unwrap().task.to_string(),
        "updater kubelet"
    );
    progress.take(&steps, "sha256:2", done("digest=sha256:2"), at(1_704));
    assert_eq!(progress.reply(&steps, at(1_704)), Reply::Done);
}

#[test]
fn silence_has_a_deadline_too_and_an_end_can_be_asked_for() {
    let steps = [step("kubelet", Acknowledgement::Digest)];
    let mut progress = Progress::default();
    progress.call(&steps, at(0));
    let Reply::Failed(failed) = progress.reply(&steps, at(600)) else {
        panic!()
    };
    assert_eq!(failed.message, "updater kubelet gave no answer");

    let mut progress = Progress::default();
    progress.call(&steps, at(0));
    progress.abort("aborted by ann: wrong image", at(5));
    assert_eq!(progress.call(&steps, at(60)), None);
    let Reply::Failed(failed) = progress.reply(&steps, at(60)) else {
        panic!()
    };
    assert_eq!(
        (failed.at, failed.message.as_str()),
        (at(5), "aborted by ann: wrong image")
    );
}

/// R30: only the start time of a step is kept.
#[test]
fn a_restart_keeps_the_time_of_the_step() {
    let steps = [
        step("kubelet", Acknowledgement::Digest),
        step("image", Acknowledgement::Digest),
    ];
    let mut progress = Progress::default();
    progress.call(&steps, at(0));
    progress.take(&steps, "sha256:2", done("digest=sha256:2"), at(1));
    progress.call(&steps, at(7));
    let (number, since) = progress.began().unwrap();
    let mut after = Progress::resumed(number, since);
    assert_eq!(
        after.call(&steps, at(100)).unwrap().task.to_string(),
        "updater image"
    );
    assert!(matches!(after.reply(&steps, at(607)), Reply::Failed(_)));
}

/// The preparation of the Node may be undone by the time of a retry.
#[test]
fn a_retry_prepares_the_node_again() {
    let node = |action| Step {
        task: Task::Node(action),
        deadline: SignedDuration::from_mins(10),
    };
    let steps = [
        step("kubelet", Acknowledgement::Digest),
        node(UpdateNodeAction::Drain),
        step("image", Acknowledgement::Digest),
        node(UpdateNodeAction::Uncordon),
    ];
    for (failed, begins) in [(0, 0), (1, 1), (2, 1), (3, 3)] {
        assert_eq!(resumed_at(&steps, failed), begins, "{failed}");
    }
}

#[test]
fn a_plan_without_steps_is_done_at_once() {
    assert_eq!(Progress::default().reply(&[], at(0)), Reply::Done);
}
