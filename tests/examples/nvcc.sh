#!/bin/bash
# The examples are plain CUDA: nvcc compiles them, too. usage: nvcc.sh NVCC SOURCE_DIR; exit code 77: no nvcc here.
command -v "$1" >/dev/null || { echo "nvcc is not there; skipped"; exit 77; }
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
status=0
for source in "$2"/examples/*/*.cu; do
    "$1" -std=c++17 -Werror all-warnings -c "$source" -o "$out/object.o" || { echo "nvcc: $source failed" >&2; status=1; }
done
exit $status
