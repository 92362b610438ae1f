#!/bin/bash
# The project without one of its parts: a copy of the tree, the part's folder removed, is built, and what is left of the tests runs, but
# for those of the text, which names the part (style, docs), and those that take long and ask for no part. Says how many ran.
# usage: without.sh FOLDER SOURCE OUT CUDA
set -e
unset MAKEFLAGS
rm -rf "$3"
mkdir -p "$3/tree"
(cd "$2" && git ls-files -z | tar c --null -T - 2>/dev/null) | tar x -C "$3/tree"
rm -r "$3/tree/$1"
status= source_dir=$3/tree build=$3/build log=$3
cmake -S "$source_dir" -B "$build" -G Ninja -DMEMTRACE_CUDA="$4" >"$log/log" 2>&1 || { cat "$log/log"; exit 1; }
cmake --build "$build" >"$log/log" 2>&1 || { grep -E "error|FAILED|undefined" "$log/log" | head -40; exit 1; }
for command in report convert host; do # each is there, or says why not and how it comes back
    "$build/bin/memtrace" $command --help >/dev/null 2>"$log/log" ||
        grep "the part .* was left out of this build; cmake -UMEMTRACE_PARTS" "$log/log" || { cat "$log/log"; exit 1; }
done
. "$source_dir/tools/setup/suite.sh"
suite_run -E "^(style|docs|fuzz|conformance|vectors)" >"$log/log" || status=1
# Lines of this ctest are not to be counted as the suite's.
{ grep "^skipped: " "$log/log"; tail -1 "$log/log"; [ -z "$status" ] || tail -100 "$log/log"; } | sed 's/^/| /'
[ -z "$status" ] && rm -rf "$3"
