#!/usr/bin/env bash
# Runs every check and test, one stage after the other, and prints the time of each and the totals.
# Called by `make test`, which sets FERROLET_CACHE, CARGO_TARGET_DIR and PATH. Stages whose inputs have passed on this
# machine are skipped; FRESH=1 skips none.
set -uo pipefail
cd "$(dirname "$0")/.."
# Everything is built and run once: incremental data would only take gigabytes.
export CARGO_INCREMENTAL=0
# Time limit in seconds for a run with warm caches; a longer run prints a warning.
limit=1200

. scripts/stages.sh
. scripts/checkout.sh
as_root scripts/test.sh "$@"
use_target

# Checks of the source tree, which take a second each.
checks() {
    local check
    cargo fmt --all --check || return
    for check in arch size docs behaviour generated words; do
        cargo xtask "$check" || { echo "cargo xtask $check failed"; return 1; }
    done
}

stage set-up make --no-print-directory testbed tools
stage checks checks
stage dependencies cargo deny --log-level error --locked check bans licenses sources
# Includes the code that only `make soak` runs.
unless_passed . \
    stage lints cargo clippy --quiet --locked --workspace --all-targets --features e2e/soak -- -D warnings
# All programs and tests at once: cargo would recompile most of them for another selection of packages.
stage build cargo xtask test
# Table and property tests, and all others that need no other program.
tests unit cargo xtask test unit
# The whole agent in memory, in histories with many faults.
tests simulator cargo xtask test simulator
# The testbed must leave nothing behind: these tests compare the machine before and after, so they run alone.
unless_passed "Cargo.lock Cargo.toml rust-toolchain.toml xtask e2e/testbed e2e/parts e2e/images e2e/workload e2e/build-images.sh" \
    tests testbed cargo xtask test testbed
# The agent on the real container runtime and API server, and in a virtual machine with cgroup v2.
tests end-to-end cargo xtask test end-to-end
finish
