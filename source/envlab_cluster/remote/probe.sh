# shellcheck shell=bash
# Looks whether a launch can start here, and claims its folder. Prints lines of key=value.
# Arguments: path, environment's activation script (empty: what setup makes), run, free MB needed,
# port (empty: any free one), 1 to start beside another run, the Python part,
# packages.

main() {
    local path activate=$2 run=$3 need_mb=$4 port=$5 beside=$6 python=$7 tool free_mb
    path=$(absolute "$1")
    for tool in setsid rsync grep tail df; do
        command -v "$tool" >/dev/null || fail "has no $tool, which envlab needs there: install" \
            "it (Debian, Ubuntu: apt install util-linux rsync grep coreutils)."
    done
    mkdir -p -- "$path/runs" "$path/snapshots" 2>/dev/null ||
        fail "the folder $path cannot be made: name one that may be written to by --envlab_path."
    { printf '*\n' >"$path/runs/.gitignore" && printf '*\n' >"$path/snapshots/.gitignore"; } 2>/dev/null ||
        fail "the folder $path cannot be written to, or its disk is full: make room, or name" \
            "another one by --envlab_path."
    path=$(cd -- "$path" && pwd -P)
    free_mb=$(df -Pm -- "$path" | tail -n 1 | { read -r _ _ _ free _; printf '%s' "$free"; })
    [ "$free_mb" -ge "$need_mb" ] ||
        fail "only $free_mb MB are free at $path, but $need_mb are needed: make room, or name" \
            "another disk by --envlab_path, or ask for less by --min_free_mb."
    check_others "$path" "$run" "$beside"
    activate=$(absolute "${activate:-$path/venv/bin/activate}")
    [ -f "$activate" ] || fail "has no Python environment at $activate: make it by envlab" \
        "cluster setup, or name another one's script by --env_activate_path."
    # shellcheck disable=SC1090
    . "$activate" >/dev/null || fail "the script $activate fails: see that it works there."
    command -v python >/dev/null || fail "$activate gives no python: name another script by" \
        "--env_activate_path."
    printf 'path=%s\nactivate=%s\nconnection=%s\n' "$path" "$activate" "${SSH_CONNECTION:-}"
    printf 'gpus=%s\n' "$(nvidia-smi -L 2>/dev/null | grep -c '^GPU')"
    python -c "$python" "$port" "${@:8}" || fail "python there ($(command -v python)) cannot be asked for" \
        "its packages: see that it is Python 3.11 or newer."
}

# Refuses where another launch runs or is being started below this path, and claims a place. A claim
# holds for longer than code may take to be sent.
check_others() {
    local path=$1 run=$2 beside=$3 other
    # Of two names of one machine, which ask at the same time, mkdir lets one pass.
    mkdir -- "$path/runs/$run" 2>/dev/null || {
        [ ! -e "$path/runs/$run" ] || fail "the folder $path is another host's, too: name each" \
            "machine once, and where they share a file system, give each a path of its own in" \
            "hosts.yaml."
        fail "the folder $path/runs/$run cannot be made."
    }
    { : >"$path/runs/$run/claim"; } 2>/dev/null || {
        rmdir -- "$path/runs/$run"
        fail "the folder $path/runs/$run cannot be written to, or its disk is full."
    }
    [ "$beside" = 1 ] && return
    for other in "$path"/runs/*/; do
        other=${other%/}
        [ "${other##*/}" = "$run" ] && continue
        if runs_in "$other" || [ -n "$(find "$other/claim" -mmin -15 2>/dev/null)" ]; then
            rm -rf -- "${path:?}/runs/$run"
            fail "the run ${other##*/} already exists: wait for it, stop it by envlab cluster" \
                "kill --run ${other##*/} (with --runs_on, if it was not launched by you here), or" \
                "start beside it by --beside_others."
        fi
    done
}

main "$@" </dev/null
