//! A continuous load of reviews that the leader has to answer.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use super::kubectl::Kubectl;

/// A downscale that the leader reviews and that changes nothing.
pub(super) const DOWNSCALE: [&str; 4] = [
    "scale",
    "statefulset/ingester-zone-b",
    "--replicas=1",
    "--dry-run=server",
];
/// The pause between two reviews.
const PAUSE: Duration = Duration::from_millis(100);

/// Sends reviews until it is dropped.
pub(super) struct Load {
    kubectl: Kubectl,
    answers: Arc<Mutex<Vec<Asked>>>,
    ended: Arc<AtomicBool>,
}

struct Asked {
    at: Instant,
    /// The error in place of the leader's response.
    failure: Option<String>,
}

impl Load {
    pub(super) fn new(kubectl: &Kubectl) -> Self {
        let load = Self {
            kubectl: kubectl.clone(),
            answers: Arc::default(),
            ended: Arc::default(),
        };
        let (kubectl, answers, ended) = (
            kubectl.clone(),
            Arc::clone(&load.answers),
            Arc::clone(&load.ended),
        );
        thread::spawn(move || {
            while !ended.load(Ordering::Relaxed) {
                let output = kubectl.output(&DOWNSCALE, "");
                let failure =
                    (!output.status.success()).then(|| String::from_utf8_lossy(&output.stderr).into_owned());
                let at = Instant::now();
                answers.lock().unwrap().push(Asked { at, failure });
                thread::sleep(PAUSE);
            }
        });
        load.go_on(3);
        load
    }

    /// How many reviews were answered.
    pub(super) fn answers(&self) -> usize {
        let answers = self.answers.lock().unwrap();
        answers.iter().filter(|answer| answer.failure.is_none()).count()
    }

    /// Waits until this number of further reviews is answered.
    pub(super) fn go_on(&self, more: usize) {
        let enough = self.answers() + more;
        self.kubectl
            .until("answers", |_| (self.answers() >= enough).then_some(()));
    }

    /// The errors in place of responses.
    pub(super) fn failures(&self) -> String {
        let answers = self.answers.lock().unwrap();
        answers
            .iter()
            .filter_map(|answer| answer.failure.clone())
            .collect()
    }

    /// The longest time between two consecutive responses with failures in between; zero if there were no failures.
    pub(super) fn longest_outage(&self) -> Duration {
        let answers = self.answers.lock().unwrap();
        let (mut last, mut failed, mut longest) = (None, false, Duration::ZERO);
        for answer in answers.iter() {
            match (&answer.failure, last) {
                (Some(_), _) => failed = true,
                (None, Some(last)) if failed => longest = longest.max(answer.at - last),
                (None, _) => {}
            }
            if answer.failure.is_none() {
                (last, failed) = (Some(answer.at), false);
            }
        }
        longest
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}
