//! The new cluster: its existing objects, what is applied to it, and whether the new account has access.

use std::time::Duration;

use base64::{Engine as _, engine::general_purpose::STANDARD};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::Client;
use muster_api::labels::SYSTEM_NAMESPACE;
use muster_controllers::runtime::Api;
use muster_controllers::{
    registry::connect_over_network,
    runtime::{CallError, call::error_chain, call_within},
};
use muster_fleet::{
    apply::{self, Applied, DEADLINE, ObjectRef, is_by_command},
    definitions::differing,
};
use serde_json::Value;

use super::{
    Options, accepted, address::ServerAddress, labels::Labels, objects, objects::ACCOUNT, objects::Access,
    taken, way::Way,
};
use crate::install;
use crate::steps::{Step, StepRefusal, Steps};

/// The namespace whose uid identifies a cluster.
const IDENTITY_NAMESPACE: &str = "kube-system";
/// How long the cluster may take to add the token to the Secret.
const TOKEN: Duration = Duration::from_secs(30);
/// How often the Secret is read.
const LOOK: Duration = Duration::from_millis(250);

/// A cluster that answers.
pub(crate) struct Downstream {
    /// The user's access.
    pub way: Way,
    /// Name of the cluster in the fleet.
    name: String,
    /// Kubernetes version of the cluster.
    pub version: String,
    /// The uid of its kube-system; `None` if the user may not read it.
    pub identity: Option<String>,
}

impl Downstream {
    /// Connects to the cluster, and reads its identity.
    pub(crate) async fn connect(way: Way, name: &str) -> Step<Self> {
        let place = way.display_name();
        let of_call = |error: CallError| StepRefusal::of_call(&place, &error);
        let version = call_within(DEADLINE, "asking for its version", way.client.apiserver_version());
        let version = version.await.map_err(of_call)?.git_version;
        let identity = match identity(&way.client).await {
            Err(error) if error.code() == Some(403) => None,
            found => found.map_err(of_call)?,
        };
        Ok(Self {
            name: name.to_owned(),
            version,
            identity,
            way,
        })
    }

    /// The objects for the cluster: the account, and the agent with its definitions.
    pub(crate) fn objects(options: &Options) -> Step<Vec<Value>> {
        let unreadable = |error: &dyn std::fmt::Display| {
            StepRefusal::failed(format!("an object of this command is not valid YAML: {error}"))
        };
        let mut all = objects::account(options.bootstrap).map_err(|error| unreadable(&error))?;
        if options.no_agent {
            return Ok(all);
        }
        let install::Installation { definitions, objects } =
            install::downstream(&options.image, options.sync);
        for definition in definitions {
            all.push(serde_json::to_value(definition).map_err(|error| unreadable(&error))?);
        }
        // The namespace is already part of the account.
        all.extend(objects.into_iter().filter(|object| object["kind"] != "Namespace"));
        Ok(all)
    }

    /// Submits each object as a dry run: missing rights are found before anything is written.
    pub(crate) async fn would_take(&self, objects: &[Value]) -> Step<Vec<(ObjectRef, Applied)>> {
        let mut all = Vec::new();
        for object in objects {
            let name = ObjectRef::of(object);
            if self.is_left(object, &name).await? {
                continue;
            }
            match apply::apply(&self.way.client, object, true).await {
                Ok(applied) => all.push((name, applied)),
                // Objects in a namespace that does not exist yet cannot be dry-run.
                Err(error) if error.is_not_found() && name.namespace.is_some() => {
                    all.push((name, Applied::Made));
                }
                Err(error) => return Err(self.refused(&error)),
            }
        }
        Ok(all)
    }

    /// Whether the object exists and has another owner: a definition, or an agent. It stays as it is.
    async fn is_left(&self, object: &Value, name: &ObjectRef) -> Step<bool> {
        let of_agent =
            object.pointer("/metadata/labels/app.kubernetes.io~1component") == Some(&Value::from("agent"));
        if name.kind != "CustomResourceDefinition" && name.kind != "Namespace" && !of_agent {
            return Ok(false);
        }
        let there = name
            .metadata(&self.way.client)
            .await
            .map_err(|error| self.refused(&error))?;
        Ok(there.is_some_and(|there| !is_by_command(&there)))
    }

    /// Applies the objects in order, and reports each.
    pub(crate) async fn write(&self, objects: &[Value], steps: Steps<'_>) -> Step<()> {
        let (mut changed, mut left) = (false, Vec::new());
        let mut agent = false;
        for object in objects {
            let name = ObjectRef::of(object);
            if self.is_left(object, &name).await? {
                left.push(name);
                continue;
            }
            agent |= name.kind == "Deployment";
            let applied = apply::apply(&self.way.client, object, false)
                .await
                .map_err(|error| self.refused(&error))?;
            changed |= applied != Applied::Same;
        }
        let bootstrap = objects
            .iter()
            .any(|object| object["metadata"]["name"] == "muster-management-bootstrap");
        let rights = if bootstrap {
            "mirroring assignments, and applying anything (--bootstrap)"
        } else {
            "mirroring assignments, and nothing else"
        };
        let as_before = if changed { "" } else { ": unchanged" };
        steps.done(format!(
            "{}: ServiceAccount {SYSTEM_NAMESPACE}/{ACCOUNT}, its rights ({rights}) and its token's Secret{as_before}",
            self.name
        ));
        if agent {
            steps.done(format!("{}: muster agent and its definitions", self.name));
            steps.more(format!(
                "whether it runs: kubectl {} rollout status -n {SYSTEM_NAMESPACE} deployment/muster-agent",
                self.way.flags
            ));
        }
        self.print_leftovers(&left, steps).await
    }

    /// Reports an existing object, with more detail if it differs from that of this command.
    async fn print_leftovers(&self, left: &[ObjectRef], steps: Steps<'_>) -> Step<()> {
        let of = |kind: &str| left.iter().any(|name| name.kind == kind);
        if of("Deployment") {
            steps.note(format!(
                "{}: an agent is already installed in another way: it stays as it is",
                self.name
            ));
        }
        if !of("CustomResourceDefinition") {
            return Ok(());
        }
        let definitions = left.iter().filter(|name| name.kind == "CustomResourceDefinition");
        let names: Vec<&str> = definitions.map(|name| name.name.as_str()).collect();
        let differing = differing(&self.way.client, &names)
            .await
            .map_err(|error| self.refused(&error))?;
        if !differing.is_empty() {
            steps.note(format!(
                "{}: definitions that differ from this command's are installed, and stay: {}",
                self.name,
                differing.join(", ")
            ));
            steps.more(format!(
                "to bring them up to date: muster crds --downstream | kubectl {} apply --server-side --force-conflicts -f -",
                self.way.flags
            ));
        }
        Ok(())
    }

    /// The access for the management cluster: waits until the cluster has created a token.
    pub(crate) async fn access(&self, address: ServerAddress) -> Step<Access> {
        let secrets: Api<Secret> = Api::namespaced(self.way.client.clone(), SYSTEM_NAMESPACE);
        let filled = async {
            loop {
                let reading = secrets.get(ACCOUNT);
                let secret = call_within(
                    DEADLINE,
                    format!("reading Secret {SYSTEM_NAMESPACE}/{ACCOUNT}"),
                    reading,
                )
                .await?;
                let mut data = secret.data.unwrap_or_default();
                if let Some(token) = data.remove("token") {
                    return Ok((token.0, data.remove("ca.crt").map(|authority| authority.0)));
                }
                tokio::time::sleep(LOOK).await;
            }
        };
        let (token, authority) = match tokio::time::timeout(TOKEN, filled).await {
            Ok(read) => read.map_err(|error| self.refused(&error))?,
            Err(_elapsed) => {
                return Err(StepRefusal::failed(format!(
                    "{} did not fill Secret {SYSTEM_NAMESPACE}/{ACCOUNT} with a token in {} s",
                    self.name,
                    TOKEN.as_secs()
                ))
                .remedy("is kube-controller-manager running there? Run this again when it is"));
            }
        };
        let authority = self
            .way
            .authority
            .clone()
            .or_else(|| authority.map(|pem| STANDARD.encode(pem)));
        let authority = authority.ok_or_else(|| {
            StepRefusal::failed(format!("the certificate authority of {} is unknown", self.name))
        })?;
        let token =
            String::from_utf8(token).map_err(|_bytes| StepRefusal::failed("the token is not text"))?;
        Ok(Access {
            address,
            authority,
            tls_name: self.way.tls_name.clone(),
            token,
        })
    }

    /// Whether the account has access, tried from this machine. If only the management cluster can use the address,
    /// this proves nothing.
    pub(crate) async fn come_in(&self, access: &Access, other_address: bool, steps: Steps<'_>) -> Step<()> {
        let server = &access.address.server;
        let client = connect_over_network(&accepted(&self.name, access)?).map_err(|error| {
            StepRefusal::failed(format!(
                "no client can be created for {server}: {}",
                error_chain(&error)
            ))
        })?;
        match identity(&client).await {
            Ok(actual) if self.identity.is_some() && actual != self.identity => {
                Err(StepRefusal::failed(format!(
                    "{server} leads to a different cluster than {}: the UIDs of their kube-system namespaces differ",
                    self.way.display_name()
                ))
                .remedy("name the right address with --server"))
            }
            Ok(_) => {
                steps.done(format!("the account has access through {server}, tried from this machine"));
                Ok(())
            }
            Err(error) if error.is_unreachable() && other_address => {
                steps.note(format!(
                    "{server} does not answer from this machine ({}); the controller tries it from where it runs",
                    error_chain(&error)
                ));
                Ok(())
            }
            Err(error) => Err(StepRefusal::failed(format!(
                "the account has no access at {server}: {}",
                error_chain(&error)
            ))
            .remedy("does this address lead to the API server itself, with the cluster's certificate? If not, name another with --server")),
        }
    }

    fn refused(&self, error: &CallError) -> StepRefusal {
        taken(&self.way.display_name(), error)
    }

    /// The flags with which `unenroll` removes the account as well.
    pub(crate) fn undo(&self) -> String {
        let flags = self.way.flags.replace("--kubeconfig", "--downstream-kubeconfig");
        format!(" {}", flags.replace("--context", "--downstream-context"))
    }

    /// The arguments with which `enroll` is run again.
    pub(crate) fn enroll_flags(&self, options: &Options) -> String {
        let file = options.downstream_kubeconfig.as_ref();
        let file = file.map_or_else(String::new, |file| {
            format!(" --downstream-kubeconfig {}", file.display())
        });
        let server = options
            .server
            .as_ref()
            .map_or_else(String::new, |server| format!(" --server {server}"));
        let bootstrap = if options.bootstrap { " --bootstrap" } else { "" };
        let agent = if options.no_agent { " --no-agent" } else { "" };
        let labels = Labels::flag(&options.labels);
        format!("{}{file}{labels}{server}{bootstrap}{agent}", self.way.context)
    }
}

/// The uid of the cluster's kube-system.
pub(crate) async fn identity(client: &Client) -> Result<Option<String>, CallError> {
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let reading = namespaces.get_metadata_opt(IDENTITY_NAMESPACE);
    let found = call_within(
        DEADLINE,
        format!("reading namespace {IDENTITY_NAMESPACE}"),
        reading,
    )
    .await?;
    Ok(found.and_then(|found| found.metadata.uid))
}
