# shellcheck shell=bash
# Makes the folder of a host, and the one of its setup. Arguments: path.

main() {
    local path
    path=$(absolute "$1")
    mkdir -p -- "$path/setup" "$path/snapshots" 2>/dev/null ||
        fail "the folder $path cannot be made: name one that may be written to by --envlab_path."
    { printf '*\n' >"$path/setup/.gitignore" && printf '*\n' >"$path/snapshots/.gitignore"; } \
        2>/dev/null || fail "the folder $path cannot be written to, or its disk is full."
    path=$(cd -- "$path" && pwd -P)
    ! runs_in "$path/setup" || fail "a setup runs there already: wait for it to end."
    printf 'path=%s\nfolder=%s\n' "$path" "$path/setup"
}

main "$@" </dev/null
