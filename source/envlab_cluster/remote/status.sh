# shellcheck shell=bash
# Tells how a launch does here. Arguments: path, folder of the run, its name, the run's --run_id.
# Prints key=value lines, rank lines (process, rank, /proc's numbers twice, a while apart), and files.

main() {
    local path=$1 folder=$2 token=$3 run_id=$4 pid
    if runs_in "$folder"; then printf 'alive=1\n'; else printf 'alive=0\n'; fi
    printf 'code=%s\n' "$(cat -- "$folder/exit_code" 2>/dev/null)"
    printf 'hertz=%s\npage_kb=%s\n' "$(getconf CLK_TCK)" "$(($(getconf PAGESIZE) / 1024))"
    printf 'last=%s\n' "$(tail -n 1 -- "$folder/log.txt" 2>/dev/null | tr -d '\r' | cut -c 1-300)"
    local -a processes
    mapfile -t processes < <(processes_of "$token")
    show_processes
    sleep 0.5
    show_processes
    nvidia-smi --query-gpu=index,utilization.gpu,memory.used,memory.total \
        --format=csv,noheader,nounits 2>/dev/null | sed -n '/^[0-9]*, .*, .*, /s/^/gpu=/p'
    show_last_lines "$folder"
    show_run "$path" "$run_id"
}

show_processes() {
    local now rank stat
    now=$(date +%s.%N)
    for pid in "${processes[@]}"; do
        rank=$(grep -zasx 'RANK=[0-9]*' "/proc/$pid/environ" | tr -d '\0')
        { stat=$(<"/proc/$pid/stat"); } 2>/dev/null || continue
        printf 'process=%s %s %s %s\n' "$now" "$pid" "${rank#RANK=}" "${stat##*) }"
    done
}

# torchrun keeps what each process printed in ranks/<launch>/attempt_<n>/<local rank>/; the last
# attempt comes last.
show_last_lines() {
    local file
    printf '%s\0' "$1"/ranks/*/attempt_*/*/stderr.log | sort -zV | while IFS= read -r -d '' file; do
        [ -f "$file" ] || continue
        printf 'line=%s %s\n' "$(basename -- "$(dirname -- "$file")")" \
            "$(cat -- "${file%stderr.log}stdout.log" "$file" 2>/dev/null | tail -n 1 | tr -d '\r' |
                cut -c 1-300)"
    done
}

show_run() {
    local manifest newest=""
    for manifest in "$1"/logs/*/*/*/run.json; do
        [ -f "$manifest" ] || continue
        grep -qF -- "\"name\": \"$2\"" "$manifest" || continue
        if [ -z "$newest" ] || [ "$manifest" -nt "$newest" ]; then newest=$manifest; fi
    done
    [ -n "$newest" ] || return 0
    newest=$(dirname -- "$newest")
    printf 'run=%s\n' "$newest"
    printf 'manifest=%s\n' "$(tr -d '\n' <"$newest/run.json")"
    printf 'metrics=%s\n' "$(tail -n 1 -- "$newest/metrics.jsonl" 2>/dev/null)"
    printf 'heartbeats=%s\n' "$(tr -d '\n' 2>/dev/null <"$newest/heartbeats.json")"
}

main "$@" </dev/null
