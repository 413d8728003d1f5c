# Sourced by scripts/run.sh, ask.sh and kubectl.sh: which nodes of `make run` and `make cluster` run. The note has a
# line for each, the newest last: the root directory of its agent. Several may run beside one another.

# with_note NOTE FUNCTION ARGUMENT : one at a time changes the note.
with_note() {
    local note=$1 change=$2 root=$3
    (
        flock 9
        "$change" "$note" "$root"
        [ -s "$note" ] || rm -f "$note"
    ) 9>>"$note"
}

# The lines of nodes that are still there, but for one.
other_roots() {
    local note=$1 root=$2 line
    while read -r line; do
        if [ "$line" != "$root" ] && [ -d "$(dirname "$line")" ]; then echo "$line"; fi
    done <"$note"
}

add_root() {
    local others
    others=$(other_roots "$1" "$2")
    printf '%s\n' ${others:+"$others"} "$2" >"$1"
}

remove_root() {
    local others
    others=$(other_roots "$1" "$2")
    printf '%s' "${others:+$others
}" >"$1"
}

# newest_root NOTE [FILE] : the newest node that is still there, and has that file in its root directory. Where
# that cannot be seen, the newest of all: directories of root's may be closed to others.
newest_root() {
    local note=$1 file=${2:-} line found='' last=''
    [ -r "$note" ] || return 1
    while read -r line; do
        last=$line
        if [ -d "$(dirname "$line")" ] && { [ -z "$file" ] || [ -e "$line/$file" ]; }; then found=$line; fi
    done <"$note"
    [ -n "$found" ] || [ -n "$file" ] || found=$last
    [ -n "$found" ] && echo "$found"
}
