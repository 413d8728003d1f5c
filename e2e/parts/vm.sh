#!/usr/bin/env bash
# Downloads the virtual machine's parts from Debian: its cloud kernel, and the program that loads AppArmor profiles.
# They come from the system's package sources and are unpacked, not installed: the machine that runs the tests is not
# changed. Existing parts are kept.
#
#     TESTBED/vm/kernel       link to the kernel in use: vmlinuz, and modules/ with modules.builtin
#     TESTBED/vm/apparmor     link to the unpacked package
#     TESTBED/vm/PACKAGE/     what they point to
#
# Called by build.sh, which holds the lock, with TESTBED.
set -euo pipefail

. "$(dirname "${BASH_SOURCE[0]}")/apt.sh"

# Depends on the newest kernel.
newest_kernel=linux-image-cloud-amd64
testbed=$1
vm=$testbed/vm

fail() {
  printf '%s\n' "$@" >&2
  exit 1
}

# The package with a part; nothing when the sources have none.
package_of() { # part
  if [ "$1" = kernel ]; then
    apt-cache depends "$newest_kernel" 2>/dev/null | awk '$1 == "Depends:" { print $2; exit }'
  else
    apt-cache show "$1" 2>/dev/null | awk '$1 == "Package:" { print $2; exit }'
  fi
}

update_sources() {
  local -a as_root=()
  [ "$(id -u)" = 0 ] || as_root=(sudo)
  # Descriptor 9 is the lock: a process that outlives this script must not keep it.
  apt_get "${as_root[@]}" -- update >"$log" 2>&1 9>&- || { tail -n 20 "$log" >&2; fail "apt-get update failed"; }
}

# Puts kernel and modules to the paths that the machine uses, for any version.
arrange_kernel() { # directory of the unpacked package
  mv "$1"/boot/vmlinuz-* "$1/vmlinuz"
  mv "$(find "$1" -type d -path '*/lib/modules/*' -prune)" "$1/modules"
  rm -rf "$1/boot" "$1/lib" "$1/usr"
  # Some kernels come with their modules packed.
  find "$1/modules" -name '*.ko.xz' -exec xz --decompress {} +
  find "$1/modules" -name '*.ko.zst' -exec zstd --quiet --decompress --rm {} +
}

provide() { # part, a file in it
  local part=$1 package making elsewhere
  local log=$testbed/log/$part.log
  printf '%-10s ' "$part"
  if [ -e "$vm/$part/$2" ]; then
    echo "$(basename "$(readlink -f "$vm/$part")") … cached"
    return
  fi
  elsewhere="unpack Debian's package for $part so that $vm/$part/$2 exists, and run this again"
  command -v apt-get >/dev/null || fail "" "there is no apt-get here for the virtual machine's $part:" "$elsewhere"
  package=$(package_of "$part")
  [ -n "$package" ] || { update_sources; package=$(package_of "$part"); }
  [ -n "$package" ] || fail "" "this system's package sources have nothing for the virtual machine's $part:" "$elsewhere"
  printf '%s … ' "$package"
  making=$(mktemp -d "$vm/.making.XXXXXX")
  if ! (cd "$making" && apt-get download "$package" && dpkg-deb -x ./*.deb tree) >"$log" 2>&1 9>&-; then
    tail -n 20 "$log" >&2
    fail "the package $package cannot be had; the whole output is in $log"
  fi
  [ "$part" != kernel ] || arrange_kernel "$making/tree"
  # Newer packages have all programs below usr.
  [ -e "$making/tree/sbin" ] || [ ! -e "$making/tree/usr/sbin" ] || ln -s usr/sbin "$making/tree/sbin"
  [ -e "$making/tree/$2" ] || fail "" "the package $package has no $2"
  chmod 0755 "$making/tree"
  sync -f "$making/tree"
  rm -rf "${vm:?}/$package"
  mv -T "$making/tree" "$vm/$package"
  rm -rf "$making"
  # A package with the name of its part needs no link.
  if [ "$package" != "$part" ]; then
    ln -s "$package" "$vm/$part.new.$$"
    mv -T "$vm/$part.new.$$" "$vm/$part"
  fi
  echo "unpacked"
}

[ "$(uname -m)" = x86_64 ] || fail "there is no virtual machine for $(uname -m) yet"
mkdir -p "$vm"
rm -rf "$vm"/.making.*
provide kernel vmlinuz
provide apparmor sbin/apparmor_parser
