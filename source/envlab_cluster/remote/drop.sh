# shellcheck shell=bash
# Gives up the place of a launch that was not started. Arguments: path, run.

main() {
    local folder
    folder=$(absolute "$1")/runs/$2
    if [ -f "$folder/claim" ] && [ ! -f "$folder/pid" ]; then rm -rf -- "$folder"; fi
}

main "$@" </dev/null
