#!/usr/bin/env bash
# Lets the simulator run with fresh seeds for a time, then sees whether it finds faults that are put into
# a copy of the source on purpose. Called by `make soak`, which sets FERROLET_CACHE and CARGO_TARGET_DIR.
#   SOAK_COUNT    how many histories at most (2000)
#   SOAK_SECONDS  how long new ones are begun (1800)
#   SOAK_FROM     the first seed (now, in seconds, times a thousand)
set -euo pipefail
cd "$(dirname "$0")/.."
export CARGO_INCREMENTAL=0

count=${SOAK_COUNT:-2000}
seconds=${SOAK_SECONDS:-1800}
from=${SOAK_FROM:-$(date +%s)000}
jobs=$(nproc)

cargo build --quiet --locked -p sim
printf '== histories from seed %s on\n' "$from"
"$CARGO_TARGET_DIR/debug/sim" --from "$from" --count "$count" --seconds "$seconds" --jobs "$jobs"

# The copy always lies in the same place, so that what is built of it is built once.
printf '== mutants\n'
cp "$CARGO_TARGET_DIR/debug/sim" "$CARGO_TARGET_DIR/sim-of-mutants"
trap 'rm -rf "$CARGO_TARGET_DIR/sim-of-mutants" "$CARGO_TARGET_DIR/mutants"' EXIT
"$CARGO_TARGET_DIR/sim-of-mutants" --mutants "$CARGO_TARGET_DIR/mutants" --from 1 --count 300 --jobs "$jobs"
# What is built last lies in the way of the real one.
cargo build --quiet --locked -p sim
