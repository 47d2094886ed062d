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

# debian_source SUITE...: an apt source of these suites, from the place and with the key that the machine already uses for its own.
debian_source() {
    local codename uri key
    codename=$(. /etc/os-release && printf '%s' "${VERSION_CODENAME:-}")
    uri=$(apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(REPO_URI)' | awk -v r="$codename" '$1 == r && $2 == "main" { print $3; exit }')
    [ -n "$uri" ] || fail "no apt source of this machine has the suite '$codename', so there is no telling where Debian's packages come from; add one, then start the script again."
    key=$(sed -n 's/^Signed-By: *\(\/.*\)$/\1/p' /etc/apt/sources.list.d/debian.sources 2>/dev/null | head -1)
    [ -n "$key" ] || key=$(sed -n "s/^deb .*signed-by=\([^] ]*\).* $codename .*/\1/p" /etc/apt/sources.list 2>/dev/null | head -1)
    [ -n "$key" ] || key=/usr/share/keyrings/debian-archive-keyring.gpg
    printf 'Types: deb\nURIs: %s\nSuites: %s\nComponents: main\nSigned-By: %s\n' "$uri" "$*" "$key"
}
