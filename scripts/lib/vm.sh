# QEMU, a kernel and busybox for scripts/vm, fetched with apt into build/vm. The machine's own packages are left alone: apt works on a
# state of its own there, and packages are only unpacked.

VM=$BUILD/vm

# private_apt STATE COMMAND ARGUMENT...: apt-get or apt-cache on the state in build/vm/apt/STATE.
private_apt() {
    local state=$VM/apt/$1 command=$2
    shift 2
    "$command" -q -o Dir::State="$state/state" -o Dir::State::status="$state/status" -o Dir::Cache="$state/cache" \
        -o Dir::Etc::SourceList="$state/debian.sources" -o Dir::Etc::SourceParts="$state/none" -o Dir::Etc::PreferencesParts="$state/none" \
        -o APT::Sandbox::User="$(id -un)" -o Debug::NoLocking=1 "$@"
}

# private_suites STATE SUITE...: makes that state, with the current lists of these suites.
private_suites() {
    local state=$VM/apt/$1
    shift
    require_apt qemu-system-x86
    mkdir -p "$state/state/lists/partial" "$state/cache/archives/partial" "$state/none"
    : >"$state/status"
    debian_source "$@" >"$state/debian.sources"
    private_apt "${state##*/}" apt-get update >&2
}

# fetch_alone STATE FOLDER PACKAGE...: unpacks these packages, and nothing that they depend on.
fetch_alone() {
    local state=$1 folder=$2 downloads deb
    shift 2
    downloads=$VM/apt/$state/alone
    rm -rf "$downloads" && mkdir -p "$downloads" "$folder"
    (cd "$downloads" && private_apt "$state" apt-get download "$@" >&2) || fail "$* cannot be fetched. If Debian has newer ones by now, delete $VM and start again."
    for deb in "$downloads"/*.deb; do dpkg -x "$deb" "$folder"; done
    rm -rf "$downloads"
}

QEMU_DEVICE=vhost-user-test-device-pci
QEMU_NEEDED="QEMU 10.2 or later, whose generic vhost-user device ($QEMU_DEVICE) can be created by hand"

# Whether this QEMU has the device: asked of the program, because distributions backport and strip.
qemu_has_device() { "$1" -device help 2>/dev/null | grep -q "\"$QEMU_DEVICE\""; }

# Sets QEMU: the machine's own where it has the device, else one of Debian's that lives in build/vm/qemu with all of its libraries.
ensure_qemu() {
    local root=$VM/qemu candidate deb archives
    for candidate in ${ACCEL_QEMU:-} "$(command -v qemu-system-x86_64)" "$VM/qemu-system-x86_64"; do
        if [ -x "$candidate" ] && qemu_has_device "$candidate"; then QEMU=$candidate && return; fi
    done
    have apt-get || fail "no QEMU here has $QEMU_DEVICE. This needs $QEMU_NEEDED: install one, or name it with ACCEL_QEMU=PATH."
    say "no QEMU here has $QEMU_DEVICE: fetching Debian's newest into $root"
    private_suites qemu trixie trixie-backports
    archives=$VM/apt/qemu/cache/archives
    private_apt qemu apt-get -y -t trixie-backports --no-install-recommends --download-only install qemu-system-x86 >&2
    rm -rf "$root" && mkdir -p "$root"
    for deb in "$archives"/*.deb; do dpkg -x "$deb" "$root"; done
    rm -f "$archives"/*.deb
    # Its own loader and libraries; QEMU_MODULE_DIR, or it would load the machine's modules and abort.
    cat >"$VM/qemu-system-x86_64" <<'RUN'
#!/bin/sh
root=$(dirname "$0")/qemu
QEMU_MODULE_DIR=$root/usr/lib/x86_64-linux-gnu/qemu exec "$root/usr/lib64/ld-linux-x86-64.so.2" \
    --library-path "$root/usr/lib/x86_64-linux-gnu:$root/lib/x86_64-linux-gnu" "$root/usr/bin/qemu-system-x86_64" \
    -L "$root/usr/share/qemu" -L "$root/usr/share/seabios" -L "$root/usr/lib/ipxe/qemu" "$@"
RUN
    chmod +x "$VM/qemu-system-x86_64"
    QEMU=$VM/qemu-system-x86_64
    qemu_has_device "$QEMU" ||
        fail "the QEMU that was fetched ($("$QEMU" --version | head -1)) lacks $QEMU_DEVICE. This needs $QEMU_NEEDED: install one, or name it with ACCEL_QEMU=PATH."
}

# Where Debian has a kernel of this series that modules can be built for here: its tools must run on this Debian.
kernel_source() { # SERIES -> suites, name of the metapackage's flavour
    local codename
    codename=$(. /etc/os-release && printf '%s' "${VERSION_CODENAME:-}")
    case $1 in
    6.1) echo bookworm cloud-amd64 ;;
    6.12) if [ "$codename" = bookworm ]; then echo bookworm-backports amd64; else echo trixie amd64; fi ;;
    *) fail "--kernel takes 6.1 or 6.12, not $1." ;;
    esac
}

# ensure_kernel SERIES: sets KERNEL, a folder with boot/, lib/modules/ and bin/busybox, and RELEASE, as uname -r will say.
ensure_kernel() {
    local series=$1 suite flavour package
    KERNEL=$VM/kernel-$series
    if [ ! -f "$KERNEL/complete" ]; then
        read -r suite flavour < <(kernel_source "$series")
        say "fetching Linux $series ($flavour) of $suite into $KERNEL"
        private_suites "$series" "$suite" "${suite%-backports}"
        package=$(private_apt "$series" apt-cache -o APT::Default-Release="$suite" --no-all-versions show "linux-image-$flavour" |
            sed -n 's/^Depends:.*\(linux-image-[^ ,]*\).*/\1/p')
        [ -n "$package" ] || fail "$suite has no linux-image-$flavour."
        rm -rf "$KERNEL"
        fetch_alone "$series" "$KERNEL" "$package" busybox-static
        touch "$KERNEL/complete"
    fi
    RELEASE=$(basename "$KERNEL"/boot/vmlinuz-*)
    RELEASE=${RELEASE#vmlinuz-}
}

# Builds accelctl, and a program that misuses the kernel module, without libraries, so that they run in any guest: sets GUEST_PROGRAMS, a
# folder. With a target named, the flags leave alone what is built without.
build_guest_programs() {
    local target=x86_64-unknown-linux-gnu
    RUSTFLAGS='-C target-feature=+crt-static' cargo_build -p accelctl -p accel-guest --bin accelctl --example guest_faults --target "$target"
    GUEST_PROGRAMS=$(target_folder)/$target/debug
}

# Models that the guest runs; small ones, as an emulated processor carries every byte.
VM_MODELS="et_mlp_fp et_mlp_int8"

# add_module MODULE: puts a kernel module (a name, or a file), after those that it depends on, into build/vm/modules and its list.
add_module() {
    local name file copy needed
    name=$(basename "$1" .ko)
    copy=$VM/modules/$name.ko
    [ ! -f "$copy" ] || return 0
    file=$1
    [ -f "$file" ] || file=$(find "$KERNEL/lib/modules" -name "$name.ko*" -o -name "${name//_/-}.ko*" | head -1)
    case $file in
    '') return 0 ;; # built in
    *.xz) xz -dc "$file" >"$copy" ;;
    *) cp "$file" "$copy" ;;
    esac
    for needed in $(tr '\0' '\n' <"$copy" | sed -n 's/^depends=//p' | tr ',' ' '); do add_module "$needed"; done
    echo "$name" >>"$VM/modules.list"
}

# make_initrd MODULE...: the guest's file system with these modules, in loading order. Sets INITRD.
make_initrd() {
    local module files=() model
    rm -rf "$VM/models" "$VM/modules" "$VM/modules.list"
    mkdir -p "$VM/models" "$VM/modules"
    for module; do add_module "$module"; done
    for model in $VM_MODELS; do
        ln -s "$ROOT/tests/data/models/$model" "$VM/models/$model"
        files+=("models/$model=$ROOT/tests/data/models/$model")
    done
    # One that keeps the device busy for a while, to be interrupted, and whose input is long.
    ln -s "$ROOT/tests/data/models/et_mbv2_int8" "$VM/models/large"
    files+=("models/large=$ROOT/tests/data/models/et_mbv2_int8")
    INITRD=$VM/initrd.gz
    python3 "$ROOT/scripts/cpio.py" "$INITRD" "init=$ROOT/scripts/guest/init" "bin/device=$ROOT/scripts/guest/device" \
        "bin/driver=$ROOT/scripts/guest/driver" "bin/busybox=$KERNEL/bin/busybox" "bin/accelctl=$GUEST_PROGRAMS/accelctl" \
        "bin/guest_faults=$GUEST_PROGRAMS/examples/guest_faults" \
        "etc/modules=$VM/modules.list" "lib/modules=$VM/modules" "${files[@]}"
}

# ensure_headers SERIES: what modules for that kernel are built with. Sets HEADERS.
ensure_headers() {
    local series=$1 root=$VM/headers-$1 needed
    HEADERS=$root/usr/src/linux-headers-$RELEASE
    if [ -f "$root/complete-$RELEASE" ]; then return; fi
    say "fetching the headers of Linux $RELEASE into $root"
    needed=$(private_apt "$series" apt-cache show "linux-headers-$RELEASE" |
        sed -n 's/^Depends:.*\(linux-headers-[^ ,]*-common\).*\(linux-kbuild-[^ ,]*\).*/\1 \2/p' | head -1)
    [ -n "$needed" ] || fail "linux-headers-$RELEASE depends on other packages than it used to: $(private_apt "$series" apt-cache show "linux-headers-$RELEASE" | grep ^Depends)"
    rm -rf "$root"
    # Two names.
    # shellcheck disable=SC2086
    fetch_alone "$series" "$root" "linux-headers-$RELEASE" $needed
    sed -i "s|^include /usr/src|include $root/usr/src|" "$HEADERS/Makefile"
    touch "$root/complete-$RELEASE"
}

# build_module SERIES: builds a copy of the guest driver's sources for that kernel. Sets MODULE.
build_module() {
    local series=$1 sources=$ROOT/crates/accel-guest/kmod folder=$VM/kmod-$1
    ensure_command make make
    ensure_command gcc gcc
    ensure_headers "$series"
    rm -rf "$folder" && mkdir -p "$folder"
    cp "$sources"/*.[ch] "$sources/Kbuild" "$folder"
    # No warning passes (Kbuild asks for many). Without types for BPF, which need further tools.
    make -s -C "$HEADERS" M="$folder" KCFLAGS=-Werror CONFIG_DEBUG_INFO_BTF_MODULES= modules >"$folder/log" 2>&1 || { cat "$folder/log" >&2; fail "the kernel module does not build for $RELEASE."; }
    MODULE=$folder/virtio_accel.ko
}
