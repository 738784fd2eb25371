//! Calls the webhooks.

use std::collections::HashSet;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use parking_lot::Mutex;
use serde_json::Value;

use super::attributes::{Attributes, View};
use super::matching::{objects, view};
use super::review::{self, Answer};
use crate::core::Core;
use crate::patch;
use crate::resources::versions::presented;
use crate::status::ApiError;
use crate::webhooks::{self, FailurePolicy, GROUP, Hook, Hooks, ReinvocationPolicy};

/// Warnings from webhooks for the response, whether or not the request is denied.
pub(crate) type Warnings = Mutex<Vec<String>>;

/// Why a webhook did not allow a request.
enum WebhookRefusal {
    /// The webhook denied the request, or its response cannot be applied.
    Denied(ApiError),
    /// The call failed; the failure policy decides.
    Failed(String),
}

impl WebhookRefusal {
    /// The error for the client, if any.
    fn error(self, hook: &Hook) -> Option<ApiError> {
        match self {
            Self::Denied(error) => Some(error),
            Self::Failed(why) if hook.failure_policy == FailurePolicy::Ignore => {
                tracing::debug!(hook = hook.name, why, "the webhook failed and is ignored");
                None
            }
            Self::Failed(why) => Some(ApiError::internal_error(&format!(
                "failed calling webhook {:?}: {why}",
                hook.name
            ))),
        }
    }
}

/// The mutating webhooks to call a second time: those with `IfNeeded` after which another webhook changed the object.
#[derive(Default)]
struct Again {
    called: HashSet<usize>,
    wanted: HashSet<usize>,
}

impl Again {
    fn record_call(&mut self, index: usize, hook: &Hook, changed: bool) {
        if changed {
            self.wanted.extend(self.called.drain());
        }
        if hook.reinvocation_policy == ReinvocationPolicy::IfNeeded {
            self.called.insert(index);
        }
    }
}

impl Hooks {
    /// Calls the mutating webhooks on `request.object`, one after the other; an error denies the request.
    pub(crate) async fn mutate(
        &self,
        core: &Core,
        request: &mut Attributes<'_>,
        warnings: &Warnings,
    ) -> Result<(), ApiError> {
        if is_exempt(request) {
            return Ok(());
        }
        let mut again = Again::default();
        for (index, hook) in self.mutating.iter().enumerate() {
            if let Some(changed) = mutate_once(core, hook, request, warnings).await? {
                again.record_call(index, hook, changed);
            }
        }
        for (index, hook) in self.mutating.iter().enumerate() {
            if again.wanted.contains(&index) {
                mutate_once(core, hook, request, warnings).await?;
            }
        }
        Ok(())
    }

    /// Calls all validating webhooks concurrently. The client gets the first denial.
    pub(crate) async fn validate(
        &self,
        core: &Core,
        request: &Attributes<'_>,
        warnings: &Warnings,
    ) -> Result<(), ApiError> {
        if is_exempt(request) {
            return Ok(());
        }
        let mut calls = FuturesUnordered::new();
        for hook in &self.validating {
            let Some(view) = view(core, hook, request)? else {
                continue;
            };
            calls.push(async move {
                let answer = call_webhook(core, hook, request, &view, false, warnings).await;
                answer.map_err(|refusal| refusal.error(hook))
            });
        }
        let mut first = None;
        while let Some(answer) = calls.next().await {
            if let Err(Some(error)) = answer {
                first.get_or_insert(error);
            }
        }
        first.map_or(Ok(()), Err)
    }
}

/// Webhook configurations are exempt, so that a broken webhook can be removed.
fn is_exempt(request: &Attributes<'_>) -> bool {
    request.resource.group == GROUP
}

/// Whether the webhook changed the object; `None` if it was not called.
async fn mutate_once(
    core: &Core,
    hook: &Hook,
    request: &mut Attributes<'_>,
    warnings: &Warnings,
) -> Result<Option<bool>, ApiError> {
    let Some(view) = view(core, hook, request)? else {
        return Ok(None);
    };
    let answered = match call_webhook(core, hook, request, &view, true, warnings).await {
        Ok(answer) => change(core, hook, request, &view, &answer),
        Err(refusal) => Err(refusal),
    };
    match answered {
        Ok(changed) => Ok(Some(changed)),
        Err(refusal) => refusal.error(hook).map_or(Ok(Some(false)), Err),
    }
}

/// Applies the patch of a response. Returns whether the object changed.
fn change(
    core: &Core,
    hook: &Hook,
    request: &mut Attributes<'_>,
    view: &View,
    answer: &Answer,
) -> Result<bool, WebhookRefusal> {
    let Some(operations) = answer.patch().map_err(WebhookRefusal::Failed)? else {
        return Ok(false);
    };
    let (Some(before), _) = objects(core, request, view) else {
        return Err(WebhookRefusal::Denied(ApiError::internal_error(&format!(
            "admission webhook {:?} attempted to modify the object, which is not supported for this operation",
            hook.name
        ))));
    };
    let failed = |error: &dyn ToString| WebhookRefusal::Denied(ApiError::internal_error(&error.to_string()));
    let patched = patch::json(&before, &operations).map_err(|error| failed(&error))?;
    let patched = if view.version == request.resource.version {
        patched
    } else {
        presented(request.resource, patched)
    };
    let made = match request.remake {
        Some(remake) => remake(patched).map_err(|error| failed(&error.message()))?,
        None => patched,
    };
    let changed = request.object.as_ref() != Some(&made);
    request.object = Some(made);
    Ok(changed)
}

async fn call_webhook(
    core: &Core,
    hook: &Hook,
    request: &Attributes<'_>,
    view: &View,
    is_mutating: bool,
    warnings: &Warnings,
) -> Result<Answer, WebhookRefusal> {
    let version = review::review_version(hook).map_err(WebhookRefusal::Failed)?;
    let uid = core.uid();
    let question: Value = review::question(
        review::request(request, view, &uid),
        objects(core, request, view),
        version,
    );
    let resolver = core.webhooks.resolver();
    let sent = webhooks::send_review(
        &core.store,
        resolver.as_ref(),
        hook,
        question.to_string().into_bytes(),
    );
    let text = sent.await.map_err(WebhookRefusal::Failed)?;
    let mut answer = review::answer(&text, &uid, version, is_mutating).map_err(WebhookRefusal::Failed)?;
    warnings.lock().append(&mut answer.warnings);
    if answer.allowed {
        Ok(answer)
    } else {
        Err(WebhookRefusal::Denied(review::denial(
            &hook.name,
            answer.result.take(),
        )))
    }
}
