# bash: options of the mt- programs, as each of them lists its own; after a word, files. mt-run and mt-host: the
# program's words are completed as files.
_memtrace() {
    local word=${COMP_WORDS[COMP_CWORD]}
    COMPREPLY=()
    [[ $word == -* ]] || return
    mapfile -t COMPREPLY < <(compgen -W "$("$1" --completion-options 2>/dev/null)" -- "$word")
    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *= ]] && compopt -o nospace
}
complete -o default -F _memtrace mt-cc mt-compare mt-convert mt-dump mt-env mt-extract mt-graph mt-host mt-merge mt-ptx \
    mt-report mt-run mt-shared
