//! Checks the controller process.

use jiff::Timestamp;
use k8s_openapi::api::{apps::v1::Deployment, coordination::v1::LeaseSpec};
use kube::ResourceExt;
use muster_fleet::text::Age;
use muster_operate::install::{deployment_arguments, works_in};

use super::super::{
    code::Code,
    finding::{Finding, Level},
    flux,
    world::World,
};

/// How many seconds past its duration a Lease may be before it counts as expired: clocks of two machines differ.
const GRACE: i64 = 30;
/// The most missing rights that are listed.
const NAMED: usize = 3;

pub(crate) fn judge(world: &World) -> Vec<Finding> {
    let deployments = match &world.deployments {
        Ok(deployments) => deployments,
        Err(why) => {
            return vec![Finding::unknown(
                Code::Deployment,
                "the Deployment of the controller",
                why,
            )];
        }
    };
    let here: Vec<&Deployment> = deployments
        .iter()
        .filter(|deployment| works_in(deployment) == world.namespace)
        .collect();
    let mut findings = vec![
        deployment(world, deployments, &here),
        lease(world, !here.is_empty()),
        one(&here),
    ];
    findings.extend(rights(world, &here));
    findings.extend(here.first().map(|deployment| version(deployment)));
    let by_flux = |deployment: &&Deployment| deployment_arguments(deployment).contains(&"--sync=flux");
    match &world.flux {
        _ if !here.iter().any(by_flux) => {}
        Ok(flux) => findings.extend(
            flux.iter()
                .map(|flux| flux::judge_deployment(Code::RemoteBases, flux)),
        ),
        Err(why) => findings.push(Finding::unknown(Code::RemoteBases, "how Flux runs", why)),
    }
    findings
}

fn namespaced_name(deployment: &Deployment) -> String {
    format!(
        "{}/{}",
        deployment.namespace().unwrap_or_default(),
        deployment.name_any()
    )
}

fn deployment(world: &World, all: &[Deployment], here: &[&Deployment]) -> Finding {
    let namespace = &world.namespace;
    let install = format!(
        "muster install --export --management --crds -n {namespace} | kubectl apply --server-side -f -"
    );
    let Some(deployment) = here.first() else {
        if let Some(other) = all.first() {
            let works = works_in(other);
            return Finding::problem(
                Code::Deployment,
                format!("no controller works in namespace {namespace}"),
            )
            .reason(format!(
                "Deployment {} works in namespace {works}",
                namespaced_name(other)
            ))
            .remedy(format!(
                "check there: muster check -n {works}; or install one for {namespace}: {install}"
            ));
        }
        let alive = is_alive(world);
        if let Err(why) = alive {
            return Finding::unknown(Code::Deployment, "whether a controller runs elsewhere", why);
        }
        if alive == Ok(true) {
            return Finding::warning(
                Code::Deployment,
                "the controller does not run as a Deployment in this cluster",
            )
            .reason("it runs elsewhere: its Lease and its writes show whether it is healthy")
            .remedy("nothing, if that is intended; its log is where it was started");
        }
        return Finding::problem(
            Code::Deployment,
            format!("no controller is installed for namespace {namespace}"),
        )
        .remedy(install);
    };
    let status = deployment.status.clone().unwrap_or_default();
    let (available, wanted) = (
        status.available_replicas.unwrap_or(0),
        deployment
            .spec
            .as_ref()
            .and_then(|spec| spec.replicas)
            .unwrap_or(1),
    );
    let conditions = status.conditions.unwrap_or_default();
    let why = conditions
        .iter()
        .find(|condition| condition.status == "False")
        .and_then(|condition| condition.message.clone());
    let object = namespaced_name(deployment);
    let (place, name) = object.split_once('/').unwrap_or_default();
    if available > 0 {
        Finding::ok(
            Code::Deployment,
            format!("Deployment {object} is available ({available}/{wanted})"),
        )
    } else {
        Finding::problem(
            Code::Deployment,
            format!("Deployment {object} is not available (0/{wanted})"),
        )
        .reason(why.unwrap_or_default())
        .remedy(format!(
            "kubectl describe -n {place} deployment/{name}; kubectl logs -n {place} deployment/{name}"
        ))
    }
}

/// Whether a controller runs here: it holds the Lease, or has observed modules. An error if neither could be read.
fn is_alive(world: &World) -> Result<bool, &str> {
    let leased = world.lease.as_ref().map(Option::is_some);
    let observed = world.live.as_ref().map(|live| {
        let statuses = live.modules.iter().map(|module| &module.status);
        let statuses = statuses.chain(live.bootstrap_modules.iter().map(|module| &module.status));
        statuses
            .flatten()
            .any(|status| status.observed_generation.is_some())
    });
    match (leased, observed) {
        (Ok(true), _) | (_, Ok(true)) => Ok(true),
        (Err(why), _) | (_, Err(why)) => Err(why),
        (Ok(false), Ok(false)) => Ok(false),
    }
}

fn lease(world: &World, deployed: bool) -> Finding {
    let logs = if deployed {
        "kubectl logs -n muster-system deployment/muster-controller"
    } else {
        "the log of the process that runs it: muster controller or muster demo"
    };
    let lease = match &world.lease {
        Ok(lease) => lease.as_ref().and_then(|lease| lease.spec.as_ref()),
        Err(why) => return Finding::unknown(Code::Lease, "the Lease of the controller", why),
    };
    let Some(spec) = lease else {
        let level = if deployed { Level::Problem } else { Level::Warning };
        return Finding::new(
            Code::Lease,
            level,
            format!("there is no Lease {}/muster-controller", world.namespace),
        )
        .reason("no controller has started here, or it runs without leader election (--leader-elect=false)")
        .remedy(logs);
    };
    let Some(holder) = spec
        .holder_identity
        .as_deref()
        .filter(|holder| !holder.is_empty())
    else {
        return Finding::problem(Code::Lease, "the Lease of the controller has no holder")
            .reason("the last holder released it")
            .remedy(logs);
    };
    let Some(renewed) = spec.renew_time.as_ref().map(|time| time.0) else {
        return Finding::warning(
            Code::Lease,
            format!("{holder} holds the Lease, but its renew time is not set"),
        );
    };
    if is_over(spec, renewed, world.now) {
        Finding::problem(
            Code::Lease,
            format!("{holder} was last seen {} ago", Age(renewed, world.now)),
        )
        .reason("it holds the Lease and does not renew it; no other replica took over")
        .remedy(logs)
    } else {
        Finding::ok(Code::Lease, format!("{holder} holds the Lease"))
    }
}

fn is_over(spec: &LeaseSpec, renewed: Timestamp, now: Timestamp) -> bool {
    let lasts = i64::from(spec.lease_duration_seconds.unwrap_or(15)) + GRACE;
    now.duration_since(renewed).as_secs() > lasts
}

fn one(here: &[&Deployment]) -> Finding {
    match here {
        [_, _, ..] => {
            let names: Vec<String> = here
                .iter()
                .map(|deployment| namespaced_name(deployment))
                .collect();
            Finding::problem(
                Code::OneController,
                format!(
                    "{} controllers are installed for one namespace: {}",
                    here.len(),
                    names.join(", ")
                ),
            )
            .reason("they take turns by one Lease, and may be of different versions")
            .remedy("keep one: kubectl delete -n NAMESPACE deployment/NAME")
        }
        [] | [_] => Finding::ok(
            Code::OneController,
            "no second controller is installed for this namespace",
        ),
    }
}

fn rights(world: &World, here: &[&Deployment]) -> Vec<Finding> {
    let missing = match &world.rights {
        Ok(Some(missing)) if !here.is_empty() => missing,
        Ok(_) => return Vec::new(),
        Err(why) => {
            return vec![Finding::unknown(
                Code::Rights,
                "the rights of the controller",
                why,
            )];
        }
    };
    if missing.is_empty() {
        return vec![Finding::ok(
            Code::Rights,
            "the controller has every right that it needs",
        )];
    }
    let mut named: Vec<String> = missing.iter().take(NAMED).map(ToString::to_string).collect();
    if missing.len() > NAMED {
        named.push(format!("and {} more", missing.len() - NAMED));
    }
    vec![
        Finding::problem(Code::Rights, "the controller lacks rights that it needs")
            .reason(format!("its account may not {}", named.join(", ")))
            .remedy(format!(
                "muster install --export --management -n {} | kubectl apply --server-side -f -",
                world.namespace
            )),
    ]
}

fn version(deployment: &Deployment) -> Finding {
    let ours = env!("CARGO_PKG_VERSION");
    let containers = deployment
        .spec
        .as_ref()
        .and_then(|spec| spec.template.spec.as_ref())
        .map(|spec| &spec.containers);
    let image = containers
        .and_then(|all| all.first())
        .and_then(|container| container.image.as_deref())
        .unwrap_or_default();
    let tag = image
        .rsplit('/')
        .next()
        .and_then(|last| last.split('@').next())
        .and_then(|last| last.split_once(':'))
        .map(|(_, tag)| tag);
    match tag.map(|tag| tag.trim_start_matches('v')) {
        Some(tag) if tag == ours => Finding::ok(
            Code::Versions,
            format!("the controller is muster {ours}, as this command"),
        ),
        Some(tag) if tag.starts_with(|first: char| first.is_ascii_digit()) => Finding::warning(
            Code::Versions,
            format!("the controller is muster {tag}, this command {ours}"),
        )
        .reason("they may not support the same fields and values")
        .remedy("use the command of the controller's version, or upgrade the controller"),
        Some(_) | None => Finding::ok(Code::Versions, format!("the controller runs image {image}")),
    }
}
