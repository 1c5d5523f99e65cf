# Bash completion of weir: asks the program what could stand at the cursor.

_weir() {
    local line=${COMP_LINE:0:COMP_POINT} words=() cur line_of candidate
    local IFS=$' \t\n'

    # Bash cuts words at : and = too; weir's words end at blanks.
    read -ra words <<<"$line"
    [[ $line == *[[:blank:]] ]] && words+=('')
    cur=${words[-1]}
    # What bash calls the current word, which it replaces, begins behind the last of those.
    local breaks=${COMP_WORDBREAKS//[^:=]/} kept=
    [[ -n $breaks && $cur == *["$breaks"]* ]] && kept=${cur%"${cur##*["$breaks"]}"}

    COMPREPLY=()
    while IFS= read -r line_of; do
        candidate=${line_of%%$'\t'*}
        case $candidate in
        :files) mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- "${cur##*=}") ;;
        :dirs) mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -d -- "${cur##*=}") ;;
        *)
            # Behind --option= the program offers the value alone.
            [[ $cur == --*=* ]] && candidate=${cur%%=*}=$candidate
            COMPREPLY+=("${candidate#"$kept"}")
            ;;
        esac
    done < <("${words[0]}" __complete "${words[@]:1}" 2>/dev/null </dev/null)
    # Something is to follow: no blank behind it.
    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace 2>/dev/null
    return 0
}

complete -o filenames -F _weir weir
