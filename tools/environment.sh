# shellcheck shell=sh
# Sourced by ./ottla and ./test: keeps .venv as the lock files say.

# need_environment ROOT run|pipeline|dev: returns at once when .venv is up to date. No Python is started to
# find that out, for `./ottla --version` should be quick.
need_environment() {
    root=$1 profile=$2
    if [ -x "$root/.venv/bin/python" ] &&
        { echo "$root"; cat "$root/pyproject.toml" "$root/requirements/$profile.txt"; } |
        cmp -s - "$root/.venv/ottla-$profile.stamp"; then
        return
    fi
    for candidate in python3.13 python3.12 python3.11 python3; do
        # Asked to run, not only looked for: a shim of pyenv may be there without its Python.
        if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then
            "$candidate" "$root/tools/environment.py" "$profile" >&2
            return
        fi
    done
    if command -v uv >/dev/null; then # It fetches a Python where there is none.
        uv run --no-project --python 3.13 "$root/tools/environment.py" "$profile" >&2
        return
    fi
    echo "ottla: needs Python 3.11 or newer; found none of python3.13, python3.12, python3.11," \
        "python3 that is. Install one (or uv), and run this again." >&2
    exit 1
}
