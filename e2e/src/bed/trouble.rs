//! Failures around muster, and the reasons that a module reported meanwhile.

use muster_apiserver::{
    Verb,
    fault::{Failure, Fault, Match, Rule, RuleId},
};

use super::{Bed, kinds, objects};

impl Bed {
    /// A cluster answers writes of `client` to paths with `path` with 500 after this call, as for a webhook that cannot
    /// be called.
    pub fn fail_writes(&self, cluster: &str, client: &str, path: &str) -> RuleId {
        let matching = Match {
            verbs: vec![Verb::Create, Verb::Update, Verb::Patch],
            path: Some(path.to_owned()),
            ..Match::client(client)
        };
        let late = Rule::always(matching, Fault::Status(Failure::Internal));
        self.clusters[cluster].api.embedded().faults().add(late)
    }

    /// Undoes [`Bed::fail_writes`].
    pub fn clear_fault(&self, cluster: &str, rule: RuleId) {
        self.clusters[cluster].api.embedded().faults().remove(rule);
    }

    /// Every reason of a Module's Ready condition, in order, without repetitions.
    pub fn reasons_of(&self, module: &str) -> Vec<String> {
        let mut reasons: Vec<String> = Vec::new();
        for event in self.management.events(kinds::MODULE) {
            let ready = crate::app::condition(event.object(), "Ready");
            let reason = ready.and_then(|ready| ready["reason"].as_str());
            if let Some(reason) = reason.filter(|_| objects::name(event.object()) == module)
                && reasons.last().is_none_or(|last| last != reason)
            {
                reasons.push(reason.to_owned());
            }
        }
        reasons
    }
}
