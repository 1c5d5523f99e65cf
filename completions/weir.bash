# Bash completion of weir. Commands and options are asked of `weir --help`, so
# that they are always those of the program that is there.

_weir_commands() {
    "$1" --help 2>/dev/null </dev/null | awk '/^commands/ { on = 1; next } /^$/ { on = 0 } on { print $1 }'
}

_weir_options() {
    "$@" --help 2>/dev/null </dev/null | grep -oE -- '--[a-z][a-z-]*' | sort -u
}

_weir() {
    local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
    local weir=${COMP_WORDS[0]} command=${COMP_WORDS[1]}

    COMPREPLY=()
    if ((COMP_CWORD == 1)); then
        mapfile -t COMPREPLY < <(compgen -W "$(_weir_commands "$weir") --help --version" -- "$cur")
    elif [[ $prev == --device ]]; then
        mapfile -t COMPREPLY < <(compgen -W 'cpu cuda npu:a2 npu:a3' -- "$cur")
    elif [[ $prev == --policy ]]; then
        mapfile -t COMPREPLY < <(compgen -W 'hold batch both' -- "$cur")
    elif [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_weir_options "$weir" "$command") --help" -- "$cur")
    else
        mapfile -t COMPREPLY < <(compgen -f -- "$cur")
    fi
}

complete -o filenames -F _weir weir
