# Sourced by the scripts that build. All checkouts of a user share one target directory, so that a fresh clone finds
# its dependencies compiled. But cargo names the workspace's own crates by their path inside the checkout and trusts
# modification times, so it would use crates built by another checkout.

# use_target : waits until no other checkout uses the target directory. If another checkout used it last, cargo compiles
# the workspace's own crates again. Descriptor 9 holds the lock until this script and its children have ended.
use_target() {
    # Without this variable cargo builds inside the checkout.
    [ -n "${CARGO_TARGET_DIR:-}" ] || return 0
    local lock=$CARGO_TARGET_DIR/checkout.lock mark=$CARGO_TARGET_DIR/checkout
    mkdir -p "$CARGO_TARGET_DIR"
    exec 9<>"$lock"
    if ! is_last_user "$mark"; then
        flock --exclusive --nonblock 9 || {
            echo "waiting for $(cat "$mark"), which uses $CARGO_TARGET_DIR"
            flock --exclusive 9
        }
        find . -path ./.git -prune -o -type f -exec touch --no-create {} +
        printf '%s\n' "$PWD" >"$mark"
    fi
    flock --shared 9
    # Another checkout may have waited for the same lock.
    is_last_user "$mark" || use_target
}

is_last_user() {
    [ "$(cat "$1" 2>/dev/null)" = "$PWD" ]
}

leave_target() {
    exec 9>&-
}
