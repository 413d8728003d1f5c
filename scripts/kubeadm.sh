#!/usr/bin/env bash
# Sets up a cluster of two nodes with upstream's kubeadm, and ferrolet as their kubelet. Called by `make kubeadm`, which
# sets FERROLET_CACHE, CARGO_TARGET_DIR and PATH; see docs/kubeadm/README.md.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/parts.sh
. scripts/checkout.sh

root=()
[ "$(id -u)" -eq 0 ] ||
    root=(sudo --preserve-env=HOME,XDG_CACHE_HOME,FERROLET_CACHE,CARGO_TARGET_DIR env "PATH=$PATH")

e2e/parts/build.sh containerd runc cni etcd control-plane kubelet kubeadm coredns
e2e/build-images.sh images
e2e/build-images.sh kubeadm
use_target
echo "building ferrolet (some minutes the first time)"
# Separate builds, so that ferrolet gets only its own features of shared libraries.
cargo build --quiet --locked --profile quick -p cli -p testbed
cargo build --quiet --locked --profile quick -p kubeadm

code=0
"${root[@]}" "$CARGO_TARGET_DIR/quick/kubeadm" --docs docs --results "$FERROLET_CACHE/kubeadm" \
    --ferrolet "$CARGO_TARGET_DIR/quick" --commit "$(source_commit)" --date "$(date -u '+%F %H:%M UTC')" || code=$?
own docs/kubeadm/*
exit "$code"
