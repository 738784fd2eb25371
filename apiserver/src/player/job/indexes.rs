//! The completion indexes of the pods of a Job.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt as _;

const INDEX: &str = "batch.kubernetes.io/job-completion-index";

/// The index of a pod.
pub(super) fn pod_index(pod: &Pod) -> Option<usize> {
    pod.annotations().get(INDEX)?.parse().ok() // not a number: no index
}

/// Gives a new pod its index: as annotation, label and variable.
pub(super) fn set_pod_index(pod: &mut Pod, index: usize) {
    pod.annotations_mut().insert(INDEX.to_owned(), index.to_string());
    pod.labels_mut().insert(INDEX.to_owned(), index.to_string());
    let spec = pod.spec.get_or_insert_default();
    for container in spec
        .containers
        .iter_mut()
        .chain(spec.init_containers.iter_mut().flatten())
    {
        let variable = k8s_openapi::api::core::v1::EnvVar {
            name: "JOB_COMPLETION_INDEX".to_owned(),
            value: Some(index.to_string()),
            ..Default::default()
        };
        container.env.get_or_insert_default().push(variable);
    }
}

/// The indexes of these pods.
pub(super) fn done(pods: &[&Pod]) -> BTreeSet<usize> {
    pods.iter().filter_map(|pod| pod_index(pod)).collect()
}

/// Indexes as the status has them: `0,2-4`.
pub(super) fn format_indexes(indexes: &BTreeSet<usize>) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for index in indexes {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == *index => *last = *index,
            _ => runs.push((*index, *index)),
        }
    }
    let run = |(first, last): &(usize, usize)| match last - first {
        0 => first.to_string(),
        1 => format!("{first},{last}"),
        _ => format!("{first}-{last}"),
    };
    runs.iter().map(run).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_written_as_ranges() {
        for (indexes, expected) in [
            (vec![], ""),
            (vec![3], "3"),
            (vec![0, 1], "0,1"),
            (vec![0, 2, 3, 4, 7, 8], "0,2-4,7,8"),
        ] {
            assert_eq!(format_indexes(&indexes.into_iter().collect()), expected);
        }
    }
}
