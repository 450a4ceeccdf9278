# shellcheck shell=bash
# Ends a launch here: TERM, upon which ranks save and leave; KILL to what is left after a while.
# Arguments: folder, name of the launch, seconds between TERM and KILL.

main() {
    local folder=$1 token=$2 grace=$3 pid left how=gone
    read -r pid _ 2>/dev/null <"$folder/pid"
    if runs_in "$folder"; then
        how=ended
        kill -TERM -- "-$pid" 2>/dev/null
    else
        for pid in $(processes_of "$token"); do
            how=ended
            kill -TERM "$pid" 2>/dev/null
        done
    fi
    await_none "$token" "$grace" || {
        how=killed
        kill_all "$token"
        await_none "$token" 3 || kill_all "$token"
        await_none "$token" 3
    }
    left=$(processes_of "$token" | tr '\n' ' ')
    rm -f -- "$folder/claim"
    printf 'how=%s\nleft=%s\ncode=%s\n' "$how" "$left" "$(cat -- "$folder/exit_code" 2>/dev/null)"
}

kill_all() {
    local pid
    for pid in $(processes_of "$1"); do kill -KILL "$pid" 2>/dev/null; done
}

await_none() {
    local end=$((SECONDS + $2))
    while [ -n "$(processes_of "$1")" ]; do
        [ "$SECONDS" -le "$end" ] || return 1 # whole seconds: not less than asked for
        sleep 0.2
    done
}

main "$@" </dev/null
