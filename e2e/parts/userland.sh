#!/usr/bin/env bash
# Collects programs of this machine, with the libraries that they are linked to, for the images of upstream's
# end-to-end suite. Called by build.sh, which holds the lock and installs the packages, with TESTBED:
#
#     TESTBED/userland/base     busybox and its applets, and bash as the shell
#     TESTBED/userland/tools    curl, ip and nc, for the image agnhost
set -euo pipefail

userland=$1/userland
making=$(mktemp -d "$1/parts/.making.XXXXXX")

# Copies a program and its libraries to the paths that they have here.
copy() { # tree program path-in-the-tree
  local library
  install -D -m 0755 "$(readlink -f "$2")" "$1/$3"
  # A static program has none, and ldd fails.
  for library in $(ldd "$2" 2>/dev/null | grep -oE '/[^ ]+' || true); do
    install -D -m 0755 "$(readlink -f "$library")" "$1$library"
  done
}

printf '%-13s ' userland
# The shell is bash: unlike the shell of upstream's image, busybox's shell drops variables whose names are not
# identifiers.
copy "$making/base" "$(command -v bash)" bin/bash
copy "$making/base" "$(command -v busybox)" bin/busybox
ln -s bash "$making/base/bin/sh"
busybox --list | while read -r applet; do
  [ -e "$making/base/bin/$applet" ] || ln -s busybox "$making/base/bin/$applet"
done
copy "$making/tools" "$(command -v curl)" usr/bin/curl
copy "$making/tools" "$(command -v ip)" usr/sbin/ip
copy "$making/tools" "$(command -v nc)" usr/bin/nc
if diff --recursive --no-dereference --brief "$making" "$userland" >/dev/null 2>&1; then
  echo "… unchanged"
  rm -rf "$making"
else
  chmod 0755 "$making"
  rm -rf "$userland"
  mv -T "$making" "$userland"
  echo "… collected"
fi
