#!/usr/bin/env bash
# Runs what takes too long for `make test`, one stage after the other.
# Called by `make soak`, which sets FERROLET_CACHE, CARGO_TARGET_DIR and PATH.
#   SOAK_ONLY     which of the stages histories, mutants, faults, node and vm are run (all)
#   SOAK_COUNT    how many histories are simulated (2000)
#   SOAK_SECONDS  how long new ones are begun; if there are fewer in the end, it says how many, and fails (3600)
#   SOAK_FROM     the first seed (now, in seconds, times a thousand)
#   SOAK_JOBS     how many of them are simulated at a time (as many as there are processors)
set -uo pipefail
cd "$(dirname "$0")/.."
export CARGO_INCREMENTAL=0
. scripts/stages.sh
as_root scripts/soak.sh "$@"

stages="histories mutants faults node vm"
for name in ${SOAK_ONLY:=$stages}; do
    [[ " $stages " = *" $name "* ]] || { echo "soak: SOAK_ONLY names $name; there are: $stages" >&2; exit 2; }
done
# Whether a stage is asked for.
asked() { [[ " $SOAK_ONLY " = *" $1 "* ]]; }

# Sees whether the simulator, and the histories of the Pod GC controller, find faults that are put into a
# copy of the source on purpose. The copy always lies in the same place, so that what is built of it is
# built once.
mutants() (
    set -e
    trap 'rm -rf "$CARGO_TARGET_DIR/sim-of-mutants" "$CARGO_TARGET_DIR/mutants"' EXIT
    cp "$CARGO_TARGET_DIR/sim/sim" "$CARGO_TARGET_DIR/sim-of-mutants"
    "$CARGO_TARGET_DIR/sim-of-mutants" --mutants "$CARGO_TARGET_DIR/mutants" --from 1 --count 300 --jobs "${SOAK_JOBS:-$(nproc)}"
    # What is built last lies in the way of the real one.
    cargo build --quiet --locked --profile sim -p sim
)

if asked histories || asked mutants; then
    stage simulator cargo build --quiet --locked --profile sim -p sim
fi
if asked histories; then
    stage histories timeout $((${SOAK_SECONDS:=3600} + 300)) "$CARGO_TARGET_DIR/sim/sim" --from "${SOAK_FROM:-$(date +%s)000}" \
        --count "${SOAK_COUNT:-2000}" --seconds "$SOAK_SECONDS" --jobs "${SOAK_JOBS:-$(nproc)}" --verbose
fi
if asked mutants; then
    stage mutants mutants
fi
# Every method of the runtime with every kind of fault, on real containerd. They mostly wait, so there may
# be more of them than processors; each prints its rounds as they pass.
if asked faults || asked node || asked vm; then
    stage set-up make --no-print-directory testbed
    stage build cargo build --quiet --locked --workspace --bins
fi
if asked faults; then
    tests faults timeout 3600 cargo test --quiet --locked -p e2e --features soak --test soak -- --nocapture --test-threads=4 faults::
fi
# A node of a cluster with our agent and with the upstream kubelet, compared. Each wait has its own limit; all of
# it takes a quarter of an hour.
if asked node; then
    tests node timeout 3600 cargo test --quiet --locked -p e2e --features soak --test soak -- --test-threads=1 node::
fi
# What only the kernel of a virtual machine has. Each machine keeps two processors busy.
if asked vm; then
    tests vm timeout 3600 cargo test --quiet --locked -p e2e --features soak --test soak -- --test-threads=1 vm::
fi
finish
