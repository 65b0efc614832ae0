#!/bin/sh
# Makes .venv from pinned requirements, without root. Does nothing when it is up to date; an interrupted run is repaired by the next.
# Usage: deploy/bootstrap.sh [requirements file]
set -eu
cd "$(dirname "$0")/.."
requirements=${1:-requirements.txt}

fail() {
    printf 'context-memory-fabric: %s\n' "$1" >&2
    exit 2
}

usable() {
    "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 15))' 2>/dev/null
}

find_python() {
    for candidate in ${PYTHON:-} python3 python3.11 python3.12 python3.13 python3.14; do
        if command -v "$candidate" >/dev/null 2>&1 && usable "$candidate"; then
            command -v "$candidate"
            return 0
        fi
    done
    return 1
}

if [ -x .venv/bin/python ] && ! usable .venv/bin/python; then
    rm -rf .venv
fi
if [ ! -x .venv/bin/python ] || [ ! -x .venv/bin/pip ]; then
    python=$(find_python) || fail "needs Python 3.11 or newer and found $(python3 --version 2>/dev/null || echo none): install python3.11, or name one with PYTHON=/path/to/python3.11"
    free_kib=$(df -Pk . | awk 'NR==2 {print $4}')
    [ "$free_kib" -ge 1048576 ] || fail "needs 1 GiB of free disk for the virtual environment and has $((free_kib / 1024)) MiB: free some, or clone onto another file system"
    rm -rf .venv
    echo "Making .venv with $("$python" --version) …"
    "$python" -m venv .venv || fail "python's venv module does not work: on Debian, apt-get install python3-venv"
fi

# requirements-dev.txt includes requirements.txt: the stamp covers both.
wanted=$(cat requirements.txt "$requirements" | sha256sum | cut -d' ' -f1)
stamp=.venv/.installed-$(basename "$requirements")
if [ "$(cat "$stamp" 2>/dev/null || true)" != "$wanted" ]; then
    rm -f .venv/.installed-*
    echo "Installing $requirements (first start only) …"
    .venv/bin/pip install --disable-pip-version-check --quiet --requirement "$requirements" 2>.venv/pip.log ||
        fail "could not install $requirements: $(grep -v '^WARNING' .venv/pip.log | tail -n 1) (whole log: .venv/pip.log)"
    echo "$wanted" >"$stamp"
    if [ "$requirements" = requirements-dev.txt ]; then
        cat requirements.txt requirements.txt | sha256sum | cut -d' ' -f1 >.venv/.installed-requirements.txt
    fi
fi
