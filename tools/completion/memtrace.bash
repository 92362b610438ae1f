# bash: options of the mt- programs, and the words that an option's value can be, as each of them lists its own; else files.
# mt-run and mt-host: the program's words are completed as files.
_memtrace() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} option= begun= values
    COMPREPLY=()
    if [[ $word == = ]]; then # --format=: "=" is a word of its own
        option=$before word=
    elif [[ $before == = ]]; then
        option=${COMP_WORDS[COMP_CWORD - 2]}
    elif [[ $word == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$("$1" --completion-options 2>/dev/null)" -- "$word")
        [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace
        return
    elif [[ $before == -* ]]; then
        option=$before
    elif ((COMP_CWORD > 1)); then
        return
    fi
    values=$("$1" --completion-values "$option" 2>/dev/null)
    [[ $values && $word == *,* ]] && begun=${word%,*},
    [[ $values ]] && mapfile -t COMPREPLY < <(compgen -P "$begun" -W "$values" -- "${word##*,}")
}
complete -o default -F _memtrace mt-cc mt-compare mt-convert mt-dump mt-env mt-extract mt-graph mt-host mt-merge mt-ptx \
    mt-report mt-run mt-shared
