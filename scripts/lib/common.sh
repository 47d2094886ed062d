# Shared by every script here: source it first. Sets ROOT (the repository) and BUILD (what scripts make and keep).
set -euo pipefail

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
BUILD=$ROOT/build
mkdir -p "$BUILD"

say() { printf '%s\n' "$*" >&2; }
fail() {
    say "error: $*"
    exit 3
}

# step WHAT COMMAND...: says what is done, and how long it took.
step() {
    local what=$1 start=$SECONDS
    shift
    say "== $what"
    "$@" || { say "== $what failed after $((SECONDS - start)) s"; return 1; }
    say "== $what: $((SECONDS - start)) s"
}

have() { command -v "$1" >/dev/null 2>&1; }

# The usage text of a script is the comment block under its first line.
usage() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; }

# check_sha256 FILE SUM: true when FILE exists and is the one we know.
check_sha256() { [ -f "$1" ] && [ "$(sha256sum "$1" | cut -d' ' -f1)" = "$2" ]; }
