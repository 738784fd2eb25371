#!/bin/sh
# Enrols a cluster that Cluster API does not manage, with kubectl alone. Safe to repeat: existing objects are kept.
set -eu

usage() {
    cat <<'USAGE'
Enrols a cluster that Cluster API does not manage.

  enrol.sh NAME --downstream-kubeconfig FILE [--downstream-context CONTEXT] [options]

The management cluster is kubectl's default cluster ($KUBECONFIG and its current context).

  --downstream-kubeconfig FILE   your kubeconfig of the new cluster (default: the same as for kubectl)
  --downstream-context CONTEXT   its context in that file (default: the current one)
  --context CONTEXT              the context of the management cluster (default: the current one)
  -n, --namespace NAMESPACE      the namespace of modules and clusters (default: default)
  --labels KEY=VALUE,...         labels of the Cluster, by which modules select it; existing labels that are not listed are kept.
                                 KEY- removes one, as kubectl label does: modules that select by it withdraw
  --server URL                   address of the new cluster for the management cluster, if it differs from yours
  --bootstrap                    also grant permission to apply anything there: BootstrapModules need it, Modules do not

Exit codes: 0 enrolled, 1 a step failed, 2 usage.
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
    printf 'error: %s (enrol.sh --help)\n' "$1" >&2
    exit 2
}

name='' context='' down_kubeconfig='' down_context='' namespace=default labels='' server='' bootstrap=''
while [ $# -gt 0 ]; do
    case $1 in
        -h | --help) usage; exit 0 ;;
        --bootstrap) bootstrap=yes; shift; continue ;;
        -*) [ $# -ge 2 ] || misused "$1 needs a value" ;;
        *) [ -z "$name" ] || misused "only one name is allowed, not $name and $1"; name=$1; shift; continue ;;
    esac
    case $1 in
        --downstream-kubeconfig) down_kubeconfig=$2 ;;
        --downstream-context) down_context=$2 ;;
        --context) context=$2 ;;
        -n | --namespace) namespace=$2 ;;
        --labels) labels=$2 ;;
        --server) server=$2 ;;
        *) misused "unknown flag: $1" ;;
    esac
    shift 2
done
[ -n "$name" ] || misused 'the name is missing'
printf '%s\n' "$name" | grep -Eqx '[a-z0-9]([-a-z0-9]*[a-z0-9])?' || misused "invalid name $name: use lower-case letters and digits, with - in between"
[ "${#name}" -le 63 ] || misused 'a name has at most 63 characters'
[ -n "$down_kubeconfig$down_context" ] || misused 'specify the new cluster with --downstream-kubeconfig or --downstream-context'
if [ -n "$labels" ]; then
    label='[A-Za-z0-9._/-]+(=[A-Za-z0-9._-]*|-)'
    printf '%s\n' "$labels" | grep -Eqx "$label(,$label)*" \
        || misused "invalid labels $labels: use env=prod,region=eu, or KEY- to remove one"
fi
here=$(dirname "$0")
[ -f "$here/enrol-account.yaml" ] || fail "$here/enrol-account.yaml is missing" 'this script needs the other files of its directory'
command -v kubectl >/dev/null || fail 'kubectl is not installed' 'see https://kubernetes.io/docs/tasks/tools/'

# kubectl for the management cluster, and for the new one.
up() { kubectl ${context:+--context "$context"} "$@"; }
down() { kubectl ${down_kubeconfig:+--kubeconfig "$down_kubeconfig"} ${down_context:+--context "$down_context"} "$@"; }
# Server-side apply of standard input: an unchanged object is not written again.
apply='apply --server-side --field-manager=muster-cli -f -'

say "1/5 check that both clusters respond"
output=$(up get --raw /version 2>&1) || fail 'the management cluster does not respond:' "$output"
output=$(down get --raw /version 2>&1) || fail "the cluster $name does not respond:" "$output"
versions=$(up api-versions 2>&1) || fail 'the API versions of the management cluster cannot be read:' "$versions"
version=''
for served in cluster.x-k8s.io/v1beta2 cluster.x-k8s.io/v1beta1; do
    if [ -z "$version" ] && printf '%s\n' "$versions" | grep -qx "$served"; then version=$served; fi
done
[ -n "$version" ] || fail 'the kind Cluster is not installed in the management cluster:' \
    'muster crds --management --cluster-api | kubectl apply --server-side -f -'
old=$(up get clusters.cluster.x-k8s.io "$name" -n "$namespace" --ignore-not-found \
    -o 'jsonpath={.metadata.name} {.metadata.annotations.cluster\.x-k8s\.io/managed-by}' 2>&1) \
    || fail "Clusters in namespace $namespace cannot be read:" "$old"
case $old in
    '' | "$name muster") ;;
    *) fail "there is a Cluster $namespace/$name that was not enrolled by this script" 'choose another name' ;;
esac
# The Cluster's labels, one KEY=VALUE per line, and the keys of those that enrolment wrote: an apply without one of these would remove it.
about_cluster() { up get clusters.cluster.x-k8s.io "$name" -n "$namespace" --ignore-not-found -o "jsonpath=$1" | tr -d '{}"' | tr ',' '\n'; }
there=$(about_cluster '{.metadata.labels}' | sed 's/:/=/')
own=$(about_cluster '{.metadata.managedFields[?(@.manager=="muster-cli")].fieldsV1.f:metadata.f:labels}' | sed 's/^f:\(.*\):$/\1/')
up get namespace "$namespace" >/dev/null 2>&1 || fail "namespace $namespace does not exist in the management cluster" \
    "kubectl create namespace $namespace"

say "2/5 $name: namespace muster-system, an account for the management cluster, and its permissions"
administrator='you need administrator permissions there'
down $apply <"$here/enrol-account.yaml" || fail "the account cannot be created in $name: see above; $administrator"
if [ -n "$bootstrap" ]; then
    down $apply <"$here/enrol-bootstrap.yaml" || fail "the permission to apply cannot be granted to the account: see above; $administrator"
fi

say "3/5 $name: the account's token"
token='' tries=0
while [ -z "$token" ]; do
    token=$(down get secret muster-management -n muster-system -o 'jsonpath={.data.token}')
    tries=$((tries + 1))
    [ -n "$token" ] || [ "$tries" -lt 30 ] || fail "$name did not issue a token in Secret muster-system/muster-management within 30 s" \
        'is kube-controller-manager running there?'
    [ -n "$token" ] || sleep 1
done
token=$(printf '%s' "$token" | base64 -d)
view() { down config view --raw --minify --flatten -o "jsonpath={.clusters[0].cluster.$1}"; }
[ -n "$server" ] || server=$(view server)
authority=$(view certificate-authority-data)
tls_name=$(view tls-server-name)
[ -n "$authority" ] || authority=$(down get secret muster-management -n muster-system -o 'jsonpath={.data.ca\.crt}')
case $server in
    https://*) ;;
    *) fail "muster supports only https, and the address of $name is $server" 'set another address with --server' ;;
esac
case $server in
    https://127.* | https://localhost[:/]* | https://localhost | 'https://[::1]'*)
        say "    note: $server is this machine; if the management cluster runs elsewhere, set another address with --server" ;;
esac

say "4/5 management cluster: Secret $namespace/$name-kubeconfig"
kubeconfig="apiVersion: v1
kind: Config
current-context: muster
contexts: [{name: muster, context: {cluster: $name, user: muster}}]
clusters:
  - name: $name
    cluster:
      server: $server
      certificate-authority-data: $authority${tls_name:+
      tls-server-name: $tls_name}
users: [{name: muster, user: {token: $token}}]
"
up $apply <<YAML || fail 'the Secret cannot be written: see above'
apiVersion: v1
kind: Secret
metadata:
  name: $name-kubeconfig
  namespace: $namespace
  labels:
    fleet.muster.dev/kubeconfig: ""
    cluster.x-k8s.io/cluster-name: $name
data:
  value: $(printf '%s' "$kubeconfig" | base64 | tr -d '\n')
YAML

# The change of each label, as "write LABEL", "shown LABEL (was VALUE)", "kept LABEL" and "removed LABEL".
decided=$(
    {
        printf '%s\n' "$there" | sed 's/^/there /'
        printf '%s\n' "$own" | sed 's/^/own /'
        printf '%s\n' "$labels" | tr ',' '\n' | sed 's/^/named /'
    } | awk '
        NF < 2 { next }
        { at = index($2, "="); key = at ? substr($2, 1, at - 1) : $2; value = substr($2, at + 1) }
        $1 == "there" { before[key] = after[key] = value }
        $1 == "own" { own[key] }
        $1 == "named" && at { named[key]; after[key] = value }
        $1 == "named" && !at { sub(/-$/, "", key); delete after[key] }
        END {
            for (key in after) {
                label = key "=" after[key]
                if (key in own || key in named) print "write", label
                print "shown", label (key in before && before[key] != after[key] ? " (was " before[key] ")" : "")
                if (!(key in named)) print "kept", label
            }
            for (key in before) if (!(key in after)) print "removed", key "=" before[key]
        }' | sort
)
decided() { printf '%s\n' "$decided" | sed -n "s/^$1 //p"; }
on_a_line() { decided "$1" | tr '\n' ' ' | sed 's/ $//'; }
shown=$(on_a_line shown) kept=$(on_a_line kept)

say "5/5 management cluster: Cluster $namespace/$name${shown:+ labelled $shown}"
if [ -n "$kept" ]; then
    say "    kept, although not listed in --labels: $kept (to remove a label: --labels ${kept%%=*}-)"
fi
address=${server#https://}
address=${address%%/*}
case $address in
    *]) host=$address port=443 ;;
    *:*) host=${address%:*} port=${address##*:} ;;
    *) host=$address port=443 ;;
esac
label_lines=$(decided write | sed -e 's/^\([^=]*\)=\(.*\)$/    "\1": "\2"/')
up $apply <<YAML || fail 'the Cluster cannot be written: see above'
apiVersion: $version
kind: Cluster
metadata:
  name: $name
  namespace: $namespace
  annotations:
    fleet.muster.dev/enrolled: "true"
    cluster.x-k8s.io/managed-by: muster
  labels:${label_lines:+
$label_lines}
spec:
  controlPlaneEndpoint:
    host: "$host"
    port: $port
YAML
for label in $(decided removed); do
    # Labels that enrolment wrote are removed already; those of other writers are removed here.
    up label clusters.cluster.x-k8s.io "$name" -n "$namespace" "${label%%=*}-" >/dev/null || fail "label $label cannot be removed: see above"
    say "    removed: $label; modules that select by it withdraw from $name"
done

served=$(down api-versions) || fail "the API versions of $name cannot be read"
if ! printf '%s\n' "$served" | grep -qx 'fleet.muster.dev/v1alpha1'; then
    say "    note: muster agent is not installed in $name yet; until then Modules skip it (KindMissing):"
    say '    muster install --export --downstream --crds | kubectl <flags of the new cluster> apply --server-side -f -'
fi
say "$name is enrolled. To see its modules: muster tree cluster/$name"
say "To undo it: $(dirname "$0")/unenrol.sh $name${context:+ --context $context} -n $namespace"
