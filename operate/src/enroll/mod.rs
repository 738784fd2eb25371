//! Enrolls a cluster that Cluster API does not manage.
//!
//! ```text
//!   check ─► both clusters answer, and would accept the objects (server-side dry runs) ─► the address
//!   write ─► downstream: account, rights, token, agent ─► management: Secret, Cluster
//!   wait ─► until the controller has reached the cluster from where it runs
//! ```
//!
//! Invariant: nothing is written before all checks passed. Invariant: the token is written into the Secret and never
//! printed, unless `--with-secret` asks for it.

mod address;
pub(crate) mod downstream;
mod labels;
pub(crate) mod management;
pub(crate) mod objects;
mod wait;
pub(crate) mod way;

use std::{collections::BTreeMap, path::PathBuf, time::Duration};

use kube::{ResourceExt, core::DynamicObject};
use muster_api::{cluster::Version, validate::names as grammar};
use muster_controllers::{
    registry::kubeconfig as allowed,
    runtime::{CallError, call::error_chain},
};
use muster_fleet::{
    apply::{self, Applied, ObjectRef},
    connect::{self, Target},
    control::DryRun,
};
use muster_sync::build::print;

use self::{
    address::{Reach, ServerAddress, proposal},
    downstream::Downstream,
    labels::Labels,
    management::{PLACE, Plane},
    objects::Access,
    wait::ReachReport,
    way::{Wanted, Way},
};
use crate::install::Sync;
use crate::steps::{Step, StepRefusal, Steps};

/// Which cluster to enroll, and how.
#[derive(Clone, Debug)]
pub struct Options {
    /// How you reach the new cluster: a context of your kubeconfig, or of --downstream-kubeconfig.
    pub new_context: Option<String>,
    /// The kubeconfig for the new cluster [default: the user's own].
    pub downstream_kubeconfig: Option<PathBuf>,
    /// The name of the cluster in the fleet [default: the name of the context].
    pub name: Option<String>,
    /// Labels of the Cluster, by which modules select it; existing labels that are not listed stay (to remove one:
    /// kubectl label clusters NAME KEY-)
    pub labels: Vec<(String, String)>,
    /// How the management cluster reaches the new one, if not by the address in the user's kubeconfig:
    /// https://HOST:PORT.
    pub server: Option<String>,
    /// Also grant permission to apply anything there: BootstrapModules need it, Modules do not.
    pub bootstrap: bool,
    /// Do not install the agent and its definitions: they are installed some other way.
    pub no_agent: bool,
    /// What applies the Flux kinds there.
    pub sync: Sync,
    /// The image of the agent.
    pub image: String,
    /// How long to wait until the controller has reached the cluster.
    pub wait: Duration,
    /// Do not wait.
    pub no_wait: bool,
    /// Whether it is a dry run.
    pub dry_run: DryRun,
    /// Print the objects for the management cluster instead of writing them there; the new cluster is prepared.
    pub export: bool,
    /// Also print the Secret, with its token.
    pub with_secret: bool,
}

/// Parses a label, `KEY=VALUE`.
pub fn label(text: &str) -> Result<(String, String), String> {
    let wrong = || format!("labels are written as env=prod,region=eu, not {text}");
    let (key, value) = text.split_once('=').ok_or_else(wrong)?;
    grammar::label_key(key).map_err(|error| format!("{key:?} is not a valid label key: {error}"))?;
    grammar::label_value(value).map_err(|error| format!("{value:?} is not a valid label value: {error}"))?;
    Ok((key.to_owned(), value.to_owned()))
}

/// The enrollment, once all checks passed.
struct Plan<'a> {
    options: &'a Options,
    name: String,
    labels: Labels,
    steps: Steps<'a>,
}

/// Enrolls a cluster, or reports the step that failed.
///
/// It can be interrupted and run again: it continues from there.
pub async fn enroll(target: &Target, options: &Options, steps: Steps<'_>) -> anyhow::Result<Step<()>> {
    let wanted = Wanted {
        file: options.downstream_kubeconfig.clone(),
        other_file: target.kubeconfig.clone(),
        context: options.new_context.clone(),
    };
    let named = options.name.as_deref().map(valid_name).transpose();
    if let Err(refusal) = named {
        return Ok(Err(refusal));
    }
    let (client, namespace) = connect::client(target).await?;
    Ok(async {
        let way = Way::read(&wanted).await?;
        let name = valid_name(options.name.as_deref().unwrap_or(&way.context))?;
        let plan = Plan {
            options,
            name,
            labels: Labels::default(),
            steps,
        };
        plan.run_enrolment(client, namespace, way).await
    }
    .await)
}

fn valid_name(name: &str) -> Step<String> {
    match grammar::dns_label(name) {
        Ok(()) => Ok(name.to_owned()),
        Err(error) => Err(
            StepRefusal::unknown(format!("{name:?} is not a valid cluster name: {error}"))
                .remedy("set its name in the fleet with --name"),
        ),
    }
}

impl Plan<'_> {
    async fn run_enrolment(mut self, client: kube::Client, namespace: String, way: Way) -> Step<()> {
        let down = Downstream::connect(way, &self.name).await?;
        let objects = Downstream::objects(self.options)?;
        let plane = self.plane(client, namespace.clone(), &down).await?;
        let there = plane.as_ref().and_then(|(_, cluster)| cluster.as_ref());
        self.labels = Labels::of(there, &self.options.labels);
        let plane = plane.map(|(plane, _)| plane);
        let address = self.address(&down, plane.as_ref())?;
        if self.options.dry_run == DryRun::Client {
            self.print_objects(&down, &objects, &namespace, &address);
            return Ok(());
        }
        let taken = down.would_take(&objects).await?;
        self.steps.done(format!(
            "{} answers ({}); you may write what is needed there",
            down.way.display_name(),
            down.version
        ));
        if let Some(plane) = &plane {
            self.would_take(plane, &address).await?;
        }
        if self.options.dry_run == DryRun::Server {
            for (name, applied) in &taken {
                self.steps
                    .note(format!("{} would {} {name}", self.name, would(*applied)));
            }
            self.print_management(&namespace, &address);
            self.steps.say("Nothing was written (server dry run).");
            return Ok(());
        }
        down.write(&objects, self.steps).await?;
        let access = down.access(address).await?;
        down.come_in(&access, self.options.server.is_some(), self.steps)
            .await?;
        let version = plane.as_ref().map_or(Version::V1Beta2, |plane| plane.version);
        let Some(plane) = plane.filter(|_| !self.options.export) else {
            self.export(&namespace, version, &down, &access)?;
            return Ok(());
        };
        self.write(&plane, &down, &access).await
    }

    /// The management cluster, and its existing Cluster; optional with `--export`.
    async fn plane(
        &self,
        client: kube::Client,
        namespace: String,
        down: &Downstream,
    ) -> Step<Option<(Plane, Option<DynamicObject>)>> {
        let plane = match Plane::read(client, namespace).await {
            Ok(plane) => plane,
            Err(refusal) if self.options.export => {
                self.steps.note(format!(
                    "{}; the printed objects assume Cluster version {}",
                    refusal.what,
                    Version::V1Beta2.as_str()
                ));
                return Ok(None);
            }
            Err(refusal) => return Err(refusal),
        };
        let there = plane.enrolled(&self.name).await?;
        if let Some(identity) = &down.identity
            && let Some(other) = plane.other_of(identity, &self.name).await?
        {
            return Err(StepRefusal::failed(format!(
                "{} is already in the fleet, as Cluster {other} (the UID of its kube-system namespace is {identity})",
                down.way.display_name()
            ))
            .remedy(format!("remove it first: muster unenroll {other}")));
        }
        Ok(Some((plane, there)))
    }

    /// The address for the management cluster, and the notes about it.
    fn address(&self, down: &Downstream, plane: Option<&Plane>) -> Step<ServerAddress> {
        let server = self.options.server.as_deref().unwrap_or(&down.way.server);
        let other = "name the address that the management cluster reaches it at: --server https://HOST:PORT";
        let address =
            ServerAddress::parse(server).map_err(|wrong| StepRefusal::unknown(wrong).remedy(other))?;
        if plane.is_none() && !self.options.export {
            return Ok(address);
        }
        let named = self.options.server.is_some();
        if let Some(words) = address.reach().note_text().filter(|_| !named) {
            self.steps.note(format!("{server} {words}"));
            let proposed = proposal(&down.way.context).unwrap_or_else(|| "https://HOST:PORT".to_owned());
            let how = if address.reach() == Reach::Loopback {
                "if it runs elsewhere"
            } else {
                "if it is not"
            };
            self.steps
                .more(format!("{how}, name another address: --server {proposed}"));
        }
        if down.way.proxy && !named {
            self.steps.note("you connect through a proxy, which the management cluster does not use: --server sets its address");
        }
        Ok(address)
    }

    /// Submits the objects for the management cluster as a dry run, with a placeholder token.
    async fn would_take(&self, plane: &Plane, address: &ServerAddress) -> Step<()> {
        let access = Access {
            address: address.clone(),
            authority: "cGxhY2Vob2xkZXI=".to_owned(),
            tls_name: None,
            token: "placeholder".to_owned(),
        };
        for object in self.objects(&plane.namespace, plane.version, &access, &self.labels.written) {
            apply::apply(&plane.client, &object, true)
                .await
                .map_err(|error| taken(PLACE, &error))?;
        }
        self.steps.done(format!(
            "{PLACE} answers; you may write Secrets and Clusters in namespace {}",
            plane.namespace
        ));
        Ok(())
    }

    fn objects(
        &self,
        namespace: &str,
        version: Version,
        access: &Access,
        labels: &BTreeMap<String, String>,
    ) -> [serde_json::Value; 2] {
        [
            objects::secret(namespace, &self.name, &objects::kubeconfig(&self.name, access)),
            objects::cluster(version, namespace, &self.name, labels, &access.address),
        ]
    }

    async fn write(&self, plane: &Plane, down: &Downstream, access: &Access) -> Step<()> {
        let (name, namespace) = (&self.name, &plane.namespace);
        let mut changed = Vec::new();
        for object in self.objects(namespace, plane.version, access, &self.labels.written) {
            changed.push(
                apply::apply(&plane.client, &object, false)
                    .await
                    .map_err(|error| taken(PLACE, &error))?,
            );
        }
        let as_before = if changed.iter().all(|applied| *applied == Applied::Same) {
            ": unchanged"
        } else {
            ""
        };
        self.steps.done(format!(
            "Secret {namespace}/{name}-kubeconfig and Cluster {namespace}/{name}, {}{as_before}",
            self.labels
        ));
        // The selecting modules are informational: a user who may not list them can still enroll.
        match plane.selecting(&self.labels.after).await {
            Ok(modules) if modules.is_empty() => self.steps.note(format!("no module selects {name}")),
            Ok(modules) => self
                .steps
                .note(format!("modules that select {name}: {}", modules.join(", "))),
            Err(error) => self
                .steps
                .note(format!("cannot tell which modules select {name}: {error:#}")),
        }
        if !self.options.no_wait {
            let another_way = changed.first() == Some(&Applied::Changed);
            self.wait(plane, access, another_way).await?;
        }
        let word = if self.options.no_wait {
            "Written; did not wait for the controller to reach the cluster."
        } else {
            "Enrolled."
        };
        self.steps.say(word);
        self.steps.say(format!("Next: muster tree cluster/{name}"));
        self.steps
            .say(format!("Undo: muster unenroll {name}{}", down.undo()));
        Ok(())
    }

    async fn wait(&self, plane: &Plane, access: &Access, another_way: bool) -> Step<()> {
        let (name, limit) = (&self.name, self.options.wait);
        let of_call = |error: CallError| match error.code() {
            Some(403) => StepRefusal::unknown(format!(
                "you are not permitted to read whether the controller reached {name}: {}",
                error_chain(&error)
            ))
            .remedy("everything is written; --no-wait skips this check"),
            _ => StepRefusal::of_call(PLACE, &error),
        };
        let written = plane.cluster(name).await.map_err(of_call)?;
        let uid = written.and_then(|cluster| cluster.uid());
        let uid = uid.ok_or_else(|| StepRefusal::failed(format!("Cluster {name} was deleted meanwhile")))?;
        let report = if another_way && wait::is_recorded(plane, name, &uid).await.map_err(of_call)? {
            wait::reached_with_new_access(plane, name, limit).await
        } else {
            wait::reached(plane, name, &uid, limit).await
        };
        match report.map_err(of_call)? {
            ReachReport::Reached => {
                self.steps.done(format!(
                    "the controller reached {} with this account",
                    access.address.server
                ));
                Ok(())
            }
            ReachReport::Before => {
                self.steps.note("the controller reached the cluster before; no module selects it, so it is unknown whether the new access works");
                self.steps.more(format!(
                    "kubectl logs -n muster-system deployment/muster-controller | grep {name}"
                ));
                Ok(())
            }
            report => {
                let refusal = wait::refusal(plane, name, &access.address, &report, limit).await;
                Err(refusal.remedy(format!(
                    "what was written stays, and the controller keeps trying; Undo: muster unenroll {name}"
                )))
            }
        }
    }

    /// Prints the objects for git, and how to create the Secret.
    fn export(&self, namespace: &str, version: Version, down: &Downstream, access: &Access) -> Step<()> {
        let [secret, cluster] = self.objects(namespace, version, access, &self.labels.after);
        let mut text = String::new();
        if self.options.with_secret {
            text += "---\n";
            text += &print::yaml(&secret);
        } else {
            let note = format!(
                "# Secret {namespace}/{name}-kubeconfig contains a token and is not printed. --with-secret prints it, to be encrypted, or written once:\n\
                 #   muster enroll {way} --name {name} -n {namespace} --export --with-secret | \
                 kubectl apply --server-side --field-manager=muster-cli -f -\n",
                name = self.name,
                way = down.enroll_flags(self.options),
            );
            text += &note;
        }
        text += "---\n";
        text += &print::yaml(&cluster);
        self.steps
            .text(&text)
            .map_err(|error| StepRefusal::unknown(format!("{error:#}")))
    }

    fn print_objects(
        &self,
        down: &Downstream,
        objects: &[serde_json::Value],
        namespace: &str,
        address: &ServerAddress,
    ) {
        self.steps
            .done(format!("{} answers ({})", down.way.display_name(), down.version));
        for object in objects {
            self.steps
                .note(format!("would apply {} in {}", ObjectRef::of(object), self.name));
        }
        self.print_management(namespace, address);
        self.steps.say("Nothing was written (client dry run).");
    }

    /// What would be written into the management cluster; with `--export` nothing is.
    fn print_management(&self, namespace: &str, address: &ServerAddress) {
        if self.options.export {
            return;
        }
        self.steps.note(format!(
            "would apply Secret {namespace}/{name}-kubeconfig (to {}) and Cluster {namespace}/{name}, {}, in {PLACE}",
            address.server,
            self.labels,
            name = self.name
        ));
    }
}

const fn would(applied: Applied) -> &'static str {
    match applied {
        Applied::Made => "get",
        Applied::Changed => "get another",
        Applied::Same => "keep",
    }
}

/// The error for an object that was not accepted, with a remedy if another manager owns a field.
fn taken(place: &str, error: &CallError) -> StepRefusal {
    let refusal = StepRefusal::of_call(place, error);
    if error.is_conflict() {
        return refusal.remedy(
            "another field manager owns these fields, and muster does not take them over: set the same values there, or give up that ownership (kubectl --show-managed-fields)",
        );
    }
    refusal
}

/// A kubeconfig that the controller will accept.
fn accepted(name: &str, access: &Access) -> Step<allowed::Access> {
    allowed::parse_kubeconfig(objects::kubeconfig(name, access).as_bytes()).map_err(|error| {
        StepRefusal::failed(format!("the controller would not accept the kubeconfig: {error}"))
    })
}
