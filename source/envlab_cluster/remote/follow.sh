# shellcheck shell=bash
# Prints a log as it grows, until what writes it has ended. Arguments: folder, bytes to leave out.

main() {
    local pid
    local -a grow=()
    read -r pid _ <"$1/pid" || fail "nothing was started in $1."
    # By now another process may have the number of one that has ended.
    if runs_in "$1"; then grow=(-s 0.2 --pid="$pid" -f); fi
    tail -c "+$(($2 + 1))" "${grow[@]}" -- "$1/log.txt"
}

main "$@" </dev/null
