#!/usr/bin/env bash
# Runs the sample node: a containerd of its own in an isolated instance, and the agent in it, on the
# manifests of examples/standalone. Ends on ^C or SIGTERM and leaves nothing behind.
# Called by `make run`, which sets FERROLET_CACHE, CARGO_TARGET_DIR and PATH.
set -euo pipefail
cd "$(dirname "$0")/.."

if [ "${1:-}" = inside ]; then
    # Inside the instance /run is private: the runtime is where the sample configuration expects it.
    mkdir -p /run/containerd
    ln -sf "$FERROLET_TESTBED_SOCKET" /run/containerd/containerd.sock
    exec "$CARGO_TARGET_DIR/release/ferrolet" run \
        --config examples/standalone/config.yaml --root-dir "$FERROLET_TESTBED_DIR/kubelet"
fi

[ "$(id -u)" -eq 0 ] || exec sudo --preserve-env=HOME,PATH,XDG_CACHE_HOME,FERROLET_CACHE,CARGO_TARGET_DIR "$0" "$@"
cargo build --quiet --locked --release -p ferrolet -p testbed
echo "The pods of $PWD/examples/standalone/manifests run until you press ^C."
echo "Add, edit or remove a manifest there and watch what happens."
exec "$CARGO_TARGET_DIR/release/testbed" run -- "$0" inside
