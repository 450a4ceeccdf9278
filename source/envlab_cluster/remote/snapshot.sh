# shellcheck shell=bash
# Sees to a copy of the working tree here. Arguments: look, keep or drop; path; name; unfinished name.
# drop prints how much room there is without it.

main() {
    local folder part free
    folder=$(absolute "$2")/snapshots
    part=$folder/$4
    case $1 in
        look)
            mkdir -p -- "$folder" 2>/dev/null || fail "the folder $folder cannot be made."
            if [ -d "$folder/$3" ]; then
                touch -- "$folder/$3" # the newest are not pruned
                printf 'exists=1\n'
            fi
            printf 'folder=%s\n' "$(cd -- "$folder" && pwd -P)"
            find "$folder" -mindepth 1 -maxdepth 1 -type d ! -name '.*' -printf '%T@ %f\n' |
                sort -n | tail -n 1 | sed 's/^[^ ]* /previous=/'
            ;;
        keep)
            mv -T -- "$part" "$folder/$3" 2>/dev/null || [ -d "$folder/$3" ] ||
                fail "the snapshot $folder/$3 cannot be put into place."
            rm -rf -- "$part"
            touch -- "$folder/$3"
            ;;
        drop)
            rm -rf -- "$part"
            df -PB1 -- "$folder" | tail -n 1 |
                { read -r _ _ _ free _; printf 'free_bytes=%s\n' "$free"; }
            ;;
    esac
}

main "$@" </dev/null
