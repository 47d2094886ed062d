# The Rust toolchain and its test tools.

oldest_rust() { sed -n 's/^rust-version = "\(.*\)"$/\1/p' "$ROOT/Cargo.toml"; }

rust_is_right() {
    local version
    version=$(cargo --version 2>/dev/null | cut -d' ' -f2) || return 1
    [ -n "$version" ] && [ "$(printf '%s\n' "$(oldest_rust)" "$version" | sort -V | head -1)" = "$(oldest_rust)" ]
}

# Debian's rustc and cargo are older than we need; its rustc-web and cargo-web (security suite, kept new for browsers) are not.
ensure_rust() {
    have cargo || PATH=$PATH:$HOME/.cargo/bin
    if ! have cargo && have apt-get; then
        ensure_apt ca-certificates rustc-web cargo-web rustfmt-web
        hash -r
    fi
    have cargo || fail "there is no Rust here: install Rust $(oldest_rust) or newer from https://rustup.rs, then start the script again."
    rust_is_right || fail "$(command -v cargo) is $(cargo --version | cut -d' ' -f2), and Rust $(oldest_rust) or newer is needed: run 'rustup update stable', or on Debian replace rustc and cargo by the packages rustc-web and cargo-web."
    # build.rs of the kernels compiles the shader compiler, which is C++.
    ensure_command g++ g++
}

cargo_build() { (cd "$ROOT" && cargo build -q --locked "$@"); }

# Where cargo puts what it builds.
target_folder() {
    (cd "$ROOT" && cargo metadata -q --locked --offline --no-deps --format-version 1) | sed 's/.*"target_directory":"\([^"]*\)".*/\1/'
}
