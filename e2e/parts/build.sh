#!/usr/bin/env bash
# Builds the real programs that the tests run against, and fetches protocol definitions for comparison. Finished parts
# are kept, so a second run takes a moment.
#
# Each part is a line in the table below plus a directory beside this script that holds a Go module
# (go.mod, go.sum, tools.go) requiring that part. go.mod names the version and go.sum pins the hash
# of everything that goes into it. To move to another version, in that directory:
#
#     go get MODULE@VERSION && go mod tidy
#
# Output, in ${XDG_CACHE_HOME:-$HOME/.cache}/ferrolet/testbed:
#
#     bin/PROGRAM              link to the program of the version now wanted
#     cni/PLUGIN               the same for the CNI plugins
#     NAME/VERSION/FILE        link to a file copied from a part
#     conformance/FILE         upstream's end-to-end suite
#     userland/                programs for the images of that suite; see userland.sh
#     vm/                      the parts of the virtual machine; see vm.sh
#     parts/NAME-VERSION-KEY/  a finished part; KEY covers go.mod, go.sum, programs of ours and the table line
#     log/NAME.log             the output of the last build of that part
#     lock                     held while this script runs
#
# A part is made in parts/.making.* and renamed when it is complete, so a part with its final name is complete. Parts of
# other versions stay and can be deleted at any time.
#
# With names of parts as arguments, only those are made; `vm` is one of them. `systemd` installs the packages that only
# `make soak PART=vm` needs. `conformance` and `metrics-server` are made only when they are named.
#
# GOFLAGS and the other settings of the go command apply as usual.
set -euo pipefail

# name | Go module | where it goes | cgo | items
# It goes to bin, cni or conformance when it is programs to build, and to files when it is files to copy. Items are
# packages or files, as paths in the module; NAME=PATH gives one a name other than its last element. Among programs,
# NAME.test is the test of a package, NAME.crt and NAME.key are files, and MODULE@PATH is a package of another module.
# `keyring` is a program of ours, in the part's directory, that calls upstream's packages.
PARTS='
containerd    | github.com/containerd/containerd/v2    | bin   | 0 | cmd/containerd cmd/containerd-shim-runc-v2 cmd/ctr
runc          | github.com/opencontainers/runc         | bin   | 1 | runc=.
cni           | github.com/containernetworking/plugins | cni   | 0 | plugins/main/bridge plugins/main/loopback plugins/ipam/host-local plugins/meta/portmap
cri-api       | k8s.io/cri-api                         | files | 0 | pkg/apis/runtime/v1/api.proto
kubelet       | k8s.io/kubernetes                      | bin   | 0 | cmd/kubelet
keyring       | k8s.io/kubernetes                      | bin   | 0 | pull-keyring=ferrolet.test/parts/keyring@lookup
kubelet-api   | k8s.io/kubelet                         | files | 0 | podresources-v1.proto=pkg/apis/podresources/v1/api.proto podresources-v1alpha1.proto=pkg/apis/podresources/v1alpha1/api.proto
etcd          | go.etcd.io/etcd/server/v3              | bin   | 0 | etcd=.
control-plane | k8s.io/kubernetes                      | bin   | 0 | cmd/kube-apiserver cmd/kube-controller-manager cmd/kube-scheduler cmd/kubectl
'

# Parts that are made only when they are named: the end-to-end suite takes ten minutes, and metrics-server is for one
# test of `make soak`.
PARTS_ON_DEMAND='
conformance   | k8s.io/kubernetes                      | conformance | 0 | e2e.test=test/e2e agnhost=test/images/agnhost ginkgo=github.com/onsi/ginkgo/v2@ginkgo localhost.crt=test/images/agnhost/porter/localhost.crt localhost.key=test/images/agnhost/porter/localhost.key
metrics-server | sigs.k8s.io/metrics-server           | bin   | 0 | cmd/metrics-server
'

# Build tags, and the variable that makes a program report its version, for parts that have them.
declare -A TAGS=(
  [containerd]='no_btrfs no_devmapper no_zfs osusergo netgo'
  [runc]='seccomp'
)
declare -A VERSION_VARIABLE=(
  [containerd]='github.com/containerd/containerd/v2/version.Version'
  [cni]='github.com/containernetworking/plugins/pkg/utils/buildversion.BuildVersion'
  [kubelet]='k8s.io/component-base/version.gitVersion'
  [control-plane]='k8s.io/component-base/version.gitVersion'
  [conformance]='k8s.io/component-base/version.gitVersion'
)

# Packages of the system, first for the build and then for the tests:
# Debian package | Fedora package | command that succeeds when it is installed
PACKAGES='
gcc            | gcc                | command -v gcc
libc6-dev      | glibc-static       | test -e "$(gcc -print-file-name=libc.a)"
pkg-config     | pkgconf-pkg-config | command -v pkg-config
libseccomp-dev | libseccomp-devel   | pkg-config --exists libseccomp
iproute2       | iproute            | command -v ip
iptables       | iptables-nft       | command -v iptables
procps         | procps-ng          | command -v sysctl
util-linux     | util-linux         | command -v unshare
mount          | util-linux         | command -v mount
'

# Packages for the virtual machine: its emulator, and programs that are copied into it.
VM_PACKAGES='
qemu-system-x86 | qemu-system-x86-core | command -v qemu-system-x86_64
binutils        | binutils             | command -v strip
'

# Packages for a virtual machine that runs systemd (`make soak PART=vm`).
SYSTEMD_PACKAGES='
systemd         | systemd              | test -x /lib/systemd/systemd
dbus-daemon     | dbus-daemon          | command -v dbus-daemon
'

# Packages for the images of the end-to-end suite. busybox with its libraries: a static one cannot look up host names.
CONFORMANCE_PACKAGES='
bash            | bash                 | command -v bash
busybox         | busybox              | command -v busybox
curl            | curl                 | command -v curl
netcat-openbsd  | netcat               | command -v nc
'

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
testbed=${XDG_CACHE_HOME:-$HOME/.cache}/ferrolet/testbed
export PATH=$PATH:/usr/sbin:/sbin:/usr/local/go/bin
export GOWORK=off

exec 8>&2
. "$here/apt.sh"

fail() {
  printf '%s\n' "$@" >&2
  exit 1
}

# Prints the lines of a table without its padding: fields separated by a single '|'.
rows() {
  sed -e '/^$/d' -e 's/ *| */|/g' <<<"$1"
}

# Prints the rows of PACKAGES whose command fails.
missing_packages() {
  local row
  while read -r row; do
    eval "${row##*|}" >/dev/null 2>&1 || echo "$row"
  done < <(rows "$PACKAGES")
}

install_packages() {
  local -a missing as_root=() packages=()
  local row debian fedora probe log=$testbed/log/packages.log
  mapfile -t missing < <(missing_packages)
  [ ${#missing[@]} -gt 0 ] || return 0
  if ! command -v apt-get >/dev/null; then
    echo "this machine lacks some packages; install them and run this again:"
    for row in "${missing[@]}"; do
      IFS='|' read -r debian fedora probe <<<"$row"
      echo "  $fedora on Fedora, $debian on Debian, so that this succeeds: $probe"
    done
    exit 1
  fi >&2
  packages=("${missing[@]%%|*}")
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || fail "there is no sudo here; as root run:" \
      "  apt-get update && apt-get install --no-install-recommends ${packages[*]}"
    as_root=(sudo)
  fi
  echo "installing ${packages[*]}"
  # Descriptor 9 is the lock: a process that outlives this script must not keep it.
  if ! { apt_get "${as_root[@]}" -- update &&
    apt_get "${as_root[@]}" -- install -y --no-install-recommends "${packages[@]}"; } >"$log" 2>&1 9>&-; then
    tail -n 20 "$log" >&2
    fail "packages could not be installed: ${packages[*]}; the whole output is in $log"
  fi
  mapfile -t missing < <(missing_packages)
  [ ${#missing[@]} -eq 0 ] || fail "installed, yet still not usable:" "${missing[@]/#/  }"
}

# Fails unless the go command is as new as the module in the current directory asks for.
check_go() {
  local wanted have
  wanted=$(awk '$1 == "go" { print $2; exit }' go.mod)
  command -v go >/dev/null || fail "" "the go command is needed, version $wanted or newer:" \
    "unpack it from https://go.dev/dl/ into /usr/local, or put its bin directory on PATH"
  have=$(go env GOVERSION 9>&-)
  have=${have#go}
  [ "$(printf '%s\n' "$wanted" "$have" | sort -V | head -n 1)" = "$wanted" ] || fail "" \
    "go is version $have, and $wanted or newer is needed:" \
    "unpack it from https://go.dev/dl/ into /usr/local, or put its bin directory first on PATH"
}

# The version of a module that the go.mod in the current directory requires.
required_version() {
  awk -v module="$1" '
    $1 == "require" { $1 = ""; $0 = $0 }
    $1 == module && $2 ~ /^v/ { print $2; exit }
  ' go.mod
}

# The name of an item in the output: the part before '=', or else the last path element.
item_name() {
  local path=${1%%=*}
  echo "${path##*/}"
}

# The file or package of an item, as a path below the module.
item_path() {
  local path=${1#*=}
  [ "$path" = . ] && path=
  echo "${path:+/$path}"
}

build_programs() { # name module version cgo output item...
  local name=$1 module=$2 version=$3 cgo=$4 output=$5 item link
  shift 5
  link="-s -w"
  if [ -n "${VERSION_VARIABLE[$name]:-}" ]; then
    link+=" -X ${VERSION_VARIABLE[$name]}=$version"
  fi
  for item in "$@"; do
    case $item in
      *.crt=* | *.key=*) copy_files "$module" "$output" "$item" || return ;;
      *.test=*) go_compile "$name" "$cgo" test -c -vet=off -ldflags "$link" \
        -o "$output/$(item_name "$item")" "$module$(item_path "$item")" || return ;;
      *@*) go_compile "$name" "$cgo" build -ldflags "$link" \
        -o "$output/$(item_name "$item")" "$(item_path "$item" | sed -e 's|^/||' -e 's|@|/|')" || return ;;
      *) go_compile "$name" "$cgo" build -ldflags "$link" \
        -o "$output/$(item_name "$item")" "$module$(item_path "$item")" || return ;;
    esac
  done
}

go_compile() { # name cgo command argument...
  local name=$1 cgo=$2
  local command=$3
  shift 3
  CGO_ENABLED=$cgo go "$command" -mod=readonly -buildvcs=false -trimpath -tags "${TAGS[$name]:-}" "$@"
}

copy_files() { # module output item...
  local module=$1 output=$2 item source
  shift 2
  go mod download "$module" || return
  source=$(go list -mod=readonly -m -f '{{.Dir}}' "$module") || return
  for item in "$@"; do
    # The module cache is read-only; the copy must be writable, so that it can be deleted.
    install -m 0644 "$source$(item_path "$item")" "$output/$(item_name "$item")" || return
  done
}

# Points a link at its target in one step, so that a reader finds the old or the new one.
link_to() { # target link
  [ "$(readlink "$2" || true)" != "$1" ] || return 0
  mkdir -p "$(dirname "$2")"
  ln -s "$1" "$2.new.$$"
  mv -T "$2.new.$$" "$2"
}

link_part() { # name version destination part item...
  local name=$1 version=$2 destination=$3 part=$4 item file
  shift 4
  for item in "$@"; do
    file=$(item_name "$item")
    if [ "$destination" = files ]; then
      link_to "../../parts/$part/$file" "$testbed/$name/$version/$file"
    else
      link_to "../parts/$part/$file" "$testbed/$destination/$file"
    fi
  done
}

# Makes a missing part, and points the stable names at it.
provide() { # row of PARTS
  local name module destination cgo items version key part making started log
  IFS='|' read -r name module destination cgo items <<<"$1"
  local -a item
  read -ra item <<<"$items"
  cd "$here/$name"
  version=$(required_version "$module")
  [ -n "$version" ] || fail "$here/$name/go.mod does not require $module"
  key=$({ cat go.mod go.sum; find . -mindepth 2 -name '*.go' -exec cat {} +; echo "$1|${TAGS[$name]:-}|${VERSION_VARIABLE[$name]:-}"; } | sha256sum | head -c 12)
  part=$name-$version-$key

  printf '%-13s %-8s … ' "$name" "$version"
  if [ -d "$testbed/parts/$part" ]; then
    echo "cached"
  else
    check_go
    making=$(mktemp -d "$testbed/parts/.making.XXXXXX")
    log=$testbed/log/$name.log
    started=$SECONDS
    if [ "$destination" = files ]; then
      set -- copy_files "$module" "$making" "${item[@]}"
    else
      set -- build_programs "$name" "$module" "$version" "$cgo" "$making" "${item[@]}"
    fi
    # Without the lock, for the same reason as above.
    if ! "$@" >"$log" 2>&1 9>&-; then
      echo "FAILED; the end of $log:"
      tail -n 30 "$log"
      exit 1
    fi
    chmod 0755 "$making"
    sync -f "$making"
    mv -T "$making" "$testbed/parts/$part"
    echo "built in $((SECONDS - started)) s"
  fi
  link_part "$name" "$version" "$destination" "$part" "${item[@]}"
}

main() { # names of parts; all of them if there are none
  local row wanted=" $* "
  local -a row_list
  command -v flock >/dev/null || fail "the flock command is needed (Debian package util-linux)"
  mkdir -p "$testbed/parts" "$testbed/log"
  exec 9>"$testbed/lock"
  flock -n 9 || { echo "waiting for another build"; flock 9; }
  # Left by an interrupted build: no other build can run now.
  rm -rf "$testbed"/parts/.making.*

  # Only tests need the virtual machine.
  [[ $# -gt 0 && $wanted != *" vm "* ]] || PACKAGES+=$VM_PACKAGES
  [[ $wanted != *" systemd "* ]] || PACKAGES+=$SYSTEMD_PACKAGES
  [[ $wanted != *" conformance "* ]] || PACKAGES+=$CONFORMANCE_PACKAGES
  install_packages
  # Named parts may be on demand; without names, those are left out.
  [[ $# -eq 0 ]] || PARTS+=$PARTS_ON_DEMAND
  mapfile -t row_list < <(rows "$PARTS")
  for row in "${row_list[@]}"; do
    [[ $# -eq 0 || $wanted = *" ${row%%|*} "* ]] || continue
    provide "$row"
  done
  [[ $# -gt 0 && $wanted != *" vm "* ]] || "$here/vm.sh" "$testbed"
  [[ $wanted != *" conformance "* ]] || "$here/userland.sh" "$testbed"
}

main "$@"
