# Stages of a run: sourced by scripts that run several checks or tests one after the other. They print the
# time of each stage, the slowest tests and the totals, and end with the first stage that fails.

log=$(mktemp)
slow=$(mktemp)
trap 'rm -f "$log" "$slow"' EXIT
summary=()
passed=0
failed=0

# stage NAME COMMAND… : shows the output, records the time, adds up the test results. The first stage
# that fails ends the run.
stage() {
    local name=$1 start=$SECONDS status p f
    shift
    printf '\n== %s\n' "$name"
    "$@" 2>&1 | tee "$log"
    status=${PIPESTATUS[0]}
    read -r p f < <(awk '/^test result:/ { p += $4; f += $6 } END { print p + 0, f + 0 }' "$log")
    grep '^slow: ' "$log" >>"$slow"
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

# unless_passed PATHS KIND NAME COMMAND… : runs `KIND NAME COMMAND…`, unless that has passed on this machine with the
# same content of the files and folders in PATHS. Continuous integration skips nothing, and neither does FRESH=1.
unless_passed() {
    local paths=$1 kind=$2 name=$3 stamp=
    shift 2
    if [ -z "${CI:-}${FRESH:-}" ]; then stamp=$(stamp_of "$paths" "$@"); fi
    if [ -n "$stamp" ] && [ -e "$stamp" ]; then
        printf '\n== %s: skipped, it passed with the same inputs on %s (FRESH=1 runs it again)\n' "$name" "$(cat "$stamp")"
        summary+=("$(printf '%-14s skipped: passed before with the same inputs' "$name")")
        return
    fi
    "$kind" "$@"
    # Unless the files changed during the run.
    [ -z "$stamp" ] || [ "$stamp" != "$(stamp_of "$paths" "$@")" ] || { mkdir -p "${stamp%/*}" && date -u '+%F %T' >"$stamp"; }
}

# stamp_of PATHS NAME COMMAND… : the file that marks a stage as passed with this command and this content. Nothing if the
# content is not committed.
stamp_of() {
    local content paths=$1 git=(git -c 'safe.directory=*')
    shift
    # shellcheck disable=SC2086 # several paths
    [ -z "$("${git[@]}" status --porcelain -- $paths 2>&1)" ] || return 0
    content=$(for path in $paths; do "${git[@]}" rev-parse "HEAD:${path#.}" || exit; done 2>/dev/null) || return 0
    echo "$FERROLET_CACHE/passed/$1-$(sha256sum <<<"$* $content" | head -c 16)"
}

finish() {
    printf '\n'
    if [ -s "$slow" ]; then
        echo "the slowest tests:"
        sort -k2,2nr "$slow" | head -n 15 | sed 's/^slow://'
        printf '\n'
    fi
    printf '%s\n' "${summary[@]}"
    printf 'in all %d s\n' "$SECONDS"
    if [ $# -gt 0 ]; then
        printf 'FAILED in stage: %s\n' "$1"
        printf '%d passed, %d failed\n' "$passed" $((failed > 0 ? failed : 1))
        exit 1
    fi
    if [ -n "${limit:-}" ] && [ "$SECONDS" -gt "$limit" ]; then
        printf 'WARNING: this took more than %d minutes; make it faster before adding to it\n' $((limit / 60))
    fi
    printf '%d passed, %d failed\n' "$passed" "$failed"
    exit 0
}

# as_root SCRIPT ARGUMENT… : starts the script again with sudo, unless it runs as root.
as_root() {
    [ "$(id -u)" -eq 0 ] || exec sudo --preserve-env=CI,FRESH,HOME,PART,SOAK_COUNT,SOAK_SECONDS,SOAK_FROM,SOAK_JOBS,XDG_CACHE_HOME,FERROLET_CACHE,CARGO_TARGET_DIR env "PATH=$PATH" "$@"
}
