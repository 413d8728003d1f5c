#!/usr/bin/env bash
# Collects programs of this machine, with the libraries that they are linked to, for the images of upstream's
# end-to-end suite. Called by build.sh, which holds the lock and installs the packages, with TESTBED:
#
#     TESTBED/userland/base     busybox and its applets, and bash as the shell
#     TESTBED/userland/tools    curl, ip and nc, for the image agnhost
set -euo pipefail

userland=$1/userland
making=$(mktemp -d "$1/parts/.making.XXXXXX")
. "$(dirname "${BASH_SOURCE[0]}")/copy.sh"

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
keep_unless_equal "$making" "$userland"
