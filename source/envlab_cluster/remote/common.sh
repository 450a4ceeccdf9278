# shellcheck shell=bash
# What the other scripts here begin with. All of them come over ssh's standard input, so that no
# word passes through a second shell, and find their arguments in "$@".

fail() {
    printf '%s\n' "$*" >&2
    exit 3
}

# Prints a path as an absolute one: ~/ and relative ones are below the home folder.
absolute() {
    case $1 in
        \~) printf '%s\n' "$HOME" ;;
        \~/*) printf '%s/%s\n' "$HOME" "${1#\~/}" ;;
        /*) printf '%s\n' "$1" ;;
        *) printf '%s/%s\n' "$HOME" "$1" ;;
    esac
}

# Prints when process $1 started, in clock ticks since boot; fails if it has ended.
started() {
    local stat fields
    { stat=$(<"/proc/$1/stat"); } 2>/dev/null || return 1
    read -r -a fields <<<"${stat##*) }"
    [ "${fields[0]}" != Z ] && printf '%s\n' "${fields[19]}"
}

# Whether the process that the file $1/pid names (its number, when it started) still runs.
runs_in() {
    local pid ticks
    read -r pid ticks 2>/dev/null <"$1/pid" && [ "$(started "$pid")" = "$ticks" ]
}

# Prints the processes of launch $1: each bears its name in its environment.
processes_of() {
    local path
    grep -lzsxF -- "ENVLAB_CLUSTER_RUN=$1" /proc/[0-9]*/environ | while IFS=/ read -r _ _ path _; do
        started "$path" >/dev/null && printf '%s\n' "$path"
    done
}

# What comes before this line may be the greeting of a login shell.
printf '\n--envlab--\n'
