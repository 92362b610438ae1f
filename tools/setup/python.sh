# Sourced by ./setup: installs the packages of tests/python, and those with which post.tables_foreign and post.perfetto read our tables and timelines,
# in a virtual environment (about 2 GB, with PyTorch 5 GB).

# python_tests_take LIST WHAT: installs the packages of LIST into the environment, unless they are installed.
python_tests_take() {
    local venv=$build/python-tests list=tools/setup/$1
    cmp -s "$list" "$venv/$1" && return
    say "taking $2 from PyPI into $venv (minutes)"
    "$venv/bin/python3" -m pip install --quiet --no-deps --only-binary :all: --require-hashes --disable-pip-version-check \
        -r "$list" </dev/null || fail "could not install the packages of $list"
    cp "$list" "$venv/$1"
}

# python_tests_install [torch]: installs into build/python-tests, and keeps what is there.
python_tests_install() {
    local venv=$build/python-tests
    case ${1-} in
    "" | torch) ;;
    *) fail "python-tests: torch, or nothing" ;;
    esac
    if ! cmp -s tools/setup/python-tests.txt "$venv/python-tests.txt"; then
        # Triton compiles its launcher, which needs Python.h.
        local missing=() name
        for name in python3-venv python3-dev; do
            dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null | grep -qx installed || missing+=("$name")
        done
        if [ ${#missing[@]} -gt 0 ] && command -v apt-get >/dev/null; then
            apt_install "${missing[@]}"
        fi
        python3 -m venv --clear "$venv" || fail "cannot make a virtual environment in $venv"
    fi
    python_tests_take python-tests.txt "Numba, CuPy and Triton"
    python_tests_take python-tests-tables.txt "DuckDB, PyArrow, pandas and Perfetto"
    [ -z "${1-}" ] || python_tests_take python-tests-torch.txt PyTorch
    say "the packages of tests/python are in $venv; ./setup test -R '^python' runs their tests"
}
