#!/usr/bin/env bash
# Builds the workload as a static executable and puts it into the images of the testbed:
#
#     ${XDG_CACHE_HOME:-$HOME/.cache}/ferrolet/testbed/images/NAME-TAG.tar
#
# An image that would come out the same is left alone. What the build needs from the system is in
# parts/build.sh, which installs it.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
images=${XDG_CACHE_HOME:-$HOME/.cache}/ferrolet/testbed/images

# The C library goes into the executable, so that an image needs no other file. The target is named,
# although it is the machine's own, because that keeps the setting away from build scripts.
# The first time takes a while, and people like to see why.
quiet=--quiet
[ -d "$images" ] || quiet=
target=$(rustc -vV | sed -n 's/^host: //p')
executable=$(
  RUSTFLAGS="-C target-feature=+crt-static" cargo build $quiet --locked --release -p workload --target "$target" \
    --message-format json-render-diagnostics |
    sed -n 's/.*"executable":"\([^"]*\)".*/\1/p'
)
if readelf --program-headers --wide "$executable" | grep -q INTERP; then
  echo "$executable is not static: it asks for a dynamic loader" >&2
  exit 1
fi

cargo run $quiet --locked -p test-images -- --workload "$executable" --into "$images"
