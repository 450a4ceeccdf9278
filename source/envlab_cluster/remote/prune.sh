# shellcheck shell=bash
# Removes snapshots here, beyond the newest ones, that nothing refers to. Arguments: path, how many
# to keep. Prints removed=<name> for each.

main() {
    local path keep=$2 folder used name
    path=$(absolute "$1")
    folder=$path/snapshots
    # Another launch that is being started refers to its snapshot only when its run.sh is written.
    [ -z "$(find "$path"/runs/*/claim -mmin -60 2>/dev/null)" ] || return 0
    used=$(in_use "$path") || fail "a file below $path cannot be read: no old snapshot is removed."
    find "$folder" -mindepth 1 -maxdepth 1 -type d -name '.part-*' -mmin +1440 -exec rm -rf -- {} +
    find "$folder" -mindepth 1 -maxdepth 1 -type d -printf '%T@ %f\n' | sort -rn |
        grep -E ' [0-9a-f]{16}$' | tail -n "+$((keep + 1))" | while read -r _ name; do
        ! grep -qxF -- "/snapshots/$name" <<<"$used" || continue
        # Renamed first, as what has a hash for its name is whole.
        mv -T -- "$folder/$name" "$folder/.part-$name" || continue
        rm -rf -- "$folder/.part-$name"
        printf 'removed=%s\n' "$name"
    done
}

# Prints /snapshots/<name> of each that run folders, the setup, the environment that it made (which
# has envlab installed from there), or a process refers to.
in_use() {
    local -a files
    shopt -s nullglob
    files=("$1"/runs/*/run.sh "$1"/{setup/run.sh*,venv/envlab-stamp.txt*}
        "$1"/venv/lib/python*/site-packages/_envlab.pth)
    shopt -u nullglob
    {
        [ "${#files[@]}" = 0 ] || cat -- "${files[@]}" || return 1
        cat /proc/[0-9]*/{environ,cmdline} 2>/dev/null || : # others' cannot be read
    } | tr '\0' '\n' | grep -aoE '/snapshots/[0-9a-f]{16}' | sort -u
    [ "${PIPESTATUS[0]}" = 0 ]
}

main "$@" </dev/null
