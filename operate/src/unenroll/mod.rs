//! Removes an enrolled cluster from the fleet.
//!
//! ```text
//!   report what will happen ─► confirm ─► (--prune: withdraw every module, and wait) ─► Cluster ─► Secret ─► the account in the cluster
//! ```
//!
//! Invariant: what modules applied to the cluster is not touched unless `--prune` asks for it, and then the controller
//! withdraws it as usual. Invariant: every step has a time limit; what could not be removed is listed, with the command
//! that removes it.

mod account;
mod prune;

use std::{path::PathBuf, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Client, ResourceExt, core::DynamicObject};
use muster_api::names::{self, kubeconfig_secret};
use muster_controllers::runtime::Api;
use muster_controllers::runtime::{CallError, call_within};
use muster_fleet::{
    apply::{DEADLINE, ObjectRef},
    connect::Target,
    control::DryRun,
};

use self::account::Account;
use crate::{
    enroll::{
        management::{PLACE, Plane},
        way::{Wanted, Way},
    },
    steps::{Step, StepRefusal, Steps},
};

/// How often a request is tried.
const TRIES: u32 = 3;
/// The pause between two tries, and between two checks.
const PAUSE: Duration = Duration::from_secs(1);
/// How long the deletion of a Cluster may take.
const GONE: Duration = Duration::from_secs(30);

/// Which cluster to unenroll, and what to remove with it.
#[derive(Clone, Debug)]
pub struct Options {
    /// The cluster's name in the fleet.
    pub name: String,
    /// What modules applied stays, and an agent keeps applying it (the default).
    pub keep_resources: bool,
    /// Remove what modules applied first: the Cluster is no longer selected by any module, and the command waits for
    /// the withdrawal.
    pub prune: bool,
    /// Continue when a step fails, and print what is left.
    pub force: bool,
    /// The kubeconfig with the user's access to the cluster, to remove the management cluster's service account there.
    pub downstream_kubeconfig: Option<PathBuf>,
    /// The context of that access; of the user's own kubeconfig if no file is given.
    pub downstream_context: Option<String>,
    /// How long --prune waits.
    pub timeout: Duration,
    /// Whether it is a dry run.
    pub dry_run: DryRun,
}

/// Unenrolls a cluster, or reports the step that failed; false if something is left that should be gone. Nothing is
/// done without confirmation, which is asked for after reporting what will happen.
pub async fn unenroll(
    target: &Target,
    (client, namespace): (Client, String),
    options: &Options,
    steps: Steps<'_>,
    consent: impl AsyncFnOnce() -> Step<()>,
) -> Step<bool> {
    let name = &options.name;
    let plane = Plane::read(client, namespace).await?;
    let there = plane.enrolled(name).await?;
    let secret = ObjectRef {
        kind: "Secret".to_owned(),
        api_version: "v1".to_owned(),
        namespace: Some(plane.namespace.clone()),
        name: kubeconfig_secret(name),
    };
    let of_call = |error: CallError| StepRefusal::of_call(PLACE, &error);
    let has_secret = secret.metadata(&plane.client).await.map_err(of_call)?.is_some();
    let account = account(target, options, &plane, there.as_ref()).await?;
    if there.is_none() && !has_secret && matches!(account, Account::NoWay) {
        steps.done(format!(
            "{name} is not in the fleet: it has neither a Cluster nor a Secret"
        ));
        return Ok(true);
    }
    report_plan(&plane, options, there.as_ref(), has_secret, &account, steps).await?;
    if options.dry_run == DryRun::Server {
        let cluster = there.as_ref().map(|there| of_cluster(&plane, there));
        for what in cluster.iter().chain(has_secret.then_some(&secret)) {
            what.delete(&plane.client, true).await.map_err(of_call)?;
        }
    }
    if options.dry_run != DryRun::None {
        steps.say(format!("Nothing was done{}.", options.dry_run.suffix()));
        return Ok(true);
    }
    consent().await?;
    if let Some(there) = there.as_ref().filter(|_| options.prune) {
        match prune::empty(&plane, there, options.timeout).await {
            Ok(()) => steps.done(format!("{name}: every module is withdrawn")),
            Err(refusal) if options.force => steps.note(format!("{}; continuing (--force)", refusal.what)),
            Err(refusal) => return Err(refusal),
        }
    }
    if let Some(there) = &there {
        gone(&plane, there).await?;
        steps.done(format!("Cluster {}/{name} is gone", plane.namespace));
    }
    if again(|| secret.delete(&plane.client, false))
        .await
        .map_err(of_call)?
    {
        steps.done(format!("{secret} is gone"));
    }
    let orphans = account.remove(steps).await;
    let stays = if options.prune {
        ""
    } else {
        "; what runs in it keeps running"
    };
    steps.say(format!("{name} is no longer in the fleet{stays}."));
    Ok(account.print_orphans(&orphans, name, options.force, steps))
}

/// The account in the cluster, if access is given and it is the same cluster.
async fn account(
    target: &Target,
    options: &Options,
    plane: &Plane,
    there: Option<&DynamicObject>,
) -> Step<Account> {
    if options.downstream_kubeconfig.is_none() && options.downstream_context.is_none() {
        return Ok(Account::NoWay);
    }
    let wanted = Wanted {
        file: options.downstream_kubeconfig.clone(),
        other_file: target.kubeconfig.clone(),
        context: options.downstream_context.clone(),
    };
    let way = Way::read(&wanted).await?;
    let actual = match crate::enroll::downstream::identity(&way.client).await {
        Ok(actual) => actual,
        Err(error) if options.force => {
            return Ok(Account::Silent(
                way,
                muster_controllers::runtime::call::error_chain(&error),
            ));
        }
        Err(error) => {
            return Err(StepRefusal::of_call(&way.display_name(), &error)
                .remedy("--force continues without it, and lists what is left there"));
        }
    };
    if let Some(uid) = there.and_then(ResourceExt::uid)
        && let Some(known) = known(plane, &options.name, &uid).await?
        && actual.as_ref().is_some_and(|actual| *actual != known)
    {
        return Err(StepRefusal::failed(format!(
            "{} leads to a different cluster than Cluster {}: the UIDs of their kube-system namespaces differ",
            way.display_name(),
            options.name
        ))
        .remedy("name the right one by --downstream-kubeconfig or --downstream-context"));
    }
    Ok(Account::Way(way))
}

/// The kube-system uid that the controller recorded.
async fn known(plane: &Plane, name: &str, uid: &str) -> Step<Option<String>> {
    let record = names::cluster_identity(&plane.namespace, name, uid);
    let records: Api<ConfigMap> = Api::namespaced(plane.client.clone(), &plane.namespace);
    let read = call_within(
        DEADLINE,
        format!("reading ConfigMap {record}"),
        records.get_opt(&record),
    )
    .await;
    let read = read.map_err(|error| StepRefusal::of_call(PLACE, &error))?;
    Ok(read.and_then(|record| record.data?.remove("kubeSystemUid")))
}

/// Reports what will happen.
async fn report_plan(
    plane: &Plane,
    options: &Options,
    there: Option<&DynamicObject>,
    has_secret: bool,
    account: &Account,
    steps: Steps<'_>,
) -> Step<()> {
    let (name, namespace) = (&options.name, &plane.namespace);
    let rows = prune::rows(plane, name).await?;
    if there.is_some() {
        if rows.is_empty() {
            steps.note(format!("{name}: nothing there was applied by modules"));
        } else {
            steps.note(format!(
                "{name}: these modules applied objects there: {}",
                rows.join(", ")
            ));
            steps.more(if options.prune {
                "it will be removed first: the Cluster loses its labels, and the modules are withdrawn from it"
            } else {
                "it stays, and an agent there keeps applying it (--prune removes it first)"
            });
        }
        steps.note(format!("Cluster {namespace}/{name} will be deleted"));
    }
    if has_secret {
        steps.note(format!(
            "Secret {namespace}/{} will be deleted",
            kubeconfig_secret(name)
        ));
    }
    steps.note(account.plan(name));
    Ok(())
}

fn of_cluster(plane: &Plane, cluster: &DynamicObject) -> ObjectRef {
    ObjectRef {
        kind: "Cluster".to_owned(),
        api_version: plane.version.api_resource().api_version,
        namespace: Some(plane.namespace.clone()),
        name: cluster.name_any(),
    }
}

/// Deletes a Cluster and waits until it is gone.
async fn gone(plane: &Plane, cluster: &DynamicObject) -> Step<()> {
    let (name, what) = (cluster.name_any(), of_cluster(plane, cluster));
    let of_call = |error: CallError| StepRefusal::of_call(PLACE, &error);
    again(|| what.delete(&plane.client, false))
        .await
        .map_err(of_call)?;
    let mut held = Vec::new();
    let going = async {
        loop {
            match plane.cluster(&name).await? {
                None => return Ok::<(), CallError>(()),
                Some(there) => held = there.finalizers().to_vec(),
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    match tokio::time::timeout(GONE, going).await {
        Ok(done) => done.map_err(of_call),
        Err(_elapsed) => Err(StepRefusal::failed(format!(
            "Cluster {}/{name} is not gone within {} s: it is held by {}",
            plane.namespace,
            GONE.as_secs(),
            held.join(", ")
        ))
        .remedy("muster sets no finalizer on a Cluster: ask the owner of this one, and run this again")),
    }
}

/// Retries a request several times: a busy server may answer the next time.
async fn again<T, F: Future<Output = Result<T, CallError>>>(call: impl Fn() -> F) -> Result<T, CallError> {
    let mut tries = 1;
    loop {
        match call().await {
            Err(error) if tries < TRIES && !error.is_refused_credential() => {
                tries += 1;
                tokio::time::sleep(error.retry_after().unwrap_or(PAUSE).min(DEADLINE)).await;
            }
            answer => return answer,
        }
    }
}
