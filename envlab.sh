#!/usr/bin/env bash
# The one entry on a fresh machine: makes .venv on first use, then runs what follows it.
set -euo pipefail

usage() {
    cat <<'TEXT'
Usage: ./envlab.sh COMMAND [ARGUMENT...]

Makes the virtual environment .venv beside this script on first use, then runs COMMAND inside it,
in the current folder. Arguments, signals and the exit code pass through. At first .venv has what
trains; what a command or flag needs beyond that is installed when it is first used.

  ./envlab.sh envlab list           run any command of the environment
  ./envlab.sh python script.py
  ./envlab.sh setup                 only make or update the environment
  ./envlab.sh setup --all           the same, with all that commands may need later
  ./envlab.sh test                  lint, format, type and import checks, tests
  ./envlab.sh test --all            the same with the long tests
  ./envlab.sh test -k cartpole      only pytest, with these arguments
  ./envlab.sh --help

Environment variables:
  ENVLAB_PYTHON=PATH     the Python (3.11 or newer) to make the environment from
  ENVLAB_VENV=PATH       use, or make, the virtual environment at PATH instead of .venv
  ENVLAB_VENV=active     install envlab, at its pinned versions, into the virtual or conda
                         environment that is active, and use that
  ENVLAB_EXTRAS=A,B      extras of pyproject.toml to install (default: those that COMMAND needs;
                         empty: none)
TEXT
}

say() { printf 'envlab: %s\n' "$*" >&2; }
fail() { say "$*"; exit 2; }

# ---- which environment ------------------------------------------------------------------------

# Sets: venv (absolute), ours (whether envlab may make it), stamp, made_here, lock.
choose_environment() {
    ours=yes
    case "${ENVLAB_VENV:-}" in
        "") venv=$root/.venv ;;
        active)
            ours=no
            venv=${VIRTUAL_ENV:-${CONDA_PREFIX:-}}
            [ -n "$venv" ] || fail "ENVLAB_VENV=active, but no virtual or conda environment is" \
                "active: activate one, or unset ENVLAB_VENV to let envlab make its own."
            [ -x "$venv/bin/python" ] || fail "the active environment $venv has no working" \
                "bin/python: activate another one, or unset ENVLAB_VENV."
            ;;
        *)
            local parent
            parent=$(dirname -- "$ENVLAB_VENV")
            { mkdir -p -- "$parent" && parent=$(CDPATH='' cd -- "$parent" && pwd -P); } 2>/dev/null ||
                fail "ENVLAB_VENV=$ENVLAB_VENV cannot be made: name a folder you can write to."
            venv=${parent%/}/$(basename -- "$ENVLAB_VENV")
            export ENVLAB_VENV=$venv # absolute, for an envlab.sh that COMMAND runs elsewhere
            ;;
    esac
    stamp=$venv/envlab-stamp.txt # what is installed; written last
    made_here=$venv/envlab-made-this # may be removed; written first
    lock=$venv.lock
    if [ "$ours" = no ]; then lock=$venv/envlab.lock; fi
}

# Prints what a finished environment is stamped with: a line on the environment itself, one on the
# checkout that is installed in it, and one on its extras: those of the stamp, and those that the
# command line calls for by the table in pyproject.toml. Fails where the environment has no working
# Python of its own: without its pyvenv.cfg, .venv/bin/python is the system's Python, and pip would
# install there.
describe() {
    [ -x "$venv/bin/python" ] || return 1
    # -S: looking through site-packages would take another 7 ms at every start.
    "$venv/bin/python" -I -S - "$venv" "$root" "$stamp" "$command_line" 2>/dev/null <<'PYTHON'
import hashlib, os, re, sys, tomllib  # the last of which is new in Python 3.11

venv, root, stamp, command_line = sys.argv[1:]
if not os.path.exists(f"{venv}/pyvenv.cfg") and not os.path.samefile(sys.prefix, venv):
    sys.exit(1)
files = [open(f"{root}/{name}", "rb").read() for name in ("pyproject.toml", "constraints.txt")]
try:
    pyproject = tomllib.loads(files[0].decode())
except ValueError:  # pip will say so; the environment is not to blame
    pyproject = {}

if "ENVLAB_EXTRAS" in os.environ:
    wanted = set(os.environ["ENVLAB_EXTRAS"].split(","))
else:
    gpus = filter(os.path.exists, ("/dev/nvidiactl", "/dev/dxg"))  # the latter in WSL
    line = " ".join([command_line, *gpus])
    table = pyproject.get("tool", {}).get("envlab", {}).get("extras", {})
    wanted = {extra for extra, pattern in table.items() if re.search(pattern, line)}

lines = open(stamp).read().splitlines() if os.path.exists(stamp) else []
installed = set("".join(lines[2:]).strip("[]").split(","))
for name in list(installed):
    for requirement in pyproject.get("project", {}).get("optional-dependencies", {}).get(name, ()):
        if requirement.startswith("envlab["):  # an extra that stands for others
            wanted -= set(requirement[len("envlab[") : -1].split(","))

print(f"{venv} python{sys.version_info.major}.{sys.version_info.minor}")
print(root, hashlib.sha256(bytes([0]).join(files)).hexdigest())
print("[" + ",".join(sorted((installed | wanted) - {""})) + "]")
PYTHON
}

is_ready() {
    local wanted
    wanted=$(describe) && [ -f "$stamp" ] && [ "$wanted" = "$(cat -- "$stamp")" ]
}

# False where pip was killed while it wrote a package: it would take that one for installed.
has_whole_packages() {
    "$venv/bin/python" -I - <<'PYTHON'
import sys, sysconfig
from importlib.metadata import distributions

# Its own folder only, as folders that are installed in place may hold a package's old .egg-info.
found = distributions(path=[sysconfig.get_path("purelib")])
sys.exit(any(distribution.read_text("RECORD") is None for distribution in found))
PYTHON
}

# True where installing is enough; false where the environment must be made again: its Python or
# pip does not run, it was moved or copied here, or its Python is now another minor version.
can_install_into() {
    local wanted
    wanted=$(describe) || return 1
    "$venv/bin/python" -m pip --version >/dev/null 2>&1 || return 1
    [ ! -f "$made_here" ] || has_whole_packages || return 1
    [ ! -f "$stamp" ] || [ "${wanted%%$'\n'*}" = "$(head -n 1 -- "$stamp")" ]
}

# ---- making it --------------------------------------------------------------------------------

# Prints the interpreter behind a command, past version-manager shims and virtual environments.
base_python() {
    "$1" -I - 2>/dev/null <<'PYTHON'
import os, sys

print(os.path.realpath(sys._base_executable))
sys.exit(sys.version_info < (3, 11))
PYTHON
}

has_venv_module() { "$1" -I -c 'import ensurepip, venv' 2>/dev/null; }

# Sets: python.
find_python() {
    local candidate bare=""
    if [ -n "${ENVLAB_PYTHON:-}" ]; then
        python=$(base_python "$ENVLAB_PYTHON") ||
            fail "ENVLAB_PYTHON=$ENVLAB_PYTHON is not a working Python 3.11 or newer:" \
                "name another one, or unset it to search PATH."
        has_venv_module "$python" && return
        bare=$python
    else
        for candidate in python3 python3.11 python3.12 python3.13 python3.14 python; do
            python=$(base_python "$candidate") || continue
            has_venv_module "$python" && return
            bare=${bare:-$python}
        done
    fi
    [ -n "$bare" ] || fail "no Python 3.11 or newer was found on PATH: install one (Debian and" \
        "Ubuntu: apt install python3 python3-venv), or name one with ENVLAB_PYTHON=PATH."
    fail "$bare has no venv module: install it (Debian and Ubuntu: apt install" \
        "$("$bare" -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')) and run" \
        "this command again, or name another Python with ENVLAB_PYTHON=PATH."
}

make_environment() {
    local output
    [ "$ours" = yes ] || fail "envlab cannot be installed into the active environment $venv:" \
        "it needs Python 3.11 or newer with pip."
    if [ "$venv" != "$root/.venv" ] && [ ! -f "$made_here" ] &&
        [ -n "$(ls -A -- "$venv" 2>/dev/null)" ]; then
        fail "ENVLAB_VENV=$ENVLAB_VENV is neither empty nor a virtual environment with pip and" \
            "Python 3.11 or newer, and envlab removes only what it made: name another folder."
    fi
    find_python
    say "making $venv with $("$python" --version)"
    rm -rf -- "$venv"
    mkdir -- "$venv"
    : >"$made_here"
    output=$("$python" -m venv "$venv" 2>&1) || {
        printf '%s\n' "$output" | tail -n 5 >&2
        fail "$python could not make $venv (its last lines are above): check that the disk is not" \
            "full, then run this command again."
    }
}

install() {
    local log=$venv/envlab-install.log before=$stamp.before wanted target
    wanted=$(describe)
    target=.${wanted##*$'\n'}
    target=${target%"[]"}
    say "installing ${target/#./envlab} and what it needs: minutes on a fresh machine (log: $log)"
    # Away, so that an interrupted installation is not taken for a finished one.
    mv -f -- "$stamp" "$before" 2>/dev/null || rm -f -- "$before"
    # Of a time when setuptools built envlab. In $root, Python would read it before what is current.
    rm -rf -- "$root/envlab.egg-info"
    (cd -- "$root" && PIP_USER=0 "$venv/bin/python" -m pip install --disable-pip-version-check \
        -c constraints.txt -e "$target") >"$log" 2>&1 || {
        # What worked before still does: without a network, say, all that needs no further extra.
        mv -f -- "$before" "$stamp" 2>/dev/null || true
        tail -n 15 -- "$log" >&2
        fail "pip could not install $target (its last lines are above, all of them in $log):" \
            "check the network and the disk space, then run this command again to go on from here."
    }
    printf '%s\n' "$wanted" >"$stamp.part"
    mv -f -- "$stamp.part" "$stamp"
}

set_up() {
    is_ready && return
    { : >>"$lock"; } 2>/dev/null || fail "$(dirname -- "$lock") cannot be written to: set" \
        "ENVLAB_VENV=PATH to a place for the environment that can."
    exec 9>>"$lock"
    if command -v flock >/dev/null && ! flock -n 9; then
        say "waiting for another envlab.sh that is setting up $venv"
        flock 9
    fi
    if ! is_ready; then
        SECONDS=0
        local offer=no
        can_install_into || { offer=yes && make_environment; }
        install
        say "ready after $SECONDS s"
        if [ -n "${ENVLAB_EXTRAS+given}" ] || tail -n 1 -- "$stamp" | grep -qw dev; then offer=no; fi
        if [ "$offer" = yes ]; then
            say "what other commands need is installed when they are first used, or all of it now by" \
                "$0 setup --all (more than 3 GB)"
        fi
    fi
    exec 9>&-
}

# ---- using it ---------------------------------------------------------------------------------

enter() {
    export PATH="$venv/bin:$PATH"
    export ENVLAB_SH=$0 # as it was typed, for the commands that envlab suggests
    if [ -f "$venv/pyvenv.cfg" ]; then export VIRTUAL_ENV="$venv"; fi # a conda environment has none
    unset PYTHONHOME
}

# Runs every check even after one has failed, so that one run reports everything: what looks at the
# sources beside the tests, whose output comes first. $1: --all, or none.
run_all_checks() {
    local scratch others
    # Without compiled files, each of the hundreds of processes that tests start would compile envlab.
    unset PYTHONDONTWRITEBYTECODE
    scratch=$(mktemp -d)
    run_checks "$scratch/failed" "ruff check ." "ruff format --check ." mypy \
        "lint-imports --no-logo" >"$scratch/output" 2>&1 &
    others=$!
    # shellcheck disable=SC2064 # as they are now
    trap "kill $others 2>/dev/null || :; rm -rf -- '$scratch'" EXIT
    # Four workers keep two cores busy, as tests wait for processes.
    run_checks "$scratch/failed_tests" "python -m pytest -n 4 --dist loadfile \
--no-loadscope-reorder --max-worker-restart=0 --durations=10${1:+ $1}"
    wait "$others"
    cat -- "$scratch/output"
    cat -- "$scratch/failed_tests" >>"$scratch/failed"
    if [ -s "$scratch/failed" ]; then
        say "failed: $(paste -sd, "$scratch/failed" | sed 's/,/, /g')"
        exit 1
    fi
    say "all checks passed"
}

# Runs commands one after the other, and writes those that fail into the file $1.
run_checks() {
    local check failed=$1
    shift
    : >"$failed"
    for check in "$@"; do
        say "$check"
        $check || printf '%s\n' "$check" >>"$failed"
    done
}

root=$(dirname -- "$(readlink -f -- "${BASH_SOURCE[0]}")")
case "${1:-}" in
    "")
        usage >&2
        exit 2
        ;;
    -h | --help | help)
        usage
        exit 0
        ;;
    -*) fail "unknown option $1: the first argument is a command to run; see ./envlab.sh --help." ;;
    setup)
        [ "${*:2}" = "" ] || [ "${*:2}" = --all ] ||
            fail "setup does not take '${*:2}', but only --all, for all that commands may need later."
        ;;
esac

command_line=$*
choose_environment
set_up
enter
case "$1" in
    setup) ;;
    test)
        shift
        cd -- "$root"
        if [ $# -gt 0 ] && [ "$*" != --all ]; then exec python -m pytest "$@"; fi
        run_all_checks "$@"
        ;;
    *) exec "$@" ;;
esac
