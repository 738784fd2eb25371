//! Uninstalls what `muster install` created, in an order that leaves downstream clusters untouched.
//!
//! ```text
//!   read ─► refuse while something needs it ─► report the order ─► confirm ─► process ─► (--crds: finalizers, definitions) ─► rights ─► namespace
//! ```
//!
//! Invariant: the process ends first, so that it does not act on what is removed after it; what it applied to clusters
//! stays there. Invariant: only objects with muster's labels are removed; others of the same name are reported and
//! kept.

mod needs;

use std::time::Duration;

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Pod, Secret, ServiceAccount},
};
use kube::{
    Client, Resource, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams},
    core::{ApiResource, DynamicObject, GroupVersionKind, NamespaceResourceScope},
};
use muster_api::{
    crds,
    labels::{MUSTER, SYSTEM_NAMESPACE, label, manager},
};
use muster_controllers::runtime::Api;
use muster_controllers::runtime::{CallError, call_within};
use muster_fleet::{
    apply::{DEADLINE, ObjectRef},
    control::DryRun,
    definitions,
};
use serde::de::DeserializeOwned;
use serde_json::json;

use self::needs::Needs;
use crate::install::{self, IMAGE, Sync};
use crate::steps::{Cause, Step, StepRefusal, Steps};

/// How long a deletion may take.
const GONE: Duration = Duration::from_mins(1);
/// How often it is checked.
const LOOK: Duration = Duration::from_millis(500);

/// What to remove.
#[derive(Clone, Debug)]
pub struct Options {
    /// Remove muster controller from the management cluster.
    pub management: bool,
    /// Remove muster agent from a downstream cluster.
    pub downstream: bool,
    /// Also remove the definitions, and with them every object of muster's kinds; Flux's own definitions stay.
    pub crds: bool,
    /// Keep the objects of muster's kinds, though no controller reconciles them any more.
    pub keep_objects: bool,
    /// Continue even if clusters are enrolled or modules exist.
    pub force: bool,
    /// Whether it is a dry run.
    pub dry_run: DryRun,
}

/// Removes an installation, or reports why not: the controller for a namespace, or the agent of a downstream cluster.
/// Nothing is removed without confirmation, which is asked for after reporting what would be.
pub async fn uninstall(
    (client, namespace): (Client, String),
    options: &Options,
    steps: Steps<'_>,
    consent: impl AsyncFnOnce() -> Step<()>,
) -> Step<()> {
    let namespace = if options.management {
        namespace
    } else {
        SYSTEM_NAMESPACE.to_owned()
    };
    let uninstall = Uninstall {
        client,
        namespace,
        options,
        steps,
    };
    uninstall.run(consent).await
}

struct Uninstall<'a> {
    client: Client,
    namespace: String,
    options: &'a Options,
    steps: Steps<'a>,
}

/// The existing objects of an installation.
#[derive(Default)]
struct InstalledObjects {
    ours: Vec<ObjectRef>,
    foreign: Vec<ObjectRef>,
}

impl Uninstall<'_> {
    async fn run(&self, consent: impl AsyncFnOnce() -> Step<()>) -> Step<()> {
        let objects = if self.options.management {
            self.works_here().await?;
            install::everything(&self.namespace)
        } else {
            install::downstream(IMAGE, Sync::Builtin).objects
        };
        // In reverse order: the Deployment before its rights. Namespaces are handled at the end.
        let names = objects
            .iter()
            .rev()
            .map(ObjectRef::of)
            .filter(|name| name.kind != "Namespace");
        let found = self.find(names.collect()).await?;
        let definitions = if self.options.crds {
            self.definitions().await?
        } else {
            Vec::new()
        };
        if found.ours.is_empty() && definitions.is_empty() {
            self.steps.done("there is no such installation");
            self.print_foreign(&found);
            return Ok(());
        }
        let needs = Needs::read(&self.client, &self.namespace, self.options)
            .await
            .map_err(of_call)?;
        self.report_plan(&found, &definitions, &needs);
        if let Some(refusal) = needs.refusal(self.options) {
            return Err(refusal);
        }
        let dry_run = self.options.dry_run;
        if dry_run == DryRun::Server {
            for name in found.ours.iter().chain(&definitions) {
                name.delete(&self.client, true).await.map_err(of_call)?;
            }
        }
        if dry_run != DryRun::None {
            self.steps
                .say(format!("Nothing was removed{}.", dry_run.suffix()));
            return Ok(());
        }
        consent().await?;
        let (process, rest): (Vec<&ObjectRef>, Vec<&ObjectRef>) =
            found.ours.iter().partition(|name| name.kind == "Deployment");
        for name in process {
            self.end(name).await?;
        }
        if !definitions.is_empty() {
            self.remove_definitions(&definitions).await?;
        }
        for name in rest {
            name.delete(&self.client, false).await.map_err(of_call)?;
            self.steps.done(format!("{name} is gone"));
        }
        self.namespace().await?;
        self.steps.say(if self.options.management {
            "muster is uninstalled here; what it applied to clusters keeps running there."
        } else {
            "muster agent is uninstalled here; what it applied keeps running."
        });
        Ok(())
    }

    /// Refuses if the controller manages another namespace: its Deployment has the same name for every namespace, and
    /// that namespace was not checked for what needs it.
    async fn works_here(&self) -> Step<()> {
        let deployments: Api<Deployment> = Api::namespaced(self.client.clone(), SYSTEM_NAMESPACE);
        let what = format!("reading Deployment {}", install::CONTROLLER);
        let reading = deployments.get_opt(install::CONTROLLER);
        let found = call_within(DEADLINE, what, reading).await.map_err(of_call)?;
        match found.as_ref().map(install::works_in) {
            Some(other) if other != self.namespace => Err(StepRefusal::failed(format!(
                "nothing was removed: the controller works in namespace {other}, not in {}",
                self.namespace
            ))
            .remedy(format!(
                "name its namespace: muster uninstall --management -n {other}"
            ))),
            _ => Ok(()),
        }
    }

    /// Those of these objects that exist and have muster's labels.
    async fn find(&self, names: Vec<ObjectRef>) -> Step<InstalledObjects> {
        let mut found = InstalledObjects::default();
        for name in names {
            let Some(there) = name.metadata(&self.client).await.map_err(of_call)? else {
                continue;
            };
            let labels = there.labels.unwrap_or_default();
            if labels
                .get(label::APP_PART_OF)
                .is_some_and(|part_of| part_of == MUSTER)
            {
                found.ours.push(name);
            } else {
                found.foreign.push(name);
            }
        }
        Ok(found)
    }

    /// The definitions to remove: muster's, and of Flux's kinds those that muster installed.
    async fn definitions(&self) -> Step<Vec<ObjectRef>> {
        let mut all = if self.options.management {
            crds::management()
        } else {
            crds::downstream()
        };
        all.extend(crds::flux());
        let mut names = Vec::new();
        for definition in all {
            let name = ObjectRef {
                kind: "CustomResourceDefinition".to_owned(),
                api_version: "apiextensions.k8s.io/v1".to_owned(),
                namespace: None,
                name: definition.name_any(),
            };
            let there = name.metadata(&self.client).await.map_err(of_call)?;
            let of_group = definition.spec.group == muster_api::kind::GROUP;
            if there.is_some_and(|there| of_group || there.labels.as_ref().is_some_and(crds::are_ours)) {
                names.push(name);
            }
        }
        Ok(names)
    }

    fn report_plan(&self, found: &InstalledObjects, definitions: &[ObjectRef], needs: &Needs) {
        self.steps.say("To be removed, in this order:");
        let (process, rest): (Vec<&ObjectRef>, Vec<&ObjectRef>) =
            found.ours.iter().partition(|name| name.kind == "Deployment");
        for name in process.into_iter().chain(definitions).chain(rest) {
            self.steps.more(name);
        }
        self.print_foreign(found);
        needs.report(self.steps);
    }

    fn print_foreign(&self, found: &InstalledObjects) {
        for name in &found.foreign {
            self.steps
                .note(format!("{name} exists without muster's labels: it stays"));
        }
    }

    /// Deletes the process and waits until its pods are gone, so that they do not act on what is removed next.
    async fn end(&self, name: &ObjectRef) -> Step<()> {
        let api = name.api(&self.client);
        let parameters = DeleteParams::foreground();
        let deleting = api.delete(&name.name, &parameters);
        match call_within(DEADLINE, format!("deleting {name}"), deleting).await {
            Ok(()) => {}
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(of_call(error)),
        }
        self.until_gone(
            name,
            "its pods do not terminate: kubectl get pods -n muster-system",
        )
        .await?;
        self.steps.done(format!("{name} is gone, and so is its process"));
        Ok(())
    }

    async fn until_gone(&self, name: &ObjectRef, hint: &str) -> Step<()> {
        let going = async {
            while name.metadata(&self.client).await?.is_some() {
                tokio::time::sleep(LOOK).await;
            }
            Ok::<(), CallError>(())
        };
        match tokio::time::timeout(GONE, going).await {
            Ok(done) => done.map_err(of_call),
            Err(_elapsed) => Err(StepRefusal::failed(format!(
                "{name} is not gone within {} s",
                GONE.as_secs()
            ))
            .remedy(hint)),
        }
    }

    /// Deletes definitions with their objects; muster's finalizers are removed first, as no process handles them any
    /// more.
    async fn remove_definitions(&self, names: &[ObjectRef]) -> Step<()> {
        for name in names {
            self.release(name).await.map_err(of_call)?;
            name.delete(&self.client, false).await.map_err(of_call)?;
        }
        for name in names {
            self.until_gone(
                name,
                "another finalizer blocks the deletion of its objects: kubectl get -A",
            )
            .await?;
            self.steps.done(format!("{name} is gone"));
        }
        Ok(())
    }

    /// Removes muster's finalizers from the objects of a definition.
    async fn release(&self, definition: &ObjectRef) -> Result<(), CallError> {
        let all = definitions::all_definitions();
        let Some(ours) = all.iter().find(|ours| ours.name_any() == definition.name) else {
            return Ok(());
        };
        let version = ours
            .spec
            .versions
            .first()
            .map(|version| version.name.as_str())
            .unwrap_or_default();
        let gvk = GroupVersionKind::gvk(&ours.spec.group, version, &ours.spec.names.kind);
        let resource = ApiResource::from_gvk_with_plural(&gvk, &ours.spec.names.plural);
        let everywhere: Api<DynamicObject> = Api::all_with(self.client.clone(), &resource);
        let whole = ListParams::default();
        let listing = everywhere.list_metadata(&whole);
        let list = call_within(DEADLINE, format!("listing {}", definition.name), listing).await?;
        for object in list.items.iter().filter(|object| !object.finalizers().is_empty()) {
            use muster_api::labels::finalizer;
            let of_muster = [finalizer::MODULE, finalizer::ASSEMBLAGE, finalizer::FLUX];
            let kept: Vec<&String> = object
                .finalizers()
                .iter()
                .filter(|name| !of_muster.contains(&name.as_str()))
                .collect();
            let patch = Patch::Merge(
                json!({"metadata": {"finalizers": kept, "resourceVersion": object.resource_version()}}),
            );
            let parameters = PatchParams {
                field_manager: Some(manager::CLI.to_owned()),
                ..PatchParams::default()
            };
            let namespace = object.namespace().unwrap_or_default(); // all of muster's kinds here are namespaced
            let api: Api<DynamicObject> = Api::namespaced_with(self.client.clone(), &namespace, &resource);
            let name = object.name_any();
            let patching = api.patch_metadata(&name, &parameters, &patch);
            call_within(DEADLINE, format!("releasing {namespace}/{name}"), patching).await?;
        }
        Ok(())
    }

    /// Deletes the namespace of the process if it is empty.
    async fn namespace(&self) -> Step<()> {
        let name = ObjectRef {
            kind: "Namespace".to_owned(),
            api_version: "v1".to_owned(),
            namespace: None,
            name: SYSTEM_NAMESPACE.to_owned(),
        };
        let Some(there) = name.metadata(&self.client).await.map_err(of_call)? else {
            return Ok(());
        };
        let labels = there.labels.unwrap_or_default();
        let ours = labels
            .get(label::APP_MANAGED_BY)
            .is_some_and(|manager| manager == MUSTER);
        let left = self.left().await.map_err(of_call)?;
        if !ours || !left.is_empty() {
            let why = if left.is_empty() {
                "muster did not create it".to_owned()
            } else {
                format!("it holds {}", left.join(", "))
            };
            self.steps.note(format!("{name} stays: {why}"));
            return Ok(());
        }
        name.delete(&self.client, false).await.map_err(of_call)?;
        self.steps.done(format!("{name} is gone: nothing was left in it"));
        Ok(())
    }

    /// What is left in the namespace of the process, except what every namespace has.
    async fn left(&self) -> Result<Vec<String>, CallError> {
        let mut left = names::<Deployment>(&self.client).await?;
        left.extend(names::<Pod>(&self.client).await?);
        left.extend(names::<Secret>(&self.client).await?);
        left.extend(names::<ConfigMap>(&self.client).await?);
        left.extend(names::<ServiceAccount>(&self.client).await?);
        left.retain(|name| name != "ServiceAccount default" && name != "ConfigMap kube-root-ca.crt");
        left.extend(needs::assigned(&self.client).await?);
        Ok(left)
    }
}

async fn names<K>(client: &Client) -> Result<Vec<String>, CallError>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>
        + Clone
        + DeserializeOwned
        + std::fmt::Debug,
{
    let api: Api<K> = Api::namespaced(client.clone(), SYSTEM_NAMESPACE);
    let kind = K::kind(&());
    let whole = ListParams::default();
    let listing = api.list_metadata(&whole);
    let list = call_within(DEADLINE, format!("listing objects of kind {kind}"), listing).await?;
    Ok(list
        .items
        .iter()
        .map(|object| format!("{kind} {}", object.name_any()))
        .collect())
}

#[allow(clippy::needless_pass_by_value, reason = "made for map_err")]
fn of_call(error: CallError) -> StepRefusal {
    let refusal = StepRefusal::of_call("the cluster", &error);
    StepRefusal {
        cause: if error.code().is_some() {
            Cause::Failed
        } else {
            refusal.cause
        },
        ..refusal
    }
}
