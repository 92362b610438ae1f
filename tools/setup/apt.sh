# Sourced by ./setup: installs the packages of tools/setup/packages that are missing.

# Prints the names of packages that are not installed, one per line.
packages_missing() {
    sed -e 's/#.*//' -e '/^ *$/d' tools/setup/packages | while read -r name _; do
        dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null | grep -qx installed || echo "$name"
    done
}

# Prints why a package is needed.
package_reason() {
    sed -n "s/^$(printf '%s' "$1" | sed 's/[+.]/\\&/g')  *//p" tools/setup/packages
}

# Runs a command as root.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    else
        sudo "$@"
    fi
}

# apt_install NAME…: updates the package lists if they lack a name or are stale.
apt_install() {
    if [ "$(id -u)" -ne 0 ] && ! command -v sudo >/dev/null; then
        fail "these packages are missing and neither root nor sudo is at hand; have an administrator run:
    apt-get install --no-install-recommends $*"
    fi
    local known=yes name
    for name in "$@"; do
        [ -n "$(apt-cache madison "$name" 2>/dev/null)" ] || known=no
    done
    if [ $known = no ]; then
        say "apt-get update: this machine's package lists do not have all of them"
        as_root apt-get -qq -o DPkg::Lock::Timeout=300 update </dev/null || fail "apt-get update failed"
    fi
    apt_get_install "$@" && return
    [ $known = yes ] || fail "apt-get could not install: $*"
    say "apt-get update, and once more: this machine's package lists may be old"
    as_root apt-get -qq -o DPkg::Lock::Timeout=300 update </dev/null || fail "apt-get update failed"
    apt_get_install "$@" || fail "apt-get could not install: $*"
}

apt_get_install() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 \
        install --no-install-recommends "$@" </dev/null >"$log/apt.log" 2>&1 || {
        tail -n 15 "$log/apt.log" >&2
        return 1
    }
}

# Installs tools/setup/packages-tests. Tests that need an unavailable package are skipped, and counted as skipped.
packages_install_tests() {
    packages_install_wanted tools/setup/packages-tests "tests that need it will be skipped"
}

# Installs tools/setup/packages-optional. Without an unavailable package a part of memtrace is not built.
packages_install_optional() {
    packages_install_wanted tools/setup/packages-optional "what needs it will not be built"
}

# packages_install_wanted FILE WITHOUT
packages_install_wanted() {
    local name reason
    command -v dpkg-query >/dev/null && command -v apt-get >/dev/null || return 0
    while read -r name reason; do
        dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null | grep -qx installed && continue
        say "installing $name: $reason"
        [ -n "$(apt-cache madison "$name" 2>/dev/null)" ] && apt_get_install "$name" ||
            say "$name cannot be had here: $2"
    done < <(sed -e 's/#.*//' -e '/^ *$/d' "$1")
}

packages_install() {
    if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
        say "no apt here: the packages named in tools/setup/packages must be there in another way"
        return
    fi
    local missing
    mapfile -t missing < <(packages_missing)
    [ ${#missing[@]} -gt 0 ] || return 0
    local name
    for name in "${missing[@]}"; do
        say "installing $name: $(package_reason "$name")"
    done
    apt_install "${missing[@]}"
}
