#!/usr/bin/env bash
# Runs a ferrolet command for the agent of `make run` or `make cluster`: get pods, describe POD, logs POD, exec POD -- COMMAND,
# why POD, gc plan, gc run, gc why NAME, each with its flags. `log` shows the end of the agent's own log, `log -f` follows it.
# If several agents run, it uses the newest one, or the one whose root directory is in FERROLET_ROOT.
set -euo pipefail
. "$(dirname "$0")/roots.sh"
cache=${XDG_CACHE_HOME:-$HOME/.cache}/ferrolet
programs=${FERROLET_PROGRAMS:-${CARGO_TARGET_DIR:-$cache/target}/quick}
[ -x "$programs/ferrolet" ] || { echo "ferrolet is not built yet; make run builds it" >&2; exit 1; }
# These need no agent.
case ${1:-} in
'') exec "$programs/ferrolet" --help ;;
help) exec "$programs/ferrolet" --help ;;
version | -h | --help | -V | --version) exec "$programs/ferrolet" "$@" ;;
esac
for argument; do
    case $argument in -h | --help) exec "$programs/ferrolet" "$@" ;; esac
done
note=${FERROLET_NOTE:-$cache/run.root}
root=${FERROLET_ROOT:-$(newest_root "$note")} || { echo "neither make run nor make cluster is running" >&2; exit 1; }
if [ -n "${FERROLET_ROOT:-}" ]; then
    [ -d "$(dirname "$root")" ] || { echo "FERROLET_ROOT: no directory $root" >&2; exit 1; }
elif others=$(other_roots "$note" "$root") && [ -n "$others" ]; then
    echo "Asking the newest of several agents, $root; FERROLET_ROOT chooses another:" $others >&2
fi
as_root=()
# Only the agent's user can open its socket.
[ -w "$root/ferrolet/agent.sock" ] || as_root=(sudo)
if [ "$1" = log ]; then
    follow=()
    [ "${2:-}" != -f ] || follow=(-F)
    exec "${as_root[@]}" tail -n 50 "${follow[@]}" "$(dirname "$root")/ferrolet.log"
fi
# Arguments after -- belong to the command.
[ "$1" != exec ] || exec "${as_root[@]}" "$programs/ferrolet" exec --root-dir "$root" "${@:2}"
exec "${as_root[@]}" "$programs/ferrolet" "$@" --root-dir "$root"
