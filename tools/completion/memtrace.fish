# fish: options of the mt- programs, as each of them lists its own; else files.
set -l tool (status basename | string replace -r '\.fish$' '')
complete -c $tool -n 'string match -q -- "-*" (commandline -ct)' -a "($tool --completion-options 2>/dev/null)"
