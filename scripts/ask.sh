#!/usr/bin/env bash
# Asks the agent that `make run` runs: get pods, describe POD, logs POD, gc plan, gc run, gc why NAME, each
# with its flags. `log` shows what the agent itself has to say. Of several that run the newest is asked, or the
# one whose root directory is in FERROLET_ROOT.
set -euo pipefail
. "$(dirname "$0")/roots.sh"
cache=${XDG_CACHE_HOME:-$HOME/.cache}/ferrolet
programs=${FERROLET_PROGRAMS:-${CARGO_TARGET_DIR:-$cache/target}/quick}
[ -x "$programs/ferrolet" ] || { echo "ferrolet is not built yet; make run builds it" >&2; exit 1; }
# These ask no agent.
case ${1:-} in
'') exec "$programs/ferrolet" --help ;;
help | version | -h | --help | -V | --version) exec "$programs/ferrolet" "$@" ;;
esac
for argument; do
    case $argument in -h | --help) exec "$programs/ferrolet" "$@" ;; esac
done
root=${FERROLET_ROOT:-$(newest_root "${FERROLET_NOTE:-$cache/run.root}")} || { echo "make run is not running" >&2; exit 1; }
as_root=()
# The agent's socket is for its own user.
[ -w "$root/ferrolet/agent.sock" ] || as_root=(sudo)
if [ "$1" = log ]; then
    exec "${as_root[@]}" tail -n 50 -F "$(dirname "$root")/ferrolet.log"
fi
exec "${as_root[@]}" "$programs/ferrolet" "$@" --root-dir "$root"
