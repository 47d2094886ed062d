# Debian packages: only what is missing is installed, and apt is left alone when nothing is.

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif have sudo; then
        sudo "$@"
    else
        fail "this needs root, and sudo is not here either: $*. Run it as root, then start the script again."
    fi
}

apt_get() { as_root env DEBIAN_FRONTEND=noninteractive apt-get -q -y "$@" >&2; }

package_installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

require_apt() {
    have apt-get || fail "these packages are missing and this is no Debian system, so install their counterparts by hand: $*"
}

APT_LISTS_FRESH=
apt_update() {
    [ -n "$APT_LISTS_FRESH" ] || apt_get update
    APT_LISTS_FRESH=yes
}

# ensure_apt PACKAGE...
ensure_apt() {
    local package missing=()
    for package; do
        package_installed "$package" || missing+=("$package")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    require_apt "${missing[@]}"
    say "installing ${missing[*]}"
    apt_update
    apt_get install --no-install-recommends "${missing[@]}"
}

# ensure_command COMMAND PACKAGE: for tools that need not come from a package.
ensure_command() { have "$1" || ensure_apt "$2"; }
