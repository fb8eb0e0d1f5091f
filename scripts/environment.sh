# Sourced by the other scripts: a virtual environment in .venv, made when it is missing.
# Usage: ensure_environment EXTRAS      (for instance "dev,jax"); leaves $python set.

ensure_environment() {
    local extras="$1" base="${PYTHON:-python3}"
    if ! "$base" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        echo "error: Python 3.11 or newer is needed; set PYTHON=/path/to/python3.11" >&2
        return 2
    fi
    [ -x .venv/bin/python ] || "$base" -m venv .venv || return 2
    python="$PWD/.venv/bin/python"
    local wanted stamp=".venv/nki-hlo-extras"
    local commands="scripts/packaging/vendor-commands"
    wanted="$extras $(cat pyproject.toml "$commands/pyproject.toml" | cksum)"
    if [ "$(cat "$stamp" 2>/dev/null)" != "$wanted" ]; then
        echo "installing nki-hlo[$extras] into .venv (takes a minute or more)" >&2
        # One after the other: pip 23 does not see that the first fulfils what the second needs.
        local install=("$python" -m pip install --quiet --disable-pip-version-check)
        "${install[@]}" -e ".[$extras]" || return 3
        install_vendor_commands "$python" || return 3
        echo "$wanted" > "$stamp"
    fi
}

# Usage: install_vendor_commands PYTHON
# The distribution was called vendor-commands: that goes first, because pip removes the commands
# with either of two distributions that own them.
install_vendor_commands() {
    local pip=("$1" -m pip --disable-pip-version-check)
    "${pip[@]}" uninstall -qq --yes vendor-commands || return
    "${pip[@]}" install --quiet --no-deps ./scripts/packaging/vendor-commands
}
