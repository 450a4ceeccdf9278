# shellcheck shell=bash
# Tells how a script that start.sh started does, and how its log ends. Arguments: its folder.

main() {
    if runs_in "$1"; then printf 'alive=1\n'; else printf 'alive=0\n'; fi
    printf 'code=%s\n' "$(cat -- "$1/exit_code" 2>/dev/null)"
    printf 'last=%s\nlog=\n' "$(tail -n 1 -- "$1/log.txt" | tr -d '\r' | cut -c 1-300)"
    tail -n 8 -- "$1/log.txt"
}

main "$@" </dev/null
