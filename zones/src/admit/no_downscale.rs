//! `/admission/no-downscale`: the label `grafana.com/no-downscale=true` forbids a reduction of replicas.
//!
//! Fails open where rollout-operator does: what cannot be determined is allowed, with a warning.

use jiff::Timestamp;

use super::{
    Fact, Read, ReadError, Step, Webhook, refused_to_go_on,
    review::{Request, Response},
    scaled::{Kind, Scaled, replicas_change},
};

/// The label that forbids downscales.
pub const NO_DOWNSCALE: &str = "grafana.com/no-downscale";

/// Resources with the subresource `scale`.
const PARENTS: [&str; 3] = ["statefulsets", "deployments", "replicasets"];

/// The review of one request.
#[derive(Clone, Debug)]
pub struct NoDownscale {
    request: Request,
    /// Replicas before and after the change, while the parent is read.
    change: Option<(i32, i32)>,
}

impl NoDownscale {
    /// Starts the review of a received request.
    pub fn new(request: Request) -> Self {
        Self {
            request,
            change: None,
        }
    }

    fn begin(&mut self) -> Step {
        let warn = |what: &str, error: &str| {
            Step::Answer(Response::warn(format!(
                "can't {what}, allowing the change, err: {error}"
            )))
        };
        let old = match Scaled::parse(self.request.old_object.as_ref()) {
            Ok(old) => old,
            Err(super::scaled::NotRead::Kind(error)) => return warn("decode old object", &error),
            Err(super::scaled::NotRead::Replicas(error)) => return warn("get old replicas", &error),
        };
        let new = match Scaled::parse(self.request.object.as_ref()) {
            Ok(new) => new,
            Err(super::scaled::NotRead::Kind(error)) => return warn("decode new object", &error),
            Err(super::scaled::NotRead::Replicas(error)) => return warn("get new replicas", &error),
        };
        if let Some(response) = replicas_change(old.replicas, new.replicas) {
            return Step::Answer(response);
        }
        let change = (old.replicas.unwrap_or_default(), new.replicas.unwrap_or_default());
        if old.kind != Kind::Scale {
            return self.judge(change, &old);
        }
        if !PARENTS.contains(&self.request.resource.as_str()) {
            return self.unread(&format!("unsupported resource {}", self.request.resource));
        }
        self.change = Some(change);
        Step::Read(Read::Parent {
            resource: self.request.resource.clone(),
            namespace: self.request.namespace.clone(),
            name: self.request.name.clone(),
        })
    }

    fn judge(&self, (from, to): (i32, i32), parent: &Scaled) -> Step {
        let Request {
            resource,
            name,
            namespace,
            ..
        } = &self.request;
        Step::Answer(match parent.labels.get(NO_DOWNSCALE).map(String::as_str) {
            Some("true") => Response::deny(format!(
                "downscale of {resource}/{name} in {namespace} from {from} to {to} replicas is not allowed because it has the label '{NO_DOWNSCALE}=true'"
            )),
            _ => Response::allow(),
        })
    }

    fn unread(&self, error: &str) -> Step {
        let Request {
            resource,
            name,
            namespace,
            ..
        } = &self.request;
        Step::Answer(Response::warn(format!(
            "can't get {resource}/{name} in namespace {namespace}, allowing the change: {error}"
        )))
    }
}

impl Webhook for NoDownscale {
    fn advance(&mut self, fact: Fact, _now: Timestamp) -> Step {
        match (fact, self.change.take()) {
            (Fact::Begin, None) => self.begin(),
            (Fact::Parent(Ok(parent)), Some(change)) => match Scaled::of(Kind::StatefulSet, &parent) {
                // Only the labels are read, so the kind does not matter.
                Ok(parent) => self.judge(change, &parent),
                Err(error) => self.unread(error.message()),
            },
            (Fact::Parent(Err(ReadError::NotFound(error) | ReadError::Failed(error))), Some(_)) => {
                self.unread(&error)
            }
            _ => refused_to_go_on(),
        }
    }
}
