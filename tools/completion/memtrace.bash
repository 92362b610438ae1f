# bash: completes commands of memtrace, options, and values of options, as the programs list them; else files.
# memtrace run and memtrace host: the program's words are completed as files.
_memtrace() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} option= begun= values
    COMPREPLY=()
    local tool=("$1") first=1
    if [[ ${1##*/} == memtrace ]]; then
        if ((COMP_CWORD == 1)); then
            mapfile -t COMPREPLY < <(compgen -W "$("$1" --completion-options 2>/dev/null)" -- "$word")
            return
        fi
        tool+=("${COMP_WORDS[1]}") first=2
    fi
    if [[ $word == = ]]; then # --format=: "=" is a word of its own
        option=$before word=
    elif [[ $before == = ]]; then
        option=${COMP_WORDS[COMP_CWORD - 2]}
    elif [[ $word == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$("${tool[@]}" --completion-options 2>/dev/null)" -- "$word")
        [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace
        return
    elif [[ $before == -* ]]; then
        option=$before
    elif ((COMP_CWORD > first)); then
        return
    fi
    values=$("${tool[@]}" --completion-values "$option" 2>/dev/null)
    [[ $values && $word == *,* ]] && begun=${word%,*},
    [[ $values ]] && mapfile -t COMPREPLY < <(compgen -P "$begun" -W "$values" -- "${word##*,}")
}
complete -o default -F _memtrace memtrace mt-cc mt-compare mt-convert mt-dump mt-env mt-extract mt-graph mt-host \
    mt-report mt-run
