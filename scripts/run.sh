#!/usr/bin/env bash
# Runs the sample node: a containerd of its own in an isolated instance, and the agent in it, on the
# manifests of examples/standalone, with a live table of the pods. Ends on ^C or SIGTERM and leaves
# nothing behind. Called by `make run`, which sets FERROLET_CACHE, CARGO_TARGET_DIR and PATH.
set -euo pipefail
cd "$(dirname "$0")/.."
ferrolet=$CARGO_TARGET_DIR/release/ferrolet

# The part that runs inside the instance, where /run, /var/log and the network are private.
inside() {
    local root=$FERROLET_TESTBED_DIR/kubelet log=$FERROLET_TESTBED_DIR/ferrolet.log agent table told
    mkdir -p /run/containerd
    ln -sf "$FERROLET_TESTBED_SOCKET" /run/containerd/containerd.sock
    "$ferrolet" run --config examples/standalone/config.yaml --root-dir "$root" >"$log" 2>&1 &
    agent=$!
    until [ -S "$root/ferrolet/agent.sock" ] || ! kill -0 "$agent" 2>/dev/null; do sleep 0.05; done
    echo "Look at it with: $ferrolet describe|logs|get pods … --root-dir $root"
    echo "What the agent has to say, a manifest that it refused for example: $log"
    "$ferrolet" get pods --watch -A --root-dir "$root" &
    table=$!
    told=
    trap 'told=yes; kill -TERM "$table" 2>/dev/null || true' INT TERM
    wait -n "$agent" "$table" || true
    if [ -z "$told" ] && ! kill -0 "$agent" 2>/dev/null; then
        echo "the agent ended:" && tail -n 20 "$log"
    fi
    kill -TERM "$table" "$agent" 2>/dev/null || true
    wait "$table" "$agent" 2>/dev/null || true
    "$ferrolet" node clean --root-dir "$root"
}

if [ "${1:-}" = inside ]; then
    inside
    exit
fi
if [ "${1:-}" != built ]; then
    echo "building ferrolet (some minutes the first time)"
    cargo build --quiet --locked --release -p ferrolet -p testbed
fi
[ "$(id -u)" -eq 0 ] || exec sudo --preserve-env=HOME,XDG_CACHE_HOME,FERROLET_CACHE,CARGO_TARGET_DIR env "PATH=$PATH" "$0" built
echo "The pods of $PWD/examples/standalone/manifests run until you press ^C."
echo "Add, edit or remove a manifest there, or kill a container, and watch."
exec "$CARGO_TARGET_DIR/release/testbed" run -- "$0" inside
