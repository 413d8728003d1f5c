#!/usr/bin/env bash
# Runs every check and test, one stage after the other, and prints the time of each and the totals.
# Called by `make test`, which sets FERROLET_CACHE, CARGO_TARGET_DIR and PATH.
set -uo pipefail
cd "$(dirname "$0")/.."
# What is built once and run once needs no incremental data, which would take gigabytes.
export CARGO_INCREMENTAL=0

log=$(mktemp)
trap 'rm -f "$log"' EXIT
summary=()
passed=0
failed=0

# stage NAME COMMAND… : shows the output, notes the time, adds up the test results; the first stage
# that fails ends the run.
stage() {
    local name=$1 start=$SECONDS status p f
    shift
    printf '\n== %s\n' "$name"
    "$@" 2>&1 | tee "$log"
    status=${PIPESTATUS[0]}
    read -r p f < <(awk '/^test result:/ { p += $4; f += $6 } END { print p + 0, f + 0 }' "$log")
    passed=$((passed + p))
    failed=$((failed + f))
    summary+=("$(printf '%-14s %5d s %6d passed %4d failed' "$name" $((SECONDS - start)) "$p" "$f")")
    [ "$status" -eq 0 ] || finish "$name"
}

# tests NAME COMMAND… : a stage that must have run at least one test.
tests() {
    local before=$passed
    stage "$@"
    [ "$passed" -gt "$before" ] || finish "$1 (it ran no test)"
}

finish() {
    printf '\n'
    printf '%s\n' "${summary[@]}"
    printf 'in all %d s\n' "$SECONDS"
    if [ $# -gt 0 ]; then
        printf 'FAILED in stage: %s\n' "$1"
        printf '%d passed, %d failed\n' "$passed" $((failed > 0 ? failed : 1))
        exit 1
    fi
    printf '%d passed, %d failed\n' "$passed" "$failed"
    exit 0
}

[ "$(id -u)" -eq 0 ] || exec sudo --preserve-env=CI,HOME,XDG_CACHE_HOME,FERROLET_CACHE,CARGO_TARGET_DIR env "PATH=$PATH" "$0" "$@"

stage set-up make --no-print-directory testbed tools
stage format cargo fmt --all --check
stage lints cargo clippy --quiet --locked --workspace --all-targets -- -D warnings
stage arch cargo xtask arch
stage size cargo xtask size
stage docs cargo xtask docs
stage behaviour cargo xtask behaviour
stage deny cargo deny --log-level error --locked check bans licenses sources
# Tests of one crate run programs of another, which `cargo test` alone does not build.
stage build cargo build --quiet --locked --workspace --bins
# Tables and properties, and everything else that needs no other program.
tests unit cargo test --quiet --locked --workspace --exclude e2e --exclude testbed --exclude bench -- --skip contract
# What the in-memory outside and the real one have in common, on both.
tests contract cargo test --quiet --locked -p testkit -p hostfs -p e2e -- contract
# The testbed's tests look at the whole machine and want to be alone.
tests testbed cargo test --quiet --locked -p testbed
tests end-to-end cargo test --quiet --locked -p e2e -- --skip contract
# What reports are made of, and a tiny run of the benchmark.
tests bench cargo test --quiet --locked -p bench
finish
