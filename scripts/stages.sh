# Stages of a run: sourced by scripts that run several checks or tests one after the other. They print the
# time of each stage and the totals, and end with the first stage that fails.

log=$(mktemp)
trap 'rm -f "$log"' EXIT
summary=()
passed=0
failed=0

# stage NAME COMMAND… : shows the output, notes the time, adds up the test results; the first stage
# that fails ends the run.
stage() {
    local name=$1 start=$SECONDS status p f
    shift
    printf '\n== %s\n' "$name"
    "$@" 2>&1 | tee "$log"
    status=${PIPESTATUS[0]}
    read -r p f < <(awk '/^test result:/ { p += $4; f += $6 } END { print p + 0, f + 0 }' "$log")
    passed=$((passed + p))
    failed=$((failed + f))
    summary+=("$(printf '%-14s %5d s %6d passed %4d failed' "$name" $((SECONDS - start)) "$p" "$f")")
    [ "$status" -eq 0 ] || finish "$name"
}

# tests NAME COMMAND… : a stage that must have run at least one test.
tests() {
    local before=$passed
    stage "$@"
    [ "$passed" -gt "$before" ] || finish "$1 (it ran no test)"
}

finish() {
    printf '\n'
    printf '%s\n' "${summary[@]}"
    printf 'in all %d s\n' "$SECONDS"
    if [ $# -gt 0 ]; then
        printf 'FAILED in stage: %s\n' "$1"
        printf '%d passed, %d failed\n' "$passed" $((failed > 0 ? failed : 1))
        exit 1
    fi
    printf '%d passed, %d failed\n' "$passed" "$failed"
    exit 0
}

# as_root SCRIPT ARGUMENT… : starts the script again with sudo, unless it runs as root.
as_root() {
    [ "$(id -u)" -eq 0 ] || exec sudo --preserve-env=CI,HOME,SOAK_ONLY,SOAK_COUNT,SOAK_SECONDS,SOAK_FROM,SOAK_JOBS,XDG_CACHE_HOME,FERROLET_CACHE,CARGO_TARGET_DIR env "PATH=$PATH" "$@"
}
