#!/usr/bin/env bash
# Runs what takes too long for `make test`, one stage after the other.
# Called by `make soak`, which sets FERROLET_CACHE, CARGO_TARGET_DIR and PATH.
set -uo pipefail
cd "$(dirname "$0")/.."
export CARGO_INCREMENTAL=0
. scripts/stages.sh
as_root scripts/soak.sh "$@"

stage set-up make --no-print-directory testbed
stage build cargo build --quiet --locked --workspace --bins
# Every method of the runtime with every kind of fault, on real containerd. They mostly wait, so there may
# be more of them than processors; each prints its rounds as they pass.
tests faults timeout 3600 cargo test --quiet --locked -p e2e --features soak --test soak -- --nocapture --test-threads=4
finish
