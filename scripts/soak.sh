#!/usr/bin/env bash
# Runs tests that take too long for `make test`, in named parts of at most an hour: soak.sh [PART…]
# Called by `make soak`, which sets FERROLET_CACHE, CARGO_TARGET_DIR and PATH. Each part writes its result to
# docs/soak/PART.md, whether it passed or failed, and its output to $FERROLET_CACHE/soak; see docs/soak/README.md.
#   SOAK_COUNT    how many histories are simulated (2000)
#   SOAK_SECONDS  for how long histories are started; the part fails if fewer than SOAK_COUNT were run (2700)
#   SOAK_FROM     the first seed (the Unix time in seconds, times a thousand)
#   SOAK_JOBS     how many histories are simulated at a time (the number of processors)
set -uo pipefail
cd "$(dirname "$0")/.."
export CARGO_INCREMENTAL=0
. scripts/stages.sh
. scripts/parts.sh
. scripts/checkout.sh

# To add a part, add a row here and a function part_NAME below.
what=soak
parts=(
    "histories|10|fresh histories in the simulator, from SOAK_FROM on"
    "mutants-pods-1|25|the simulator finds faults in the source of the agent's pods: first half"
    "mutants-pods-2|25|the same: second half"
    "mutants-gc|20|the simulator finds faults in the source of garbage collection"
    "mutants-pod-gc|10|tests of the Pod GC controller find faults in its source"
    "faults|18|every CRI method with every kind of fault, on containerd"
    "node|15|a node of a cluster with ferrolet and with the upstream kubelet, compared"
    "node-api|15|the node's API: kubectl, the Python client, all clients and paths, requests compared with the upstream kubelet, delays under load, logs of a fast writer and of links"
    "statistics|6|the usage of a pod, reported by ferrolet and by the upstream kubelet, compared; metrics-server"
    "probes|12|50 containers with a probe each second, by HTTP, TCP, gRPC and exec: none restarts; the agent is killed under 50 probed pods"
    "volumes|25|volumes with ferrolet and with the upstream kubelet, compared and taken over; a thousand volumes that change; kills while mounting; orphaned directories"
    "images|5|50 pods with 20 images at once, from a registry on loopback; the agent is killed during a pull"
    "crashes|10|the agent is killed at every effect, on the runtime in memory"
    "end-to-end|10|end-to-end tests of rules that make test shows at lower levels"
    "repeat|55|every end-to-end test five times, beside two busy processes"
    "vm|12|tests that need the kernel of a virtual machine: cgroup v2, AppArmor, NFS, systemd"
)
choose_parts "$@"
as_root scripts/soak.sh "${chosen[@]}"
use_target

jobs=${SOAK_JOBS:-$(nproc)}
# The longest time that a part may take, in seconds, without the set-up of an empty cache.
limit=3600
began=0
root=()

# within SECONDS COMMAND… : runs a command and ends it after this time. timeout starts a process group, which ^C in
# a terminal does not reach, so this function ends it.
within() {
    local pid status=0
    timeout --kill-after 60 "$@" &
    pid=$!
    trap 'kill -TERM "$pid" 2>/dev/null' INT TERM
    wait "$pid" || status=$?
    # A signal ends the first wait before the command has ended.
    wait "$pid" 2>/dev/null
    [ "$status" -ne 124 ] || echo "soak: ended at the time limit, after $1 s"
    return "$status"
}

# limited COMMAND… : runs a command in the time that is left of the part.
limited() {
    local left=$((limit - SECONDS + began))
    within $((left > 0 ? left : 1)) "$@"
}

# setting NAME VALUE : adds a row to the result of the part.
setting() {
    printf '| %s | %s |\n' "$1" "$2" >>"$settings"
}

# tally PASSED FAILED : copies its input, and adds the number of lines that match these patterns as a test result.
tally() {
    awk -v passed="$1" -v failed="$2" '
        { print; fflush() }
        $0 ~ passed { p++ }
        $0 ~ failed { f++ }
        END { printf "test result: %s. %d passed; %d failed\n", f ? "FAILED" : "ok", p, f }'
}

simulator() {
    stage simulator limited cargo build --quiet --locked --profile sim -p sim
}

# Parts that run on a testbed.
testbed() {
    stage set-up make --no-print-directory testbed
    began=$SECONDS
    stage build limited cargo xtask test
}

# soak_tests NAME SLOTS : runs the tests of a module of e2e/tests/soak, SLOTS at a time.
soak_tests() {
    tests "$1" limited cargo xtask test soak "soak::$1::" --slots "$2"
}

histories() {
    within $((seconds + 300)) "$CARGO_TARGET_DIR/sim/sim" --from "$from" --count "$count" --seconds "$seconds" \
        --jobs "$jobs" --verbose | tally '^seed [0-9]+: [0-9]+ pods, ' '^seed [0-9]+: BROKEN: |^too few events: '
}

part_histories() {
    local from=${SOAK_FROM:-$(date +%s)000} count=${SOAK_COUNT:-2000} seconds=${SOAK_SECONDS:-2700}
    setting "first seed" "$from"
    setting "histories" "$count"
    setting "seconds for them" "$seconds"
    setting "jobs" "$jobs"
    simulator
    tests histories histories
}

# Puts faults into a copy of the source, one at a time, and checks that each is found. The copy always has the same
# path, so that its dependencies are built once.
mutants() (
    set -e
    trap 'rm -rf "$CARGO_TARGET_DIR/sim-of-mutants" "$CARGO_TARGET_DIR/mutants"' EXIT
    cp "$CARGO_TARGET_DIR/sim/sim" "$CARGO_TARGET_DIR/sim-of-mutants"
    status=0
    limited "$CARGO_TARGET_DIR/sim-of-mutants" --mutants "$CARGO_TARGET_DIR/mutants" --set "$1" --share "$2" \
        --from 1 --count 300 --jobs "$jobs" | tally '^mutant found ' '^mutant NOT FOUND: ' || status=$?
    # The last mutant was built to the path of the real simulator.
    cargo build --quiet --locked --profile sim -p sim
    exit "$status"
)

# mutants_of SET SHARE
mutants_of() {
    setting "mutants" "set $1, share $2"
    setting "seeds for each" "1 to 300"
    setting "jobs" "$jobs"
    simulator
    tests mutants mutants "$@"
}
part_mutants_pods_1() { mutants_of pods 1/2; }
part_mutants_pods_2() { mutants_of pods 2/2; }
part_mutants_gc() { mutants_of gc 1/1; }
part_mutants_pod_gc() { mutants_of pod-gc 1/1; }

# These tests mostly wait, so more of them run at a time than there are processors.
part_faults() {
    testbed
    soak_tests faults 4
}

part_node() {
    testbed
    soak_tests node 1
}

# The Python client of Kubernetes, in its own virtual environment.
python_client() {
    local place=$FERROLET_CACHE/python-client
    [ -x "$place/bin/python" ] && "$place/bin/python" -c 'import kubernetes' && return
    rm -rf "$place"
    python3 -m venv "$place" && "$place/bin/pip" install --quiet kubernetes==37.0.2
}

# Its delays are measured: one test at a time.
part_node_api() {
    stage python python_client
    testbed
    soak_tests node_api 1
}

part_statistics() {
    testbed
    stage metrics-server e2e/parts/build.sh metrics-server
    soak_tests statistics 1
}

# A probe has a second for its verdict: one test at a time.
part_probes() {
    testbed
    soak_tests probes 1
}

# Two agents at a time, and memory that is measured: one test at a time.
part_volumes() {
    testbed
    soak_tests volumes 1
}

# A virtual machine keeps two processors busy.
part_vm() {
    testbed
    stage systemd e2e/parts/build.sh systemd
    soak_tests vm 1
}

# It counts transfers of images, which other tests delay: one test at a time.
part_images() {
    testbed
    soak_tests images 1
}

part_crashes() {
    testbed
    soak_tests crashes 2
}

part_end_to_end() {
    testbed
    tests end-to-end limited cargo xtask test soak ::soak:: --slots 8
}

# A flaky test fails here.
part_repeat() {
    testbed
    setting "runs of each test" 5
    setting "busy processes beside them" 2
    tests repeat limited cargo xtask test end-to-end --repeat 5 --load 2
}

# result NAME : prints the page about a run of a part.
result() {
    printf '# Soak: %s\n\nWritten by `make soak PART=%s`; see [README.md](README.md).\n\n| | |\n|---|---|\n' "$1" "$1"
    if [ "$code" -eq 0 ]; then
        printf '| result | passed |\n'
    else
        printf '| result | **failed**, in stage %s |\n' "$(sed -n 's/^FAILED in stage: //p' "$output" | tail -n 1)"
    fi
    printf '| counts | %s |\n' "$(grep -E '^[0-9]+ passed, [0-9]+ failed$' "$output" | tail -n 1)"
    printf '| commit | %s |\n| date | %s |\n| seconds | %d |\n| cores | %d |\n' "$commit" "$date" "$seconds" "$(nproc)"
    cat "$settings"
    [ "$code" -eq 0 ] || failures
}

# failures : prints the first failures: histories, mutants, tests, errors of the simulator, and the time limit.
failures() {
    local lines
    lines=$(grep -E '^seed [0-9]+: BROKEN: |^too few events: |^mutant NOT FOUND: |^only [0-9]+ of |^FAILED +[0-9.]+ s  |^sim: |^soak: ' \
        "$output" | head -n 20)
    [ -z "$lines" ] || printf '\n```text\n%s\n```\n' "$lines"
}

# run_part NAME : runs a part, stores its result and sets `code`.
run_part() {
    local commit date seconds start=$SECONDS after page=docs/soak/$1.md
    local output=$FERROLET_CACHE/soak/$1.log settings=$FERROLET_CACHE/soak/$1.settings
    mkdir -p "$FERROLET_CACHE/soak"
    commit=$(source_commit)
    date=$(date -u '+%F %H:%M UTC')
    : >"$settings"
    : >"$slow"
    printf '\n==== %s\n' "$1"
    (
        SECONDS=0
        run_function "$1"
        finish
    ) 2>&1 | tee "$output"
    code=${PIPESTATUS[0]}
    seconds=$((SECONDS - start))
    after=$(source_commit)
    [ "$commit" = "$after" ] || commit="$commit; at the end $after"
    result "$1" >"$page"
    own "$page"
    printf '\n%s; the whole output: %s\n' "$page" "$output"
}

# An interrupted part has no result.
trap 'exit 130' INT TERM
broken=()
for name in "${chosen[@]}"; do
    run_part "$name"
    [ "$code" -eq 0 ] || broken+=("$name")
done
[ "${#broken[@]}" -eq 0 ] || { printf 'soak: FAILED parts: %s\n' "${broken[*]}"; exit 1; }
