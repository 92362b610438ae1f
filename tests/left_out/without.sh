#!/bin/sh
# The project without one of its parts: a copy of the tree, the part's folder removed, is built, and what is left of the tests runs, but
# for those of the text, which names the part (style, docs).
# usage: without.sh PART FOLDER SOURCE OUT CUDA
set -e
unset MAKEFLAGS
rm -rf "$4"
mkdir -p "$4/tree"
(cd "$3" && git ls-files -z | tar c --null -T - 2>/dev/null) | tar x -C "$4/tree"
rm -r "$4/tree/$2"
cmake -S "$4/tree" -B "$4/build" -G Ninja -DMEMTRACE_CUDA="$5" >"$4/log" 2>&1 || { cat "$4/log"; exit 1; }
cmake --build "$4/build" >"$4/log" 2>&1 || { grep -E "error|FAILED|undefined" "$4/log" | head -40; exit 1; }
ctest --test-dir "$4/build" -j2 -E "^(style|docs|fuzz|conformance|vectors|tools)" --output-on-failure >"$4/log" 2>&1 ||
    { sed 's/^/| /' "$4/log" | tail -100; exit 1; } # lines of this ctest are not to be counted as the suite's
rm -rf "$4"
