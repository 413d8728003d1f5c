#!/usr/bin/env bash
# Measures ferrolet and the upstream kubelet side by side, in named parts of at most an hour: bench.sh [PART…]
# Called by `make bench`, which sets FERROLET_CACHE, CARGO_TARGET_DIR and PATH; see docs/benchmarks/README.md.
#   ROUNDS  how many rounds each part measures; they are added to the stored rounds of the same commit and binary
set -uo pipefail
cd "$(dirname "$0")/.."
. scripts/parts.sh
. scripts/checkout.sh

# To add a part, add a row here and a function part_NAME below.
what=bench
parts=(
    "standalone|28|agents without a cluster, on containerd and in memory (3 rounds)"
    "garbage|16|agents on a node full of dead containers (3 rounds)"
    "cluster|28|agents as nodes of a cluster (1 round; run it three times)"
    "node-api|12|agents as servers of logs and exec on port 10250, on containerd (3 rounds)"
    "probes|28|agents that probe 1,000 containers, in memory (3 rounds)"
    "volumes|21|agents that start default pods in a cluster, with a token volume (3 rounds)"
    "status|21|agents that report statuses of 100 pods in a cluster (3 rounds)"
    "logs|28|agents with 200 containers that write logs, on containerd (3 rounds)"
    "pod-gc|28|the Pod GC controller and that of kube-controller-manager (1 round; run it three times)"
)
out=docs/benchmarks

# bench OPTION… : measures and writes the pages.
bench() {
    "${root[@]}" "$CARGO_TARGET_DIR/release/bench" --out "$out" --commit "$commit" --binary "$binary" "$@"
}

# Default number of rounds of a part, and the maximum that fits an hour. A round may wait five minutes for a quiet machine.
declare -A usual=([standalone]=3 [garbage]=3 [cluster]=1 [node-api]=3 [probes]=3 [volumes]=3 [status]=3 [logs]=3) most=([standalone]=4 [garbage]=5 [cluster]=1 [node-api]=8 [probes]=5 [volumes]=6 [status]=6 [logs]=5 [pod-gc]=1)
part_standalone() { bench --rounds "${ROUNDS:-${usual[standalone]}}"; }
part_garbage() { bench --garbage --rounds "${ROUNDS:-${usual[garbage]}}"; }
part_cluster() { bench --cluster --rounds "${ROUNDS:-${usual[cluster]}}"; }
part_node_api() { bench --node-api --rounds "${ROUNDS:-${usual[node-api]}}"; }
part_probes() { bench --probes --rounds "${ROUNDS:-${usual[probes]}}"; }
part_volumes() { bench --volumes --rounds "${ROUNDS:-${usual[volumes]}}"; }
part_status() { bench --status --rounds "${ROUNDS:-${usual[status]}}"; }
part_logs() { bench --logs --rounds "${ROUNDS:-${usual[logs]}}"; }
part_pod_gc() { bench --pod-gc; }

choose_parts "$@"
for name in "${chosen[@]}"; do
    rounds=${ROUNDS:-1}
    if ! [[ $rounds =~ ^[1-9][0-9]?$ ]] || [ "$rounds" -gt "${most[$name]:-99}" ]; then
        printf 'bench: ROUNDS=%s: a run of %s has 1 to %d rounds; run it again to add more\n' \
            "$rounds" "$name" "${most[$name]:-99}" >&2
        exit 2
    fi
done
root=()
[ "$(id -u)" -eq 0 ] ||
    root=(sudo --preserve-env=HOME,XDG_CACHE_HOME,FERROLET_CACHE,CARGO_TARGET_DIR env "PATH=$PATH")

set -e
use_target
make --no-print-directory testbed
echo "building ferrolet and the benchmark (some minutes the first time)"
# Separate builds, so that ferrolet gets only its own features of shared libraries.
cargo build --quiet --locked --release -p cli -p testbed
cargo build --quiet --locked --release -p testkit -p bench
commit=$(source_commit)
binary=$(sha256sum "$CARGO_TARGET_DIR/release/ferrolet" | cut -c1-16)
set +e

# A missed target (3) or an error of one part fails the run after the other parts.
trap 'exit 130' INT TERM
failed=()
for name in "${chosen[@]}"; do
    printf '\n==== %s\n' "$name"
    run_function "$name"
    code=$?
    own "$out/$name".{json,md,svg}
    case $code in
    0) ;;
    3) failed+=("$name (missed a target)") ;;
    *) failed+=("$name (error, nothing stored)") ;;
    esac
done
[ "${#failed[@]}" -eq 0 ] || { printf 'bench: FAILED: %s\n' "${failed[*]}"; exit 1; }
