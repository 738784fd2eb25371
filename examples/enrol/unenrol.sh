#!/bin/sh
# Removes an enrolled cluster from the fleet. Nothing that runs in it is touched. Safe to repeat.
set -eu

usage() {
    cat <<'USAGE'
Removes an enrolled cluster from the fleet; everything in it is kept.

  unenrol.sh NAME [options]

  --context CONTEXT              the context of the management cluster (default: the current one)
  -n, --namespace NAMESPACE      the namespace of modules and clusters (default: default)
  --revoke                       also delete the management cluster's account in the cluster itself, which needs one of:
  --downstream-kubeconfig FILE   your kubeconfig of the cluster
  --downstream-context CONTEXT   its context in that file

To empty a cluster first, deselect it in all modules and wait until they are withdrawn.

Exit codes: 0 no longer in the fleet, 1 a step failed, 2 usage.
USAGE
}

say() { printf '%s\n' "$*"; }
fail() {
    printf 'error: %s\n' "$1" >&2
    shift
    for line in "$@"; do printf '       %s\n' "$line" >&2; done
    exit 1
}
misused() {
    printf 'error: %s (unenrol.sh --help)\n' "$1" >&2
    exit 2
}

name='' context='' down_kubeconfig='' down_context='' namespace=default revoke=''
while [ $# -gt 0 ]; do
    case $1 in
        -h | --help) usage; exit 0 ;;
        --revoke) revoke=yes; shift; continue ;;
        -*) [ $# -ge 2 ] || misused "$1 needs a value" ;;
        *) [ -z "$name" ] || misused "only one name is allowed, not $name and $1"; name=$1; shift; continue ;;
    esac
    case $1 in
        --downstream-kubeconfig) down_kubeconfig=$2 ;;
        --downstream-context) down_context=$2 ;;
        --context) context=$2 ;;
        -n | --namespace) namespace=$2 ;;
        *) misused "unknown flag: $1" ;;
    esac
    shift 2
done
[ -n "$name" ] || misused 'the name is missing'
if [ -n "$revoke" ] && [ -z "$down_kubeconfig$down_context" ]; then
    misused '--revoke needs --downstream-kubeconfig or --downstream-context'
fi
command -v kubectl >/dev/null || fail 'kubectl is not installed' 'see https://kubernetes.io/docs/tasks/tools/'

up() { kubectl ${context:+--context "$context"} "$@"; }
down() { kubectl ${down_kubeconfig:+--kubeconfig "$down_kubeconfig"} ${down_context:+--context "$down_context"} "$@"; }

old=$(up get clusters.cluster.x-k8s.io "$name" -n "$namespace" --ignore-not-found \
    -o 'jsonpath={.metadata.name} {.metadata.annotations.cluster\.x-k8s\.io/managed-by}' 2>&1) \
    || fail "Clusters in namespace $namespace cannot be read:" "$old"
case $old in
    '' | "$name muster") ;;
    *) fail "Cluster $namespace/$name was not enrolled by enrol.sh: whatever manages it should delete it" ;;
esac

say "1/2 management cluster: Cluster $namespace/$name (nothing is withdrawn from it)"
up delete clusters.cluster.x-k8s.io "$name" -n "$namespace" --ignore-not-found --timeout=60s || fail 'the Cluster cannot be deleted: see above'
say "2/2 management cluster: Secret $namespace/$name-kubeconfig"
up delete secret "$name-kubeconfig" -n "$namespace" --ignore-not-found || fail 'the Secret cannot be deleted: see above'
if [ -n "$revoke" ]; then
    say "    $name: the account of the management cluster"
    down delete clusterrolebinding muster-management muster-management-bootstrap --ignore-not-found
    down delete clusterrole muster-management --ignore-not-found
    down delete secret,serviceaccount,rolebinding,role muster-management -n muster-system --ignore-not-found
fi
say "$name is no longer in the fleet; what runs in it keeps running."
