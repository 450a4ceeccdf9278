# shellcheck shell=bash
# Runs a command in the home folder. Arguments: path, the command, seconds it may take.

main() {
    ENVLAB_PATH=$(absolute "$1")
    export ENVLAB_PATH
    cd || exit 3
    exec timeout -k 2 "$3" bash -c "$2" 2>&1
}

main "$@" </dev/null
