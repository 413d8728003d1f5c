#!/usr/bin/env bash
# Runs every check and test, one stage after the other, and prints the time of each and the totals.
# Called by `make test`, which sets FERROLET_CACHE, CARGO_TARGET_DIR and PATH.
set -uo pipefail
cd "$(dirname "$0")/.."
# What is built once and run once needs no incremental data, which would take gigabytes.
export CARGO_INCREMENTAL=0

. scripts/stages.sh
as_root scripts/test.sh "$@"

stage set-up make --no-print-directory testbed tools
stage format cargo fmt --all --check
# With what only `make soak` runs: it must not rot meanwhile.
stage lints cargo clippy --quiet --locked --workspace --all-targets --features e2e/soak -- -D warnings
stage arch cargo xtask arch
stage size cargo xtask size
stage docs cargo xtask docs
stage behaviour cargo xtask behaviour
stage generated cargo xtask generated
stage deny cargo deny --log-level error --locked check bans licenses sources
# Tests of one crate run programs of another, which `cargo test` alone does not build.
stage build cargo build --quiet --locked --workspace --bins
# Tables and properties, and everything else that needs no other program.
tests unit cargo test --quiet --locked --workspace --exclude e2e --exclude testbed --exclude sim --exclude bench --exclude vm -- --skip contract
# The whole agent in memory, in histories in which much goes wrong.
tests simulator cargo test --quiet --locked -p sim
# What the in-memory outside and the real one have in common, on both.
tests contract cargo test --quiet --locked -p testkit -p hostfs -p e2e -- contract
# The testbed's tests look at the whole machine and want to be alone.
tests testbed cargo test --quiet --locked -p testbed
# The virtual machine with the second version of cgroups: first alone, then with the agent in it.
tests vm cargo test --quiet --locked -p vm
tests end-to-end cargo test --quiet --locked -p e2e -- --skip contract
# What reports are made of, and a tiny run of the benchmark.
tests bench cargo test --quiet --locked -p bench
finish
