//! Promise: a change that no updater covers leads to a replacement or a hold, as configured; a held machine is never
//! updated or replaced, and a missing answer is no decision.

use muster_machines::{Covered, Difference, Fallback, Level, Unanswered, verdict, verdict_response};

fn left() -> Covered {
    Covered::NotCovered(vec![Difference {
        kind: "TestMachine".to_owned(),
        fields: vec!["/hello".to_owned()],
    }])
}

fn answered(outcome: Result<Covered, Unanswered>, fallback: Fallback) -> (String, String) {
    let response = verdict_response(Level::MachineSet, &verdict(outcome, fallback));
    let text = |key: &str| response[key].as_str().unwrap().to_owned();
    assert_eq!(response["kind"], "CanUpdateMachineSetResponse");
    assert_eq!(response.get("machineSetPatch"), None, "nothing is covered");
    (text("status"), text("message"))
}

/// R28: whether an uncovered change leads to a replacement or a halt is configured in advance.
#[test]
fn replaced_is_a_success_that_covers_nothing_and_held_is_a_failure() {
    let (status, message) = answered(Ok(left()), Fallback::Replace);
    assert_eq!(
        (status.as_str(), message.as_str()),
        ("Success", "TestMachine cannot be updated in place: /hello")
    );
    let (status, message) = answered(Ok(left()), Fallback::Hold);
    assert_eq!(
        status, "Failure",
        "a success would replace the machines, and be kept for a day"
    );
    assert!(
        message.starts_with("held: TestMachine cannot be updated in place: /hello."),
        "{message}"
    );
}

#[test]
fn without_updaters_the_fallback_decides() {
    let (status, _) = answered(Err(Unanswered::NoUpdaters), Fallback::Replace);
    assert_eq!(status, "Success");
    let (status, message) = answered(Err(Unanswered::NoUpdaters), Fallback::Hold);
    assert_eq!(status, "Failure");
    assert!(message.starts_with("held: no updater is configured"), "{message}");
}

#[test]
fn no_answer_is_no_decision_whatever_the_fallback() {
    for fallback in [Fallback::Replace, Fallback::Hold] {
        for problem in [
            Unanswered::NoTime("os".to_owned()),
            Unanswered::Updater {
                updater: "os".to_owned(),
                problem: "HTTP 500".to_owned(),
            },
        ] {
            let (status, message) = answered(Err(problem.clone()), fallback);
            assert_eq!((status.as_str(), message), ("Failure", problem.to_string()));
        }
    }
}

#[test]
fn an_annotation_says_one_of_two_words() {
    assert_eq!(Fallback::parse("Hold"), Some(Fallback::Hold));
    assert_eq!(Fallback::parse("Replace"), Some(Fallback::Replace));
    for other in ["", "hold", "HOLD", "true"] {
        assert_eq!(Fallback::parse(other), None);
    }
}
