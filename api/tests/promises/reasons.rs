//! Promise: the documented reasons, in order, each once.

use std::collections::BTreeSet;

use muster_api::reasons::{Bucket, EventReason, ObjectReason, Reason};

/// Copied from the contract; `|` separates its groups.
const PAGE: &str = "Deleting ClusterPaused ControlPlaneNotReady NoKubeconfig KubeconfigRejected Unreachable \
    CredentialsRejected KindMissing SyncUnsupported VersionSkew ManagedElsewhere Conflict LostInChange NodeNotReady NodeUnsupported AgentMissing AgentTooOld HeldLocally Held Pinned NameConflict BindingFailed | WithdrawalHeld Withdrawing | \
    WriteFailed Failed \
    Overdue NotPickedUp AlreadyUnready Relapsed Updating Soaking Reverting | KnownBad Halted Aborted Paused \
    WindowInvalid WindowClosed DependencyBehind BusyWith BudgetFull Remediating RollingOut PreflightUnknown DisruptionsBlocked WebhookUnavailable SourceNotReady VerificationFailed WaitingApproval WaitingGate WaitingStage WaitingDomain WaitingBatch WaitingTurn | \
    AlreadyNewer UpToDate Excluded";

fn groups() -> Vec<Vec<&'static str>> {
    PAGE.split('|')
        .map(|group| group.split_whitespace().collect())
        .collect()
}

#[test]
fn the_order_is_the_pages() {
    let words: Vec<&str> = groups().concat();
    let ours: Vec<String> = Reason::ALL.iter().map(ToString::to_string).collect();
    assert_eq!(ours, words);
    for (rank, reason) in Reason::ALL.iter().enumerate() {
        assert_eq!(usize::from(reason.rank()), rank);
        assert_eq!(reason.as_str().parse::<Reason>().unwrap(), *reason);
    }
    assert!(Reason::ALL.is_sorted());
}

/// Decision records contain codes: they never change, and new reasons are appended.
#[test]
fn codes_are_stable() {
    for reason in Reason::ALL {
        assert_eq!(Reason::of_code(reason.code()), Some(*reason));
    }
    let all = u8::try_from(Reason::ALL.len()).unwrap();
    assert_eq!(Reason::of_code(all), None);
    let of = |code: u8| Reason::of_code(code).unwrap().as_str();
    let known = [
        (0, "Deleting"),
        (5, "Unreachable"),
        (11, "BindingFailed"),
        (26, "DependencyBehind"),
        (35, "Excluded"),
    ];
    let appended = [
        (36, "WriteFailed"),
        (37, "SyncUnsupported"),
        (38, "WindowInvalid"),
        (39, "WindowClosed"),
        (40, "LostInChange"),
        (41, "NodeNotReady"),
        (42, "NodeUnsupported"),
        (43, "AgentMissing"),
        (44, "AgentTooOld"),
        (45, "HeldLocally"),
        (46, "BusyWith"),
        (47, "BudgetFull"),
    ];
    for (code, word) in known.into_iter().chain(appended) {
        assert_eq!(of(code), word);
    }
}

#[test]
fn the_first_group_is_what_may_not_be_touched() {
    let ineligible: Vec<&str> = Reason::ALL
        .iter()
        .filter(|reason| reason.is_ineligible())
        .map(|reason| reason.as_str())
        .collect();
    assert_eq!(ineligible, groups()[0]);
}

#[test]
fn each_reason_is_counted_once() {
    let buckets: BTreeSet<Bucket> = Reason::ALL.iter().map(|reason| reason.bucket()).collect();
    assert_eq!(buckets.len(), 8);
    let of = |bucket: Bucket| {
        let all = Reason::ALL.iter().filter(move |reason| reason.bucket() == bucket);
        all.map(|reason| reason.as_str()).collect::<Vec<_>>()
    };
    assert_eq!(of(Bucket::Held), ["HeldLocally", "Held", "Pinned"]);
    assert_eq!(of(Bucket::Withdrawing), groups()[1]);
    assert_eq!(
        of(Bucket::Failed),
        ["WriteFailed", "Failed", "Overdue", "NotPickedUp", "Relapsed"]
    );
    assert_eq!(of(Bucket::Waiting), groups()[3]);
    assert_eq!([of(Bucket::Updated), of(Bucket::Excluded)].concat(), groups()[4]);
}

#[test]
fn the_other_tables_hold_the_pages_words() {
    let objects: BTreeSet<&str> = ObjectReason::ALL.iter().map(|reason| reason.as_str()).collect();
    let page = "NoClusters SelectsAll TagMoved TooLarge Unsupported Unclaimed FluxPresent DependencyCycle InvalidSpec";
    assert!(page.split(' ').all(|word| objects.contains(word)));
    assert_eq!(objects.len(), ObjectReason::ALL.len());
    let cluster: BTreeSet<&str> = Reason::ALL.iter().map(|reason| reason.as_str()).collect();
    assert!(objects.is_disjoint(&cluster), "one word has one meaning");
    let page = "RolloutStarted ClusterUpdated ClusterFailed RolloutHalted RevisionCondemned RolloutFinished \
        WithdrawalHeld ControlApplied";
    let events: BTreeSet<&str> = EventReason::ALL.iter().map(|reason| reason.as_str()).collect();
    assert!(page.split_whitespace().all(|word| events.contains(word)));
    assert_eq!(
        "Nonsense".parse::<ObjectReason>().unwrap_err().to_string(),
        "\"Nonsense\" is not a known reason"
    );
}

#[test]
fn words_are_padded_in_columns() {
    assert_eq!(format!("[{:<10}]", Reason::Held), "[Held      ]");
}

#[test]
fn every_word_has_a_chapter_that_says_what_to_do() {
    let page = include_str!("../../../docs/troubleshooting.md");
    let chapters: BTreeSet<&str> = page
        .lines()
        .filter_map(|line| line.strip_prefix("### "))
        .collect();
    let words: BTreeSet<&str> = Reason::ALL
        .iter()
        .map(|word| word.as_str())
        .chain(ObjectReason::ALL.iter().map(|word| word.as_str()))
        .chain(EventReason::ALL.iter().map(|word| word.as_str()))
        .collect();
    assert_eq!(chapters, words);
}
