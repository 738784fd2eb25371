//! `muster zones`: the webhook server on every replica, everything else on the leader.
//!
//! ```text
//!   preflight ─► certificate ─► admission server ─► lease ─► leader label, passes, downscales and evictions
//!                (every replica: no-downscale, zpdb-validation)
//! ```

use std::sync::Arc;

use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use kube::Client;
use muster_zones::flags::{Certificate, Settings};
use tokio::net::TcpListener;
use tokio_util::task::AbortOnDropHandle;
use tracing::error;

use super::{Outgoing, ProcessError, Tasks, to_the_end};
use crate::{
    admission::{
        bundles,
        certificate::Subject,
        keeper::{Keeper, Storage},
        server::Server,
    },
    health::Health,
    lease::{Candidate, Election, Term},
    metrics::{Metrics, Target},
    reconcile::Base,
    runtime::{Clock, Events, Jitter, Shutdown},
    zones::{self, MANAGER, Zones, metrics::ZoneMetrics, pods::AskPods, reviews::Reviews},
};

/// The dependencies of the process; the command and the tests differ in nothing else.
pub struct ZonesSetup {
    /// The client of the API server.
    pub client: Client,
    /// The command-line flags.
    pub settings: Settings,
    /// The only source of `now`.
    pub clock: Clock,
    /// The only source of randomness.
    pub jitter: Jitter,
    /// The client for pods.
    pub pods: Arc<dyn AskPods>,
    /// The name of this replica's pod.
    pub instance: String,
    /// The settings of leader election. Without it this process acts at once, and must be the only one.
    pub lease: Option<Election>,
    /// The listener for metrics and probes, if any.
    pub door: Option<TcpListener>,
    /// The listener for reviews; `None` if no webhooks are served.
    pub webhooks: Option<TcpListener>,
    /// The metrics of this process.
    pub metrics: Metrics,
    /// The metrics of `muster zones`.
    pub zone_metrics: ZoneMetrics,
    /// Cancelled to end the process.
    pub shutdown: Shutdown,
}

/// Runs until shutdown. Dropping the future ends everything at once, as a crash does.
pub async fn zones(setup: ZonesSetup) -> Result<(), ProcessError> {
    let ZonesSetup {
        client: plain,
        settings,
        clock,
        jitter,
        pods,
        instance,
        lease,
        door,
        webhooks,
        metrics,
        zone_metrics,
        shutdown,
    } = setup;
    zones::check(&plain, &settings).await?;
    let namespace = settings.namespace.clone();
    let health = Health::new(metrics.clone()).ready_when_synced();
    let _door = door.map(|door| AbortOnDropHandle::new(tokio::spawn(health.clone().serve(door))));
    let mut tasks = Tasks::new(shutdown.clone(), metrics.clone());
    let client = zone_metrics.timed(plain.clone());
    // The right to write is set later: until then every write of a pass would be a bug.
    let outgoing = Outgoing::before_the_lease(metrics.clone());
    let guarded = outgoing.client(client.clone(), Target::Own);
    let zones = Zones::new(zones::Setup {
        events: Events::new(guarded.clone(), MANAGER, instance.clone(), clock.clone()),
        client: guarded.clone(),
        settings: settings.clone(),
        clock: clock.clone(),
        metrics: zone_metrics.clone(),
        pods,
    });
    let reviews = Reviews::new(Arc::clone(&zones));
    if let Some(listener) = webhooks {
        let serving = Serving {
            client,
            settings,
            clock: clock.clone(),
            metrics: metrics.clone(),
            zone_metrics,
            shutdown: shutdown.clone(),
        };
        serving.start(listener, &reviews, &mut tasks);
    }
    let term = match lease {
        None => None,
        Some(election) => {
            let candidate = Candidate::new(election, &namespace, MANAGER, &instance, clock, jitter.clone());
            tokio::select! {
                term = candidate.stand() => Some(term),
                ended = tasks.finish() => return ended,
            }
        }
    };
    let leadership = term.as_ref().map(Term::leadership);
    outgoing.lead(leadership.clone());
    health.acts(leadership.clone());
    reviews.lead(leadership);
    let base = Base {
        client: guarded,
        namespace,
        jitter,
        metrics,
        shutdown,
    };
    tasks.control("zonerollout", zones::run(zones, base, instance));
    to_the_end(tasks, term).await
}

/// Names and failure policies of webhooks.
fn policies(configuration: &impl bundles::Configuration) -> Vec<(String, String)> {
    let webhooks = configuration.webhooks().into_iter();
    webhooks
        .map(|webhook| (webhook.name.to_owned(), webhook.failure_policy.to_owned()))
        .collect()
}

/// The dependencies of the admission server.
struct Serving {
    client: Client,
    settings: Settings,
    clock: Clock,
    metrics: Metrics,
    zone_metrics: ZoneMetrics,
    shutdown: Shutdown,
}

impl Serving {
    /// Starts the admission server, and the task that keeps its certificate. Its writes need no lease: each replica
    /// writes the same.
    fn start(self, listener: TcpListener, reviews: &Arc<Reviews>, tasks: &mut Tasks) {
        let Self {
            client,
            settings,
            clock,
            metrics,
            zone_metrics,
            shutdown,
        } = self;
        let namespace = settings.namespace.clone();
        let storage = match &settings.certificate {
            Certificate::SelfSigned {
                secret,
                dns_name,
                organization,
                lasts,
            } => Storage::Secret {
                namespace: namespace.clone(),
                name: secret.clone(),
                subject: Subject {
                    dns_names: vec![dns_name.clone()],
                    org: organization.clone(),
                    expiration: *lasts,
                },
            },
            Certificate::Files { certificate, key } => Storage::Files {
                certificate: certificate.into(),
                key: key.into(),
            },
            Certificate::None => return,
        };
        let (keeper, shown, authorities) = Keeper::new(client.clone(), clock, storage);
        let server = Server {
            listener,
            shown: shown.clone(),
            answers: reviews.answers(),
            // The API server gets a response before it times out.
            deadline: settings.request_timeout.mul_f64(0.9),
            shutdown: shutdown.clone(),
        };
        tasks.spawn("certificate", keeper.run(shutdown.clone()));
        let door = metrics.controller("admission");
        tasks.control("admission", async move {
            tokio::join!(
                async {
                    shown.known().await;
                    door.synced();
                },
                async {
                    if let Err(error) = server.run().await {
                        error!(%error, "TLS could not be set up");
                    }
                }
            );
        });
        if !settings.update_ca_bundle {
            return;
        }
        let counts = zone_metrics.clone();
        tasks.spawn(
            "bundles of validating webhooks",
            bundles::keep_ca_bundles::<ValidatingWebhookConfiguration>(
                client.clone(),
                namespace.clone(),
                authorities.clone(),
                move |all| {
                    counts.policies("validating", all.values().flat_map(policies));
                },
                shutdown.clone(),
            ),
        );
        tasks.spawn(
            "bundles of mutating webhooks",
            bundles::keep_ca_bundles::<MutatingWebhookConfiguration>(
                client,
                namespace,
                authorities,
                move |all| {
                    zone_metrics.policies("mutating", all.values().flat_map(policies));
                },
                shutdown,
            ),
        );
    }
}
