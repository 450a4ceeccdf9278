# shellcheck shell=bash
# Waits until torchrun has started its processes here: all nodes have met then.
# Arguments: folder of the run, seconds to wait.

main() {
    local folder=$1 end=$((SECONDS + $2))
    cd -- "$folder" || fail "the folder $folder is gone."
    while [ "$SECONDS" -le "$end" ]; do
        if compgen -G "ranks/*/attempt_0/*" >/dev/null; then
            printf 'state=started\n'
            return
        fi
        if ! runs_in "$folder"; then
            printf 'state=ended\ncode=%s\nlog=\n' "$(cat -- "$folder/exit_code" 2>/dev/null)"
            tail -n 5 -- "$folder/log.txt"
            return
        fi
        sleep 0.2
    done
    printf 'state=waiting\nlog=\n'
    tail -n 5 -- "$folder/log.txt"
}

main "$@" </dev/null
