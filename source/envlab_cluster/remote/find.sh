# shellcheck shell=bash
# Finds launches that run here, by their folders. Arguments: path.
# Prints found=<run>/<node> for each, by which its processes are known.

main() {
    local path file token
    path=$(absolute "$1")
    printf 'path=%s\n' "$path"
    for file in "$path"/runs/*/run.sh; do
        token=$(grep -m 1 '^export ENVLAB_CLUSTER_RUN=' -- "$file" 2>/dev/null)
        token=${token#*=}
        [ -z "$token" ] || [ -z "$(processes_of "$token")" ] || printf 'found=%s\n' "$token"
    done
}

main "$@" </dev/null
