#!/usr/bin/env bash
# Asks the agent that `make run` runs: get pods, describe POD, logs POD, gc plan, gc run, gc why NAME, each
# with its flags. `log` shows what the agent itself has to say.
set -euo pipefail
cache=${XDG_CACHE_HOME:-$HOME/.cache}/ferrolet
root=$(cat "${FERROLET_NOTE:-$cache/run.root}" 2>/dev/null) || { echo "make run is not running" >&2; exit 1; }
as_root=()
# The agent's socket is for its own user.
[ -w "$root/ferrolet/agent.sock" ] || as_root=(sudo)
if [ "${1:-}" = log ]; then
    exec "${as_root[@]}" tail -n 50 -F "$(dirname "$root")/ferrolet.log"
fi
programs=${FERROLET_PROGRAMS:-${CARGO_TARGET_DIR:-$cache/target}/quick}
exec "${as_root[@]}" "$programs/ferrolet" "$@" --root-dir "$root"
