# Named parts of a long run: sourced by soak.sh and bench.sh. Each of them defines
#   what      the name of its make target
#   parts     an array with a row "NAME|MINUTES|DESCRIPTION" for each part; MINUTES is the usual duration on 2 cores
#   part_NAME a function for each row that runs the part; in its name, _ replaces -

# list_parts : prints the table of parts.
list_parts() {
    local row name minutes description
    for row in "${parts[@]}"; do
        IFS='|' read -r name minutes description <<<"$row"
        printf '  %-16s %3d min  %s\n' "$name" "$minutes" "$description"
    done
}

# choose_parts NAME… : sets `chosen` to these parts. Without a name it prints the table and chooses all parts.
# An unknown name ends the script with code 2.
choose_parts() {
    local name names=" ${parts[*]%%|*} "
    chosen=("$@")
    if [ $# -eq 0 ]; then
        read -ra chosen <<<"$names"
        printf 'All parts of make %s run in turn; PART="NAME…" runs some of them:\n' "$what"
        list_parts
    fi
    for name in "${chosen[@]}"; do
        if [[ $names != *" $name "* ]]; then
            printf '%s: there is no part %s; the parts are:\n' "$what" "$name"
            list_parts
            exit 2
        fi >&2
    done
}

# run_function NAME : calls the function of a part.
run_function() {
    "part_${1//-/_}"
}

# source_commit : prints the last commit that changed anything except stored results, and whether the tree has
# other changes. Committing a result therefore does not change the commit of the next one.
source_commit() {
    local but=(. ':!docs/soak' ':!docs/benchmarks' ':!docs/conformance') git=(git -c 'safe.directory=*') id
    id=$("${git[@]}" log -1 --format=%h --abbrev=12 -- "${but[@]}" 2>/dev/null) || id=
    if [ -n "$("${git[@]}" status --porcelain -- "${but[@]}" 2>/dev/null)" ]; then
        id="${id:-unknown}, with changes"
    fi
    printf '%s\n' "${id:-unknown}"
}

# own FILE… : sets the owner of files that root has written to the owner of their directory.
own() {
    local file
    for file in "$@"; do
        [ ! -e "$file" ] || "${root[@]}" chown --reference="$(dirname "$file")" "$file"
    done
}
