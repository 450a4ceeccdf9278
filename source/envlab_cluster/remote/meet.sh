# shellcheck shell=bash
# Sees that this node reaches the rendezvous, or that the others reach it here.
# Arguments: activation script, address, port, others to wait for (0: connect), the Python part.

main() {
    # shellcheck disable=SC1090
    . "$1" >/dev/null || fail "the script $1 fails: see that it works there."
    python -c "$5" "$2" "$3" "$4" || exit 3
}

main "$@" </dev/null
