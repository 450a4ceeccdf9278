# The steps of a proof on GPUs, for the scripts beside it: each runs, at most so long, and is noted in a report.
# . steps.sh FOLDER; needs: folder_from, device, limit (in s, of all steps). Sets: folder, report, python, failed.
# shellcheck shell=bash disable=SC2154,SC2034
folder=$(cd "$folder_from" && realpath -m "$1")
mkdir -p "$folder" || exit 1
python=${PYTHON:-python}
export PYTHONPATH=$PWD:$PWD/source${PYTHONPATH:+:$PYTHONPATH}
report=$folder/report.md
failed=0 number=0

# step SECONDS NAME COMMAND...: run it, at most so long and within the limit; note how it went.
step() {
    local seconds=$1 name=$2 left=$((limit - SECONDS)) start=$SECONDS code output
    shift 2
    number=$((number + 1))
    output=$folder/$(printf %02d "$number")-$name.txt
    printf '%s: ' "$name"
    [ "$left" -gt 10 ] || left=10
    (cd "$folder" && timeout -k 10 $((seconds < left ? seconds : left)) "$@") >"$output" 2>&1
    code=$?
    case $code in
    0) verdict=passed ;;
    124 | 137) verdict="stopped by its time limit" ;;
    *) verdict="failed with $code" ;;
    esac
    [ $code = 0 ] || failed=1
    echo "$verdict, $((SECONDS - start)) s"
    {
        printf '## %s: %s, %d s\n\n    %s\n\n```\n' "$name" "$verdict" $((SECONDS - start)) "$*"
        tail -n 30 "$output"
        printf '```\n\n'
    } >>"$report"
}

{
    printf '# envlab on %s, %s\n\n```\n' "$device" "$(date -u +%FT%TZ)"
    echo "commit $(git rev-parse HEAD 2>/dev/null || echo unknown)"
    nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader 2>&1 || true
    "$python" -m pip list 2>/dev/null | grep -iE '^(torch|mujoco|mujoco-warp|warp-lang|rsl-rl-lib|rl-games|skrl) '
    printf '```\n\n'
} >"$report"
