#!/usr/bin/env bash
# Runs kubectl as administrator of the cluster of `make cluster`.
set -euo pipefail
. "$(dirname "$0")/roots.sh"
cache=${XDG_CACHE_HOME:-$HOME/.cache}/ferrolet
root=${FERROLET_ROOT:-$(newest_root "${FERROLET_NOTE:-$cache/run.root}" admin.kubeconfig)} || { echo "make cluster is not running" >&2; exit 1; }
as_root=()
# The file grants all permissions, so it may be readable only by root.
[ -r "$root/admin.kubeconfig" ] || as_root=(sudo)
exec "${as_root[@]}" "$cache/testbed/bin/kubectl" --kubeconfig "$root/admin.kubeconfig" "$@"
