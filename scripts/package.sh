#!/usr/bin/env bash
# Builds what is released: a static program, and a Debian package with it. Called by `make package`, which sets
# CARGO_TARGET_DIR and PATH. It needs no network: cargo must have the dependencies, which every other build fetches.
#
#     dist/ferrolet-VERSION-linux-ARCH    the program; it needs no library of the machine
#     dist/ferrolet_VERSION_ARCH.deb      the program, a unit for systemd that is not enabled, and the licence
#
# PROFILE is the profile of cargo (release). Equal sources give equal packages: all files have the time of the commit.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/checkout.sh
profile=${PROFILE:-release}
target=$(rustc -vV | sed -n 's/^host: //p')
version=$(sed -n '/^\[workspace.package\]/,/^\[/s/^version = "\(.*\)"/\1/p' Cargo.toml)
case $target in
x86_64-*) architecture=amd64 ;;
aarch64-*) architecture=arm64 ;;
*)
    echo "no package is made for $target" >&2
    exit 1
    ;;
esac
moment=$(git -c 'safe.directory=*' log -1 --format=%ct)

use_target
# The target is named, although it is the machine's own, because that keeps the setting away from build scripts.
RUSTFLAGS="-C target-feature=+crt-static" cargo build --locked --offline --profile "$profile" -p cli --target "$target"
leave_target
built=${CARGO_TARGET_DIR:-target}/$target/$profile/ferrolet
if readelf --program-headers --wide "$built" | grep -q INTERP; then
    echo "$built is not static: it asks for a dynamic loader" >&2
    exit 1
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p dist "$work/control"
program=dist/ferrolet-$version-linux-$architecture
install -m 0755 "$built" "$program"
install -D -m 0755 "$built" "$work/data/usr/bin/ferrolet"
install -D -m 0644 LICENSE "$work/data/usr/share/doc/ferrolet/copyright"
install -D -m 0644 /dev/null "$work/data/usr/lib/systemd/system/ferrolet.service"
# The example is for a program that was installed by hand.
sed 's|/usr/local/bin/ferrolet|/usr/bin/ferrolet|' examples/systemd/ferrolet.service \
    >"$work/data/usr/lib/systemd/system/ferrolet.service"
cat >"$work/control/control" <<END
Package: ferrolet
Version: $version
Architecture: $architecture
Maintainer: the developers of ferrolet
Section: admin
Priority: optional
Recommends: containerd | containerd.io, iptables, mount
Description: Kubernetes node agent
 Runs the pods of a Kubernetes node through any container runtime with CRI v1. It takes the place of the kubelet,
 or runs pods of manifest files without a cluster.
END
# systemd reads new units when it is asked to.
cat >"$work/control/postinst" <<'END'
#!/bin/sh
set -e
[ ! -d /run/systemd/system ] || systemctl daemon-reload
END
cp "$work/control/postinst" "$work/control/postrm"
chmod 0755 "$work/control/postinst" "$work/control/postrm"

# The archive of a package has three members: the version of the format, its description, and its files.
member() { # directory archive
    tar --create --gzip --file "$2" --sort name --owner 0 --group 0 --numeric-owner --mtime "@$moment" -C "$1" .
}
echo 2.0 >"$work/debian-binary"
member "$work/control" "$work/control.tar.gz"
member "$work/data" "$work/data.tar.gz"
package=dist/ferrolet_${version}_$architecture.deb
rm -f "$package"
ar rcD "$package" "$work/debian-binary" "$work/control.tar.gz" "$work/data.tar.gz"
echo "$program"
echo "$package"
