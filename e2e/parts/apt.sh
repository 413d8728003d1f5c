# apt-get for scripts: sourced. Another program may hold apt's locks, as unattended upgrades do on a fresh machine.

# How long to wait for them, in seconds.
APT_PATIENCE=${APT_PATIENCE:-900}

# apt_get PREFIX… -- ARGUMENT… : runs apt-get, behind a prefix such as sudo, and waits for its locks.
apt_get() {
  local -a prefix=()
  while [ "$1" != -- ]; do
    prefix+=("$1")
    shift
  done
  shift
  local end=$((SECONDS + APT_PATIENCE)) output waited=
  while true; do
    # apt-get waits for dpkg's lock by itself, and fails at once on the lock of the package lists.
    if output=$("${prefix[@]}" env DEBIAN_FRONTEND=noninteractive LC_ALL=C apt-get \
      -o "DPkg::Lock::Timeout=$APT_PATIENCE" "$@" 2>&1); then
      printf '%s\n' "$output"
      return 0
    fi
    printf '%s\n' "$output"
    case $output in
      *'Could not get lock'* | *'Unable to lock'*) [ "$SECONDS" -lt "$end" ] || return 1 ;;
      *) return 1 ;;
    esac
    if [ -z "$waited" ]; then
      waited=yes
      # In addition to the log, if the script has kept its standard error as descriptor 8.
      { echo "waiting for another program to release apt's lock" >&8; } 2>/dev/null || true
    fi
    sleep 2
  done
}
