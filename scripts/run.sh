#!/usr/bin/env bash
# run.sh standalone|cluster : runs the sample node: an isolated instance with its own containerd and the agent. The
# agent uses the manifests of examples/standalone, or is the node of a cluster whose control plane runs beside it. A live
# table shows the pods. An agent that dies is restarted. On ^C or SIGTERM the script removes everything and exits with 0.
# The exit code is another one if the agent does not start or something could not be removed. Called by `make run` and
# `make cluster`, which set FERROLET_CACHE, CARGO_TARGET_DIR and PATH. FERROLET_PROGRAMS is a directory with programs that
# are already built. FERROLET_NOTE is a file that scripts/ask.sh and scripts/kubectl.sh read.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/roots.sh
mode=$1
programs=${FERROLET_PROGRAMS:-$CARGO_TARGET_DIR/quick}
ferrolet=$programs/ferrolet

# how CODE : describes how a process ended, by its exit code.
how() {
    if [ "$1" -gt 128 ]; then echo "killed by signal $(($1 - 128))"; else echo "with exit code $1"; fi
}

start_agent() {
    started=$SECONDS
    local flags=(--config "examples/$mode/config.yaml" --root-dir "$root")
    # For kubectl logs and exec, the API server connects to the node with a certificate signed by the cluster's CA.
    [ "$mode" != cluster ] || flags+=(--kubeconfig "$FERROLET_TESTBED_NODE_KUBECONFIG" --cert-dir "$root/pki"
        --client-ca-file "$(dirname "$KUBECONFIG")/ca.crt"
        --hostname-override "$FERROLET_TESTBED_NODE" --node-ip "$FERROLET_TESTBED_NODE_IP")
    "$ferrolet" run "${flags[@]}" >>"$log" 2>&1 &
    agent=$!
}

# Restarts the agent when it exits, until a signal arrives. Fails if it exits immediately three times in a row.
look_after_agent() {
    local code hasty=0 restarts=0
    while [ -z "$stopping" ]; do
        code=0
        # Messages of the shell about a killed process would disturb the table.
        wait -n "$agent" "$table" 2>/dev/null || code=$?
        [ -z "$stopping" ] || break
        if kill -0 "$agent" 2>/dev/null; then
            # The table ended because its reader closed it.
            return "$code"
        fi
        code=0
        wait "$agent" 2>/dev/null || code=$?
        if [ $((SECONDS - started)) -lt 5 ]; then hasty=$((hasty + 1)); else hasty=0; fi
        if [ "$hasty" -ge 3 ]; then
            kill -TERM "$table" 2>/dev/null && wait "$table" || true
            echo "The agent exits again and again, $(how "$code"). The end of its log:"
            tail -n 20 "$log"
            return 1
        fi
        # On a terminal the table shows it, and another line would disturb it.
        [ -t 1 ] || echo "The agent exited, $(how "$code"). Restarting it."
        restarts=$((restarts + 1))
        sleep 1
        [ -n "$stopping" ] || start_agent
    done
    case $restarts in
    0) ;;
    1) echo "The agent exited unexpectedly once and was restarted." ;;
    *) echo "The agent exited unexpectedly $restarts times and was restarted." ;;
    esac
}

# The part that runs inside the instance, where /run, /var/log and the network are private.
inside() {
    local code=0
    root=$FERROLET_TESTBED_DIR/kubelet log=$FERROLET_TESTBED_DIR/ferrolet.log
    agent='' table='' stopping='' started=0
    # Read by scripts/ask.sh and scripts/kubectl.sh.
    local note=${FERROLET_NOTE:-$FERROLET_CACHE/run.root}
    trap 'stopping=yes; [ -z "$table" ] || kill -TERM "$table" 2>/dev/null || true' INT TERM
    mkdir -p /run/containerd
    ln -sf "$FERROLET_TESTBED_SOCKET" /run/containerd/containerd.sock
    # There is no network: the runtime would wait 50 s for the host's name server before a pull fails.
    echo 'nameserver 127.0.0.1' >"$FERROLET_TESTBED_DIR/resolv.conf"
    [ ! -e /etc/resolv.conf ] || mount --bind "$FERROLET_TESTBED_DIR/resolv.conf" /etc/resolv.conf
    start_agent
    until [ -n "$stopping" ] || [ -S "$root/ferrolet/agent.sock" ] || ! kill -0 "$agent" 2>/dev/null; do
        sleep 0.05
    done
    if [ -z "$stopping" ] && ! kill -0 "$agent" 2>/dev/null; then
        wait "$agent" || code=$?
        echo "The agent did not start: it exited, $(how "$code"). The end of its log:"
        tail -n 20 "$log"
        return 1
    fi
    if [ -z "$stopping" ]; then
        with_note "$note" add_root "$root"
        if [ "$mode" = cluster ]; then
            ln -sf "$KUBECONFIG" "$root/admin.kubeconfig"
            kubectl apply -f examples/cluster/hello.yaml -f examples/cluster/volumes.yaml || true
            echo "In another terminal: scripts/kubectl.sh get pods -A, scale deployment hello --replicas 10, ..."
        fi
        echo "In another terminal: scripts/ask.sh get pods, describe POD, logs POD, why POD, gc plan, gc why NAME, log"
        echo "There is no network: pods can only use the image ferrolet.test/workload:1."
        echo
        "$ferrolet" get pods --watch -A --root-dir "$root" &
        table=$!
        look_after_agent || code=$?
    fi
    [ ! -e "$note" ] || with_note "$note" remove_root "$root"
    kill -TERM $table "$agent" 2>/dev/null || true
    wait 2>/dev/null || true
    echo
    "$ferrolet" node clean --root-dir "$root" || code=$?
    return "$code"
}

if [ "${2:-}" = inside ]; then
    # Not `inside || …`: that would turn off `set -e` in it.
    inside
    exit
fi
if [ "${2:-}" != built ] && [ -z "${FERROLET_PROGRAMS:-}" ]; then
    [ -x "$ferrolet" ] || echo "Building ferrolet: about three minutes the first time."
    . scripts/checkout.sh
    use_target
    cargo build --locked --profile quick -p cli -p testbed
    leave_target
fi
[ "$(id -u)" -eq 0 ] || exec sudo --preserve-env=HOME,XDG_CACHE_HOME,FERROLET_CACHE,FERROLET_PROGRAMS,FERROLET_NOTE,CARGO_TARGET_DIR env "PATH=$PATH" "$0" "$mode" built
echo
options=()
if [ "$mode" = cluster ]; then
    echo "Starting a cluster of one node. It runs until you press ^C."
    options=(--control-plane)
else
    echo "The pods of $PWD/examples/standalone/manifests run until you press ^C."
    echo "Add, edit or remove a manifest there, or kill a container, and watch."
fi
exec "$programs/testbed" run "${options[@]}" -- "$0" "$mode" inside
