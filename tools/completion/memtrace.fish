# fish: completes commands of memtrace, options, and values of options, as the programs list them; else files.
set -l tool (status basename | string replace -r '\.fish$' '')
# Prints what lists the options: the program, or memtrace with its command.
function __memtrace_tool
    set -l words (commandline -opc)
    test (basename $words[1]) = memtrace; and echo -- $words[1]\n$words[2]; or echo -- $words[1]
end
function __memtrace_values
    set -l word (commandline -ct)
    set -l words (commandline -opc)
    set -l option ''
    set -l begun ''
    if string match -q -- '--*=*' $word
        set option (string replace -r '=.*' '' -- $word)
        set begun $option=
    else if test (count $words) -gt 1
        set option $words[-1]
        string match -q -- '-*' $option; or return 1
    end
    string match -q -- '*,*' $word; and set begun (string replace -r '[^,]*$' '' -- $word)
    set -l tool (__memtrace_tool)
    set -l values ($tool --completion-values "$option" 2>/dev/null)
    test (count $values) -gt 0; and printf '%s\n' $begun$values
end
if test $tool = memtrace
    complete -c memtrace -n 'test (count (commandline -opc)) -eq 1' -f -a '(memtrace --completion-options 2>/dev/null)'
end
complete -c $tool -n 'string match -q -- "-*" (commandline -ct)' -a '(eval (string escape -- (__memtrace_tool)) --completion-options 2>/dev/null)'
complete -c $tool -n '__memtrace_values >/dev/null' -f -a '(__memtrace_values)'
