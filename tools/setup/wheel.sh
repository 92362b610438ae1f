# Sourced by ./setup: makes a wheel for pip from the build.

# wheel_make [FOLDER]: makes it in build/wheel, or in FOLDER.
wheel_make() {
    grep -q '^MEMTRACE_LLD:FILEPATH=/' "$build/CMakeCache.txt" || fail "a wheel needs LLD as a library: apt-get install liblld-19-dev"
    command -v patchelf >/dev/null || fail "a wheel needs patchelf: apt-get install patchelf"
    ninja -C "$build" mt-ptx-whole </dev/null >"$log/wheel.log" 2>&1 || {
        tail -n 15 "$log/wheel.log" >&2
        fail "mt-ptx with LLVM in it cannot be built"
    }
    local made
    made=$(python3 -B tools/wheel/make_wheel.py "$build" "${1:-$build/wheel}") || fail "no wheel was made"
    say "$made"
}
