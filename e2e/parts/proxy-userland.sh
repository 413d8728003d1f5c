#!/usr/bin/env bash
# Collects the programs that kube-proxy runs, with their libraries, for its image. Called by build.sh, which holds the
# lock and installs the packages, with TESTBED:
#
#     TESTBED/userland-proxy    iptables and its extensions
set -euo pipefail

userland=$1/userland-proxy
making=$(mktemp -d "$1/parts/.making.XXXXXX")
. "$(dirname "${BASH_SOURCE[0]}")/copy.sh"

# The directory of the extensions, which are loaded by name.
extensions=$(for place in /usr/lib/*/xtables /usr/lib64/xtables /usr/lib/xtables; do [ ! -d "$place" ] || echo "$place"; done)
[ -n "$extensions" ] || { echo "iptables has no extensions here" >&2; exit 1; }

printf '%-13s ' userland
for name in iptables iptables-save iptables-restore ip6tables ip6tables-save ip6tables-restore; do
  program=$(basename "$(readlink -f "$(command -v "$name")")")
  [ -e "$making/usr/sbin/$program" ] || copy "$making" "$(command -v "$name")" "usr/sbin/$program"
  ln -s "$program" "$making/usr/sbin/$name"
done
for place in $extensions; do
  for extension in "$place"/*.so; do
    copy "$making" "$extension" "$extension"
  done
done
keep_unless_equal "$making" "$userland"
