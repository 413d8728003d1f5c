#!/usr/bin/env bash
# Builds static executables for places without libraries: the workload for the images of the testbed, and the guest's
# program for the virtual machine:
#
#     ${XDG_CACHE_HOME:-$HOME/.cache}/ferrolet/testbed/images/NAME-TAG.tar
#     ${XDG_CACHE_HOME:-$HOME/.cache}/ferrolet/testbed/images/extra/NAME-TAG.tar    (images that only some tests import)
#     ${XDG_CACHE_HOME:-$HOME/.cache}/ferrolet/testbed/images/conformance/NAME-TAG.tar    (for `make conformance`)
#     ${XDG_CACHE_HOME:-$HOME/.cache}/ferrolet/testbed/images/kubeadm/NAME-TAG.tar    (for `make kubeadm`)
#     ${XDG_CACHE_HOME:-$HOME/.cache}/ferrolet/testbed/vm/guest
#
# Unchanged files are kept. parts/build.sh installs the packages that the build needs. With `images` or `guest` as
# argument, only those are built; `conformance` and `kubeadm` are built only when they are named.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
testbed=${XDG_CACHE_HOME:-$HOME/.cache}/ferrolet/testbed
. scripts/checkout.sh
use_target

# The C library goes into the executables, so that they need no other file. The target is named,
# although it is the machine's own, because that keeps the setting away from build scripts.
# The first build takes a while, so its output is shown.
quiet=--quiet
[ -d "$testbed/images" ] || quiet=
target=$(rustc -vV | sed -n 's/^host: //p')

static() { # package
  local executable
  executable=$(
    RUSTFLAGS="-C target-feature=+crt-static" cargo build $quiet --locked --profile image -p "$1" --target "$target" \
      --message-format json-render-diagnostics |
      sed -n 's/.*"executable":"\([^"]*\)".*/\1/p'
  )
  if readelf --program-headers --wide "$executable" | grep -q INTERP; then
    echo "$executable is not static: it asks for a dynamic loader" >&2
    exit 1
  fi
  echo "$executable"
}

# Whether something must be built.
asked() { [ -z "$only" ] || [ "$only" = "$1" ]; }

only=${1:-}
if asked images; then
  workload=$(static workload)
  cargo run $quiet --locked -p test-images -- --workload "$workload" --into "$testbed/images"
fi
if [ "$only" = conformance ]; then
  workload=$(static workload)
  # Optimized: the images have hundreds of megabytes, of which digests are computed.
  cargo run $quiet --locked --profile image -p test-images -- conformance --testbed "$testbed" --workload "$workload" \
    --into "$testbed/images/conformance"
fi
if [ "$only" = kubeadm ]; then
  # The versions are those of the parts.
  version() { awk -v module="$2" '{ sub(/^require /, "") } $1 == module { print $2; exit }' "e2e/parts/$1/go.mod"; }
  etcd=$(version etcd go.etcd.io/etcd/server/v3)
  workload=$(static workload)
  cargo run $quiet --locked --profile image -p test-images -- kubeadm --testbed "$testbed" --workload "$workload" \
    --into "$testbed/images/kubeadm" --kubernetes "$(version kubeadm k8s.io/kubernetes)" \
    --coredns "$(version coredns github.com/coredns/coredns)" --etcd "${etcd#v}-0"
fi
if asked guest; then
  guest=$(static guest)
  mkdir -p "$testbed/vm"
  if ! cmp --quiet "$guest" "$testbed/vm/guest"; then
    # Renamed into place: a test may be reading it.
    cp "$guest" "$testbed/vm/guest.new.$$"
    mv "$testbed/vm/guest.new.$$" "$testbed/vm/guest"
  fi
fi
