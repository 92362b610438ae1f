#!/bin/sh
# The runtime's unit tests once more, with AddressSanitizer and UndefinedBehaviorSanitizer, in a build folder of their own.
# usage: sanitized.sh SOURCE FOLDER GENERATOR CUDA CC CXX LAUNCHER
set -e
unset MAKEFLAGS
cmake -S "$1" -B "$2" -G "$3" -DCMAKE_BUILD_TYPE=Debug -DMEMTRACE_SANITIZE=address,undefined \
    "-DMEMTRACE_PARTS=runtime;tests" -DMEMTRACE_TESTS=runtime -DMEMTRACE_CUDA="$4" -DCMAKE_C_COMPILER="$5" \
    -DCMAKE_CXX_COMPILER="$6" -DCMAKE_C_COMPILER_LAUNCHER="$7" >"$2.log" 2>&1 || { cat "$2.log"; exit 1; }
cmake --build "$2" --parallel 2 --target sanitized_tests >"$2.log" 2>&1 || { tail -40 "$2.log"; exit 1; }
cd "$2"
# Not fork: the sanitizer's own allocator keeps in the child the locks that other threads had.
ctest --output-on-failure -R '^runtime\.(sink|fd|binary|source_name|companion|arena|memory|stream|queue|pool|ipc)$' >"$2.log" 2>&1 ||
    { sed 's/^/| /' "$2.log"; exit 1; } # lines of this ctest are not to be counted as the suite's
