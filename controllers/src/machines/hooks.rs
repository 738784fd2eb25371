//! The responses to Cluster API.

use std::{sync::Arc, time::Duration};

use http::{Method, StatusCode};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::{
    Client, ResourceExt as _,
    core::{ApiResource, DynamicObject, GroupVersionKind},
    discovery,
};
use muster_api::UpdatePlan;
use muster_machines::{
    Coverage, DISCOVERY, Fallback, GROUP_VERSION, Hook, Level, MAX_BODY, Objects, Reply, Unanswered, Verdict,
    can_answer, deviation, failure, reply, verdict, verdict_response,
};
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    config::Updater,
    events::Reports,
    index::{MachineIndex, MachineRow},
    plans::{self, Decided, Plans},
    updaters::{self, Call},
    work::{MachineQuery, Work},
};
use crate::{
    admission::server::{self, Answer},
    runtime::{Api, Key, call::error_chain},
};

/// How long all updaters together may take to report what they cover: Cluster API waits for 10 s.
const BUDGET: Duration = Duration::from_secs(8);
/// The time limit of each hook: before Cluster API gives up.
pub const ANSWERED_WITHIN: Duration = Duration::from_millis(9500);
/// The timeout that discovery returns to Cluster API.
const TIMEOUT_SECONDS: u8 = 10;
/// What to do with machines whose change is not covered: `Replace` or `Hold`.
pub const FALLBACK: &str = "fleet.muster.dev/update-fallback";

/// The hooks.
pub struct Hooks {
    /// The client for objects that are read on demand.
    pub client: Client,
    /// The updaters, in order.
    pub updaters: Vec<Updater>,
    /// The clients of the updaters.
    pub call: Arc<dyn Call>,
    /// The index of Machines by uid.
    pub machines: Arc<MachineIndex>,
    /// The store of plans.
    pub plans: Arc<Plans>,
    /// The updates in progress.
    pub work: Arc<Work>,
    /// The events about decisions.
    pub reports: Arc<Reports>,
}

/// The decision about a change.
struct Decision {
    verdict: Verdict,
    desired: Objects,
    /// The UpdatePlan that was stored for it.
    plan: Option<String>,
}

impl Hooks {
    /// Waits until all Machines and plans were read.
    pub async fn read(&self) {
        self.machines.synced().await;
        self.plans.synced().await;
    }

    /// Answers a request.
    pub async fn answer(&self, http_request: server::WebhookRequest) -> Answer {
        let prefix = format!("/{GROUP_VERSION}/");
        let Some(rest) = http_request.path.strip_prefix(&prefix) else {
            return Answer::text(StatusCode::NOT_FOUND, "not a hook of Cluster API");
        };
        if http_request.method != Method::POST {
            return Answer::text(StatusCode::METHOD_NOT_ALLOWED, "hooks are called with POST");
        }
        if rest == DISCOVERY {
            return json_response(&discovered());
        }
        let hook = Hook::ALL
            .into_iter()
            .find(|hook| rest == format!("{0}/{0}", handler(*hook)));
        let Some(hook) = hook else {
            return Answer::text(StatusCode::NOT_FOUND, "not a supported hook: see discovery");
        };
        if http_request.body.len() > MAX_BODY {
            return json_response(&failure(
                hook,
                &format!("the request is longer than {MAX_BODY} bytes"),
            ));
        }
        let request: Value = match serde_json::from_slice(&http_request.body) {
            Ok(request) => request,
            Err(error) => {
                return json_response(&failure(hook, &format!("the request cannot be read: {error}")));
            }
        };
        json_response(&match hook {
            Hook::CanUpdateMachine => self.can(Level::Machine, hook, &request).await,
            Hook::CanUpdateMachineSet => self.can(Level::MachineSet, hook, &request).await,
            Hook::UpdateMachine => self.update(&request).await,
        })
    }

    /// `CanUpdateMachine` and `CanUpdateMachineSet`: whether the change can be made in place.
    async fn can(&self, level: Level, hook: Hook, request: &Value) -> Value {
        let coverage = match Coverage::begin(level, request) {
            Ok(coverage) => coverage,
            Err(problem) => return failure(hook, &problem.to_string()),
        };
        match self.fallback(level, coverage.desired()).await {
            Ok(fallback) => {
                let decision = self.decided(coverage, hook, fallback).await;
                self.report(&decision);
                verdict_response(level, &decision.verdict)
            }
            Err(problem) => failure(hook, &problem),
        }
    }

    /// Queries the updaters, and decides. A plan is stored before the answer is yes.
    async fn decided(&self, mut coverage: Coverage, hook: Hook, fallback: Fallback) -> Decision {
        let outcome = self.covered(&mut coverage, hook).await;
        let (before, desired) = (coverage.before().clone(), coverage.desired().clone());
        let decision = verdict(outcome.map(|()| coverage.end()), fallback);
        let (verdict, plan) = self.stored(decision, (&before, &desired)).await;
        Decision {
            verdict,
            desired,
            plan,
        }
    }

    fn report(&self, decision: &Decision) {
        let Decision {
            verdict,
            desired,
            plan,
        } = decision;
        self.reports
            .decided(desired, verdict, plan.as_deref(), &self.machines);
    }

    /// The decision once its plan is stored, and the plan's name. A plan that cannot be stored is an error.
    async fn stored(&self, decision: Verdict, sides: (&Objects, &Objects)) -> (Verdict, Option<String>) {
        let Verdict::InPlace { steps, digest, .. } = &decision else {
            return (decision, None);
        };
        let updaters = self.updaters.iter();
        let decided = Decided {
            sides,
            steps: updaters.filter(|updater| steps.contains(&updater.name)).collect(),
            digest,
        };
        // Machines whose update has started finish it first.
        match self.plans.store(&decided, |uid| self.work.has_begun(uid)).await {
            Ok(plan) => (decision, Some(plan)),
            Err(problem) => (Verdict::Again(problem), None),
        }
    }

    async fn covered(&self, coverage: &mut Coverage, hook: Hook) -> Result<(), Unanswered> {
        let level = coverage.desired().level();
        if self.updaters.is_empty() {
            return Err(Unanswered::NoUpdaters);
        }
        let began = Instant::now();
        for updater in &self.updaters {
            if !coverage.is_open() {
                break;
            }
            let left = BUDGET.saturating_sub(began.elapsed());
            if left.is_zero() {
                return Err(Unanswered::NoTime(updater.name.clone()));
            }
            let request = updaters::hook_request(hook, updater, coverage.sides(), &[]);
            let called = self
                .call
                .call(updater, hook, &request, left.min(updater.timeout))
                .await;
            let taken = can_answer(level, updaters::received(&called))
                .map_err(|refused| refused.to_string())
                .and_then(|answer| {
                    coverage
                        .take(&updater.name, &answer)
                        .map_err(|error| error.to_string())
                });
            taken.map_err(|problem| Unanswered::Updater {
                updater: updater.name.clone(),
                problem,
            })?;
        }
        Ok(())
    }

    /// The fallback for a change that is not covered: an annotation of the MachineDeployment, which Cluster API copies
    /// to its MachineSets, or of the control plane.
    async fn fallback(&self, level: Level, desired: &Objects) -> Result<Fallback, String> {
        if let Some(text) = desired.annotation(FALLBACK) {
            return read(text);
        }
        if level == Level::MachineSet {
            return Ok(Fallback::default());
        }
        let (machine, row) = self.known(desired)?;
        match &row.owner {
            Some(owner) => self.of_owner(&machine.namespace, owner).await,
            None => Ok(Fallback::default()),
        }
    }

    /// The Machine that a request is about.
    fn known(&self, objects: &Objects) -> Result<(Key, MachineRow), String> {
        let (namespace, name) = objects.name();
        let key = Key::new(namespace, name);
        let row = self.machines.get(&key);
        let row = row.ok_or_else(|| format!("Machine {key} is not known here yet"))?;
        Ok((key, row))
    }

    async fn of_owner(&self, namespace: &str, owner: &OwnerReference) -> Result<Fallback, String> {
        let OwnerReference {
            api_version,
            kind,
            name,
            ..
        } = owner;
        let failed = |error: kube::Error| {
            format!(
                "reading {kind} {namespace}/{name}, for {FALLBACK}: {}",
                error_chain(&error)
            )
        };
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let gvk = GroupVersionKind::gvk(group, version, kind);
        let (resource, _) = discovery::pinned_kind(&self.client, &gvk).await.map_err(failed)?;
        let api: Api<DynamicObject> =
            Api::namespaced_with(self.client.clone(), namespace, &ApiResource::clone(&resource));
        let owner = api.get_metadata(name).await.map_err(failed)?;
        match owner.metadata.annotations.unwrap_or_default().get(FALLBACK) {
            Some(text) => read(text),
            None => Ok(Fallback::default()),
        }
    }

    /// `UpdateMachine`: the progress of a Machine's update. From memory; missing data is a failure, never a completion.
    async fn update(&self, request: &Value) -> Value {
        match self.updated(request).await {
            Ok(progress) => reply(&progress),
            Err(problem) => failure(Hook::UpdateMachine, &problem),
        }
    }

    async fn updated(&self, request: &Value) -> Result<Reply, String> {
        let objects = request.get("desired").unwrap_or(&Value::Null);
        let requested =
            Objects::read(Level::Machine, objects).map_err(|problem| format!("desired.{problem}"))?;
        let (machine, row) = self.known(&requested)?;
        let plans = self.plans.of(&machine.namespace, &row.uid);
        if plans.is_empty() {
            return Err(format!(
                "no UpdatePlan names Machine {machine} with uid {}: no decision was made for it",
                row.uid
            ));
        }
        // A started update is finished, whatever was decided since.
        if let Some(plan) = plans.iter().find(|plan| self.work.is_open(plan, &row.uid)) {
            return match deviates(plan, &requested)? {
                None => Ok(self
                    .work
                    .reply_to_query(Arc::clone(plan), begins(machine, row, &requested))),
                Some(what) => self.changed(&row.uid, plan, &requested, &what).await,
            };
        }
        let mut deviations = Vec::new();
        let mut fitting = Vec::new();
        for plan in &plans {
            match deviates(plan, &requested)? {
                None => fitting.push(plan),
                Some(what) => deviations.push((plan, what)),
            }
        }
        match (&fitting[..], &deviations[..]) {
            ([plan], others) => {
                // The Machine now belongs to this plan: entries in other plans are over.
                if !others.is_empty() && self.work.is_new(plan, &row.uid) {
                    self.plans.release_from_others(plan, &row.uid).await?;
                }
                Ok(self
                    .work
                    .reply_to_query(Arc::clone(plan), begins(machine, row, &requested)))
            }
            ([], [(plan, what)]) => self.changed(&row.uid, plan, &requested, what).await,
            _ => Err(format!(
                "{} UpdatePlans name Machine {machine}: it is ambiguous which one applies",
                plans.len()
            )),
        }
    }

    /// The desired state changed: the started update is finished first, then the rest is planned from there.
    async fn changed(
        &self,
        uid: &str,
        plan: &Arc<UpdatePlan>,
        requested: &Objects,
        what: &str,
    ) -> Result<Reply, String> {
        let (namespace, name) = requested.name();
        self.work.resume(plan, &Key::new(namespace, name), uid)?;
        match (self.work.pinned(plan, uid), self.work.objects(uid)) {
            (Some(Reply::Done), Some(before)) => {
                let request = json!({"current": before, "desired": requested.side()});
                let coverage =
                    Coverage::begin(Level::Machine, &request).map_err(|problem| problem.to_string())?;
                // Replace and Hold no longer apply: the update has started.
                let hook = Hook::CanUpdateMachine;
                let decision = self.decided(coverage, hook, Fallback::Replace).await;
                match &decision.verdict {
                    Verdict::InPlace { .. } => {
                        self.report(&decision);
                        Ok(Reply::InProgress {
                            after: 1,
                            message: format!("{what}: planned again"),
                        })
                    }
                    Verdict::Replace(words) => Err(format!("{what}, and the change is not covered: {words}")),
                    Verdict::Hold(words) | Verdict::Again(words) => Err(format!("{what}: {words}")),
                }
            }
            (Some(Reply::InProgress { after, message }), _) => Ok(Reply::InProgress {
                after,
                message: format!("{message} ({what}: this is applied afterwards)"),
            }),
            (Some(failed), _) => Ok(failed),
            (None, _) => Err(format!(
                "{what}, and the planned update has not started, or started before muster machines was restarted: revert the change, or delete the Machine"
            )),
        }
    }
}

/// What in a request differs from the plan.
fn deviates(plan: &UpdatePlan, requested: &Objects) -> Result<Option<String>, String> {
    let desired = plans::desired(plan)
        .map_err(|problem| format!("UpdatePlan {} cannot be read: {problem}", plan.name_any()))?;
    Ok(deviation(&desired, requested).map(|found| found.to_string()))
}

fn begins(machine: Key, row: MachineRow, requested: &Objects) -> MachineQuery {
    MachineQuery {
        machine,
        uid: row.uid,
        objects: requested.side(),
    }
}

fn read(text: &str) -> Result<Fallback, String> {
    Fallback::parse(text)
        .ok_or_else(|| format!("annotation {FALLBACK} is {text:?}: it must be Replace or Hold"))
}

/// The name of muster's handler of a hook; Cluster API requires a different one for each.
fn handler(hook: Hook) -> String {
    hook.as_str().to_ascii_lowercase()
}

fn discovered() -> Value {
    let listed = |hook: Hook| {
        json!({
            "name": handler(hook),
            "requestHook": {"apiVersion": GROUP_VERSION, "hook": hook.as_str()},
            "timeoutSeconds": TIMEOUT_SECONDS,
            "failurePolicy": "Fail",
        })
    };
    json!({
        "apiVersion": GROUP_VERSION,
        "kind": "DiscoveryResponse",
        "status": "Success",
        "message": "",
        "handlers": Hook::ALL.map(listed),
    })
}

fn json_response(response: &Value) -> Answer {
    Answer {
        status: StatusCode::OK,
        content_type: "application/json",
        body: response.to_string().into_bytes(),
    }
}
