# Sourced by ./setup: runs ctest and counts the results of the tests.

# suite_skipped: prints which part each skipped test lacks, or its last line, with equal reasons counted. ctest shows the output of
# failed tests only.
suite_skipped() {
    awk 'NR == FNR { if (match($0, /: [^ ]+ \.*\*\*\*Skipped/)) { split(substr($0, RSTART + 2), word, " "); skipped[word[1]] = 1 } next }
        /^[0-9]+\/[0-9]+ Testing: / { name = $3; last = "says no reason" }
        /^Output:$/ { on = 1; next }
        /^<end of output>$/ { on = 0; if (name in skipped) { count[last]++; names[last] = names[last] " " name } next }
        on && match($0, /the part .* was left out of this build|No such file or directory: .*|cannot find [^ ]*[.]so/) { last = substr($0, RSTART, RLENGTH); on = 0 }
        on && NF && !/^-+$/ { sub(/^[^ ]+: skipped: /, ""); sub(/ ?\([0-9.]+ s\)$/, ""); if (NF) last = $0 }
        END { for (why in count) print "skipped: " count[why] ": " why ":" names[why] }' "$1" "$build/Testing/Temporary/LastTest.log" 2>/dev/null | sort
}

# suite_nvdisasm: takes NVIDIA's reader of machine code (5 MB of PyPI), beside which ours is tested, unless the toolkit has it.
suite_nvdisasm() {
    local cuda wheels
    cuda=$(cuda_find) || return 0
    if [ -x "$cuda/bin/nvdisasm" ] || [ -x "$build/nvdisasm/bin/nvdisasm" ] || ! python3 -m pip --version >/dev/null 2>&1; then
        return 0
    fi
    wheels=$(mktemp -d "$log/wheels.XXXXXX")
    python3 -m pip download --quiet --no-deps --only-binary :all: --disable-pip-version-check --dest "$wheels" nvidia-cuda-nvdisasm </dev/null &&
        python3 tools/setup/unpack_wheels.py "$wheels" "$build/nvdisasm" || say "nvidia-cuda-nvdisasm cannot be had: less is compared"
    rm -rf "$wheels"
}

# suite_run [ctest options]: the last line is "N passed, N failed, N skipped", and how many did not run if ctest ended early. Returns 0
# only if ctest returned 0, all tests ran, none failed and at least one passed.
suite_run() {
    local out=$log/ctest.log status=0 total passed skipped failed rest
    total=$(ctest --test-dir "$build" -N "$@" | sed -n 's/^Total Tests: *//p')
    ctest --test-dir "$build" -j$(($(nproc) + 1)) --output-on-failure --timeout 900 --no-tests=error "$@" </dev/null 2>&1 | tee "$out"
    status=${PIPESTATUS[0]}
    # "3/20 Test #3: name ....   Passed    0.01 sec"
    passed=$(grep -cE '^ *[0-9]+/[0-9]+ Test +#[0-9]+: .* Passed +[0-9.]+ sec' "$out")
    skipped=$(grep -cE '^ *[0-9]+/[0-9]+ Test +#[0-9]+: .*\*\*\*(Skipped|Not Run \(Disabled\))' "$out")
    failed=$(($(grep -cE '^ *[0-9]+/[0-9]+ Test +#[0-9]+: .*\*\*\*' "$out") - skipped))
    rest=$((${total:-0} - passed - skipped - failed))
    if [ "$status" -ne 0 ] && [ "$failed" -eq 0 ] && [ "$rest" -le 0 ]; then
        echo "ctest ended with $status although no test failed: counted as a failure" >&2
        failed=1
    fi
    [ "$skipped" -eq 0 ] || suite_skipped "$out" | tee -a "$out"
    [ "$rest" -le 0 ] && rest= || rest=", $rest did not run: ctest was ended with $status"
    echo "$passed passed, $failed failed, $skipped skipped$rest"
    [ -z "$rest" ] && [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
}
