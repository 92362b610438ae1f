# Sourced by ./setup: runs ctest and counts what it said, test by test.

# suite_run [ctest options]: the last line is "N passed, N failed, N skipped". Status 0 only when ctest ended with 0, no
# test failed and at least one passed.
suite_run() {
    local out=$log/ctest.log status=0 total passed skipped failed
    total=$(ctest --test-dir "$build" -N "$@" | sed -n 's/^Total Tests: *//p')
    ctest --test-dir "$build" -j$(($(nproc) + 1)) --output-on-failure --timeout 900 --no-tests=error "$@" </dev/null 2>&1 | tee "$out"
    status=${PIPESTATUS[0]}
    # "3/20 Test #3: name ....   Passed    0.01 sec"; what is neither passed nor skipped has failed, also when ctest
    # ended early and never came to it.
    passed=$(grep -cE '^ *[0-9]+/[0-9]+ Test +#[0-9]+: .* Passed +[0-9.]+ sec' "$out")
    skipped=$(grep -cE '^ *[0-9]+/[0-9]+ Test +#[0-9]+: .*\*\*\*(Skipped|Not Run \(Disabled\))' "$out")
    failed=$((${total:-0} - passed - skipped))
    if [ "$status" -ne 0 ] && [ "$failed" -eq 0 ]; then
        echo "ctest ended with $status although no test failed: counted as a failure" >&2
        failed=1
    fi
    echo "$passed passed, $failed failed, $skipped skipped"
    [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
}
