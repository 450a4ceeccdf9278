# shellcheck shell=bash
# Prints a log as it grows, until what writes it has ended. Arguments: folder, bytes to leave out.

main() {
    local pid
    read -r pid _ <"$1/pid" || fail "nothing was started in $1."
    tail -c "+$(($2 + 1))" -s 0.2 --pid="$pid" -f -- "$1/log.txt"
}

main "$@" </dev/null
