#!/usr/bin/env bash
# Runs upstream's end-to-end suite against a cluster of one node. Called by `make conformance`, which sets
# FERROLET_CACHE, CARGO_TARGET_DIR and PATH; see docs/conformance/README.md.
#   FOCUS, SKIP  regular expressions that select specs (NodeConformance of sig-node, sig-storage and sig-network)
#   QUICK=1      only a dozen specs
#   AGENT        ferrolet or upstream (ferrolet)
#   PROCS        how many specs run at a time (8)
#   MINUTES      the time limit of the specs (60; 15 of a quick run)
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/parts.sh
. scripts/checkout.sh

root=()
[ "$(id -u)" -eq 0 ] ||
    root=(sudo --preserve-env=HOME,XDG_CACHE_HOME,FERROLET_CACHE,CARGO_TARGET_DIR env "PATH=$PATH")
docs=docs/conformance
results=$FERROLET_CACHE/conformance

options=(--docs "$docs" --results "$results" --agent "${AGENT:-ferrolet}" --procs "${PROCS:-8}")
[ -z "${QUICK:-}" ] || options+=(--quick)
[ -z "${FOCUS:-}" ] || options+=(--focus "$FOCUS")
[ -z "${SKIP:-}" ] || options+=(--skip "$SKIP")
[ -z "${MINUTES:-}" ] || options+=(--minutes "$MINUTES")

e2e/parts/build.sh containerd runc cni etcd control-plane kubelet conformance
e2e/build-images.sh images
e2e/build-images.sh conformance
use_target
echo "building ferrolet (some minutes the first time)"
# Separate builds, so that ferrolet gets only its own features of shared libraries.
cargo build --quiet --locked --profile quick -p cli -p testbed
cargo build --quiet --locked --profile quick -p conformance

code=0
"${root[@]}" "$CARGO_TARGET_DIR/quick/conformance" "${options[@]}" --commit "$(source_commit)" \
    --date "$(date -u '+%F %H:%M UTC')" || code=$?
own "$docs"/*
exit "$code"
