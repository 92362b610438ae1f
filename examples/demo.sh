#!/bin/bash
# Compiles every example with mt-cc, runs it on the CPU device, extracts the communication, draws pictures and pages.
# usage: demo.sh BUILD_DIR OUT_DIR     (BUILD_DIR has bin/mt-cc; OUT_DIR is made and its old results are replaced)
set -euo pipefail
[ $# -eq 2 ] || { sed -n '3s/^# //p' "$0" >&2; exit 2; }
build=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
here=$(dirname "$(realpath "$0")")
examples="vector_add matrix_multiply stencil_1d stencil_2d reduction histogram producer_consumer device_calls templated memcpy_forms halo_exchange"
export PYTHONDONTWRITEBYTECODE=1

# The page comes from a second run with a compact trace, which tells lines and lanes, too.
report() { # folder, program and its arguments
    mkdir -p "$1/compact"
    env -u MEMTRACE_PATTERN -u MEMTRACE_ENABLE MEMTRACE_FORMAT=compact MEMTRACE_DIR="$1/compact" MEMTRACE_DEVICE=cpu \
        "${@:2}" && "$build/bin/mt-report" $links "$1"/compact/MemTrace-pipe-* -o "$1/report.html"
}

# One example: compile, run, extract. Words of a step that fails are shown.
one() {
    name=$1 folder=$out/$1
    rm -rf "$folder"
    mkdir -p "$folder"
    arguments= links= sections=KCV,KDV,CCV,CDV,SCV,SDV,transfers,senders,addresses
    case $name in
    stencil_1d) arguments="5 64 4" ;;
    producer_consumer) arguments="4 64 2" ;;
    halo_exchange) export MEMTRACE_CPU_DEVICES=4 links=--topology=dgx-1 ;;
    # 4 million records: without the list of every operation on every address.
    matrix_multiply) sections=KCV,KDV,CCV,CDV,SCV,SDV,transfers,senders ;;
    esac
    if ! { "$build/bin/mt-cc" -O2 "$here/$name/$name.cu" -o "$folder/$name" &&
        env -u MEMTRACE_PATTERN -u MEMTRACE_ENABLE MEMTRACE_DIR="$folder" MEMTRACE_DEVICE=cpu \
            "$folder/$name" $arguments &&
        "$build/bin/mt-extract" --sections $sections "$folder"/MemTrace-pipe-? >"$folder/comm.json" &&
        { [ ! -x "$build/bin/mt-report" ] || report "$folder" "$folder/$name" $arguments; }; } >"$folder/log.txt" 2>&1; then
        echo "demo: $name failed:" >&2
        cat "$folder/log.txt" >&2
        return 1
    fi
    echo "  $name"
}
# The tutorial's program before and after, with shared memory: a page of the first, and one of the two side by side.
tutorial() {
    folder=$out/tutorial
    rm -rf "$folder"
    mkdir -p "$folder/before" "$folder/after"
    for way in before after; do
        flag=; [ $way = before ] || flag=-DFIXED
        "$build/bin/mt-cc" -O2 --mt-spaces=global,shared $flag "$here/../docs/tutorial/heat.cu" -o "$folder/$way/heat" &&
            env -u MEMTRACE_PATTERN -u MEMTRACE_ENABLE MEMTRACE_FORMAT=compact MEMTRACE_DIR="$folder/$way" MEMTRACE_DEVICE=cpu \
                "$folder/$way/heat" || return 1
    done &&
        cd "$folder" && "$build/bin/mt-report" before -o report.html &&
        "$build/bin/mt-report" --title "Heat in a plate" before -- after -o both.html
}
pictures=
draw() { # engine, DOT file
    for kind in svg png; do
        "$1" ${3:-} -T$kind "$2" -o "${2%.dot}.$kind"
    done
    pictures+="  ${2%.dot}.svg (.png, .dot)"$'\n'
}
strides() {
    "$build/bin/mt-graph" "$out/$1/MemTrace-pipe-0" >"$out/$1/strides.dot"
    draw dot "$out/$1/strides.dot"
}
export -f one report
export build out here
echo "Compiling, running and extracting $(echo $examples | wc -w) examples …"
one vector_add
if command -v dot >/dev/null; then
    strides vector_add
    echo "The first picture: $out/vector_add/strides.svg"
fi
printf '%s\n' ${examples#vector_add } | xargs -P "$(nproc)" -I{} bash -c 'one "$1"' one {}

printf '\n%-18s %8s %10s  %-38s %s\n%39s  %12s %12s %12s\n' example launches records "communication, bytes, by" files "" "same launch" "earlier l." "same CTA"
for name in $examples; do
    python3 "$here/summary.py" "$name" "$out/$name"
done

if command -v dot >/dev/null; then
    strides stencil_1d
    strides stencil_2d
    for name in stencil_1d producer_consumer; do
        python3 "$here/transfers.py" "$out/$name/comm.json" >"$out/$name/transfers.dot"
        draw neato "$out/$name/transfers.dot" -n2
    done
else
    echo "demo: Graphviz (dot) is not installed; no pictures" >&2
fi
if [ -x "$build/bin/mt-report" ]; then
    (tutorial) >"$out/tutorial.log" 2>&1 || { echo "demo: the tutorial's program failed:" >&2; cat "$out/tutorial.log" >&2; exit 1; }
    reports="Reports, to be opened in a browser:
$(for name in $examples; do echo "  $out/$name/report.html"; done)
  $out/tutorial/report.html (docs/tutorial.md, with shared memory)
  $out/tutorial/both.html (before and after)
"
else
    reports=
    echo "demo: memtrace report was not built (node-d3 is missing); no reports" >&2
fi
cat <<END

A loaded byte is communication if its last writer is another CTA of the same launch or any CTA of an earlier launch.

Stride graphs (which buffer is walked in which steps) and transfers (who sends which bytes to whom):
$pictures
$reports
Each folder in $out holds the program, MemTrace-pipe-N with its companion MemTrace-pipe-N.meta, and comm.json:
  jq '.transfers | keys' $out/stencil_1d/comm.json
  $build/bin/memtrace dump $out/stencil_1d/MemTrace-pipe-0 | less
END
