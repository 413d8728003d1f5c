# Sourced by scripts/run.sh, ask.sh and kubectl.sh: the list of running nodes of `make run` and `make cluster`. The note
# has a line with the root directory of each agent, the newest last. Several nodes may run at the same time.

# with_note NOTE FUNCTION ARGUMENT : changes the note under a lock.
with_note() {
    local note=$1 change=$2 root=$3
    (
        flock 9
        "$change" "$note" "$root"
        [ -s "$note" ] || rm -f "$note"
    ) 9>>"$note"
}

# other_roots NOTE ROOT : the lines of other nodes that still exist.
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

# newest_root NOTE [FILE] : the newest node that still exists and has that file in its root directory. Without FILE, the
# newest of all if none is visible: directories of root may not be readable for other users.
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
