# shellcheck shell=bash
# Starts a script detached from this connection, in a session of its own, and prints its process.
# Arguments: folder, name of the launch, text of the script, file to write first (empty: none), text.

main() {
    local folder token=$2 pid ticks
    folder=$(absolute "$1")
    { mkdir -p -- "$folder" && cd -- "$folder"; } 2>/dev/null ||
        fail "the folder $folder cannot be made there."
    ! runs_in . || fail "what is in $folder runs already: wait for it to end."
    rm -f -- pid exit_code
    { printf '%s' "$3" >run.sh && printf '' >log.txt &&
        { [ -z "$4" ] || printf '%s' "$5" >"$4"; }; } 2>/dev/null ||
        fail "the folder $folder cannot be written to, or its disk is full."
    ENVLAB_CLUSTER_RUN=$token setsid bash run.sh >>log.txt 2>&1 &
    pid=$!
    ticks=$(started "$pid") || ticks=0
    { printf '%s %s\n' "$pid" "$ticks" >pid; } 2>/dev/null || {
        kill "$pid"
        fail "the folder $folder cannot be written to, or its disk is full."
    }
    rm -f -- claim
    printf 'folder=%s\npid=%s\nticks=%s\n' "$folder" "$pid" "$ticks"
}

main "$@" </dev/null
