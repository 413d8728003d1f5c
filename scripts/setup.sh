#!/usr/bin/env bash
# Installs missing tools for building and testing. If none is missing, it does nothing and ends quickly.
set -euo pipefail
cd "$(dirname "$0")/.."
: "${FERROLET_CACHE:?run this through make}"

need() { # command, how to get it
    command -v "$1" >/dev/null || { echo "$1 is missing: $2" >&2; exit 1; }
}
need cargo "install Rust with rustup; rust-toolchain.toml names the version"

deny_version=0.20.2
tools=$FERROLET_CACHE/tools
if ! "$tools/bin/cargo-deny" --version 2>/dev/null | grep -qxF "cargo-deny $deny_version"; then
    echo "cargo-deny $deny_version: building (about two minutes, once)"
    CARGO_TARGET_DIR=$FERROLET_CACHE/tools/build \
        cargo install --quiet --locked --root "$tools" --version "$deny_version" cargo-deny
    rm -rf "$FERROLET_CACHE/tools/build"
fi
echo "cargo-deny $deny_version"
