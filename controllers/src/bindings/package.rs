//! Variables in a package.

use std::collections::BTreeSet;

use muster_api::{
    sync::{Binding, HealthCheck, Package},
    template::{self, Part},
};

use super::{BindingError, Values, evaluate};

/// The package with the variables in its texts replaced.
pub fn substitute_package(package: &Package, values: &Values) -> Result<Package, BindingError> {
    let replace = |text: &String, place: &str| evaluate::replace_variables(text, place, values);
    let optional =
        |text: &Option<String>, place: &str| text.as_ref().map(|text| replace(text, place)).transpose();
    // Without `..`: a field added to the package must be substituted or listed here.
    let Package {
        path,
        substitute,
        target_namespace,
        prune,
        wait,
        timeout,
        settle,
        assume,
        interval,
        retry_interval,
        force,
        health_checks,
        health_expressions,
        health_table,
        plan,
        flux,
    } = package;
    let variables = substitute.iter().map(|(name, value)| {
        Ok((
            name.clone(),
            replace(value, &format!("package.substitute.{name}"))?,
        ))
    });
    let checks = health_checks.iter().map(|check| {
        let HealthCheck {
            api_version,
            kind,
            name,
            namespace,
        } = check;
        Ok(HealthCheck {
            api_version: api_version.clone(),
            kind: kind.clone(),
            name: replace(name, "package.healthChecks.name")?,
            namespace: optional(namespace, "package.healthChecks.namespace")?,
        })
    });
    Ok(Package {
        path: replace(path, "package.path")?,
        substitute: variables.collect::<Result<_, BindingError>>()?,
        target_namespace: optional(target_namespace, "package.targetNamespace")?,
        prune: *prune,
        wait: *wait,
        timeout: *timeout,
        settle: *settle,
        assume: *assume,
        interval: *interval,
        retry_interval: *retry_interval,
        force: *force,
        health_checks: checks.collect::<Result<_, BindingError>>()?,
        // CEL expressions, which have no variables of bindings.
        health_expressions: health_expressions.clone(),
        health_table: *health_table,
        // A file name, which has no variables of bindings either.
        plan: plan.clone(),
        // Passed to Flux unchanged: values of a cluster are set by substitute.
        flux: flux.clone(),
    })
}

/// The variables that a package and its bindings use by name. Texts that cannot be parsed use none: evaluation reports
/// them.
pub fn used_by(package: &Package, bindings: &[Binding]) -> BTreeSet<String> {
    let of_package = [&package.path]
        .into_iter()
        .chain(package.substitute.values())
        .chain(&package.target_namespace);
    let of_checks = package
        .health_checks
        .iter()
        .flat_map(|check| [&check.name].into_iter().chain(&check.namespace));
    let of_bindings = bindings.iter().flat_map(|binding| {
        let reference = binding.object_field_ref.iter();
        let fields = reference.flat_map(|reference| {
            [
                &reference.api_version,
                &reference.kind,
                &reference.name,
                &reference.field_path,
            ]
        });
        fields.chain(&binding.value)
    });
    let texts = of_package.chain(of_checks).chain(of_bindings);
    let parts = texts.flat_map(|text| template::template_parts(text).unwrap_or_default());
    let names = parts.filter_map(|part| match part {
        Part::Name(name) => Some(name.to_owned()),
        Part::Text(_) => None,
    });
    names.collect()
}
