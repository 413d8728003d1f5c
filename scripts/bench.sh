#!/usr/bin/env bash
# Measures ferrolet and the upstream kubelet side by side; see docs/benchmarks/README.md.
# Called by `make bench`, which sets FERROLET_CACHE, CARGO_TARGET_DIR and PATH. ROUNDS, GARBAGE_ROUNDS and
# CLUSTER_ROUNDS may be set.
set -euo pipefail
cd "$(dirname "$0")/.."
out=docs/benchmarks

if [ "${1:-}" != built ]; then
    echo "building ferrolet and what measures it (some minutes the first time)"
    # Apart, so that ferrolet is built as it is for use, without what others ask of the same libraries.
    cargo build --quiet --locked --release -p ferrolet -p testbed
    cargo build --quiet --locked --release -p testkit -p bench
    commit=$(git rev-parse --short=12 HEAD 2>/dev/null || echo unknown)
    [ -z "$(git status --porcelain -- . ":!$out" 2>/dev/null)" ] || commit="$commit, with changes"
    if [ "$(id -u)" -ne 0 ]; then
        code=0
        sudo --preserve-env=HOME,XDG_CACHE_HOME,FERROLET_CACHE,CARGO_TARGET_DIR,ROUNDS,GARBAGE_ROUNDS,CLUSTER_ROUNDS \
            env "PATH=$PATH" "$0" built "$commit" || code=$?
        [ "$code" -eq 0 ] || [ "$code" -eq 3 ] || exit "$code"
        sudo chown "$(id -u):$(id -g)" "$out"/standalone.{json,md,svg} "$out"/garbage.{json,md} "$out"/pod-gc.{json,md} \
            "$out"/cluster.{json,md,svg}
        exit "$code"
    fi
    set -- built "$commit"
fi
commit=$2 missed=0
# A target that was missed (3) fails the whole, once everything was measured and written.
bench() {
    local code=0
    "$CARGO_TARGET_DIR/release/bench" --out "$out" --commit "$commit" "$@" || code=$?
    [ "$code" -eq 0 ] || [ "$code" -eq 3 ] || exit "$code"
    [ "$code" -eq 0 ] || missed=$code
}
bench --rounds "${ROUNDS:-5}"
# A round takes five minutes: the kubelet has four for what it does in passes of a minute.
bench --garbage --rounds "${GARBAGE_ROUNDS:-3}"
# A round takes more than twenty minutes: many short turns, and each agent is quiet for minutes twice.
bench --cluster --rounds "${CLUSTER_ROUNDS:-3}"
# Twenty minutes: 150,000 pods have to be made first.
bench --pod-gc
exit "$missed"
