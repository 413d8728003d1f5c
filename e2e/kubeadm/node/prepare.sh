#!/bin/bash
# prepare.sh DIRECTORY PROGRAMS NODE_IP : makes a testbed instance look like a machine on which the packages of kubeadm
# and the kubelet are installed. Runs inside the instance. DIRECTORY is the instance's; PROGRAMS has ferrolet.
set -euo pipefail
directory=$1 programs=$2 node_ip=$3
here=$(cd "$(dirname "$0")" && pwd)
testbed=${XDG_CACHE_HOME:-$HOME/.cache}/ferrolet/testbed

case $directory in
  /etc/* | /usr/* | /opt/*)
    echo "$directory is in a directory that nodes cover with their own: set XDG_CACHE_HOME to another place" >&2
    exit 1
    ;;
esac

# Covers a directory of the host: files that are written there belong to the instance.
cover() { # path
  mkdir -p "$directory/cover$1/upper" "$directory/cover$1/work"
  mount -t overlay overlay \
    -o "lowerdir=$1,upperdir=$directory/cover$1/upper,workdir=$directory/cover$1/work" "$1"
}
cover /etc
cover /usr
cover /opt

# The root directory is on disk. Mounts below it appear nowhere else.
mkdir -p "$directory/kubelet" /var/lib/kubelet
mount --bind "$directory/kubelet" /var/lib/kubelet
mount --make-private /var/lib/kubelet
mount --make-shared /var/lib/kubelet

# containerd uses the directories of the testbed; add-ons write to the usual ones.
mkdir -p /etc/cni/net.d /opt/cni/bin /run/containerd
mount --bind "$directory/cni" /etc/cni/net.d
mount --bind /opt/cni/bin "$testbed/cni"
ln -sf "$directory/containerd.sock" /run/containerd/containerd.sock

# Nothing answers there: requests for names outside the cluster fail at once. CoreDNS would find a loop with 127.0.0.1.
echo "nameserver $node_ip" >"$directory/resolv.conf"
mount --bind "$directory/resolv.conf" /etc/resolv.conf

install -m 0755 "$here/systemctl" /usr/bin/systemctl
install -m 0755 "$testbed/kubeadm/kubeadm" "$testbed/bin/kubectl" /usr/bin
install -m 0755 "$programs/ferrolet" /usr/bin/ferrolet
ln -sf ferrolet /usr/bin/kubelet
install -D -m 0644 "$here/kubelet.service" /usr/lib/systemd/system/kubelet.service
install -D -m 0644 "$here/10-kubeadm.conf" /usr/lib/systemd/system/kubelet.service.d/10-kubeadm.conf
systemctl enable kubelet
systemctl start kubelet
