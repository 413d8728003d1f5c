# Sourced by the scripts that collect programs of this machine for images.

# Copies a program and its libraries to the paths that they have here.
copy() { # tree program path-in-the-tree
  local library
  install -D -m 0755 "$(readlink -f "$2")" "$1/$3"
  # A static program has none, and ldd fails.
  for library in $(ldd "$2" 2>/dev/null | grep -oE '/[^ ]+' || true); do
    install -D -m 0755 "$(readlink -f "$library")" "$1$library"
  done
}

# Puts a collected tree into its place, unless an equal one is there.
keep_unless_equal() { # tree place
  if diff --recursive --no-dereference --brief "$1" "$2" >/dev/null 2>&1; then
    echo "… unchanged"
    rm -rf "$1"
  else
    chmod 0755 "$1"
    rm -rf "$2"
    mv -T "$1" "$2"
    echo "… collected"
  fi
}
