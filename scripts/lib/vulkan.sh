# A Vulkan driver: the one that is there, or lavapipe, Mesa's driver for the CPU.

# Mesa of Debian 12 (22.3) ends every shader loop after 65,535 iterations, so its results are wrong without a word.
OLDEST_MESA=23.1

mesa_is_right() {
    local version
    version=$(dpkg-query -W -f '${Version}' mesa-vulkan-drivers 2>/dev/null) || return 1
    [ -n "$version" ] && dpkg --compare-versions "$version" ge "$OLDEST_MESA"
}

# A driver's manifest that Debian's Mesa did not bring: a vendor's driver, or one that the user names.
other_driver_present() {
    [ -z "${VK_DRIVER_FILES:-}${VK_ICD_FILENAMES:-}" ] || return 0
    local manifest
    for manifest in /etc/vulkan/icd.d/*.json /usr/share/vulkan/icd.d/*.json /usr/local/share/vulkan/icd.d/*.json; do
        [ -f "$manifest" ] || continue
        dpkg-query -S "$manifest" 2>/dev/null | grep -q '^mesa-vulkan-drivers' || return 0
    done
    return 1
}

# Adds the backports suite of this Debian, from the place and with the key that the machine already uses.
add_backports() {
    local codename=$1 sources
    if apt-get indextargets --format '$(RELEASE)' | grep -qx "$codename-backports"; then return; fi
    sources=/etc/apt/sources.list.d/$codename-backports.sources
    say "adding $sources"
    debian_source "$codename-backports" | as_root tee "$sources" >/dev/null
    APT_LISTS_FRESH=
}

ensure_vulkan() {
    ensure_library libvulkan.so.1 libvulkan1
    if other_driver_present || mesa_is_right; then return; fi
    require_apt mesa-vulkan-drivers
    local codename
    codename=$(. /etc/os-release && printf '%s' "${VERSION_CODENAME:-}")
    say "no usable Vulkan driver: installing lavapipe (mesa-vulkan-drivers)"
    if [ "$codename" = bookworm ]; then
        add_backports bookworm
        apt_update
        apt_get install --no-install-recommends -t bookworm-backports mesa-vulkan-drivers
    else
        apt_update
        apt_get install --no-install-recommends mesa-vulkan-drivers
    fi
    mesa_is_right || fail "mesa-vulkan-drivers is older than $OLDEST_MESA, whose CPU driver computes wrong results; install a newer one."
}

# ensure_library NAME PACKAGE
ensure_library() { /sbin/ldconfig -p | grep -qF "$1" || ensure_apt "$2"; }
