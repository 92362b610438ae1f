# Sourced by ./setup: the packages that tests/python runs, in a virtual environment of their own (about 2 GB).

# python_tests_install: into build/python-tests; what is there already stays.
python_tests_install() {
    local venv=$build/python-tests wanted=tools/setup/python-tests.txt
    if cmp -s "$wanted" "$venv/made-of"; then
        say "the packages of tests/python are in $venv"
        return
    fi
    # Triton compiles its launcher: Python.h.
    local missing=() name
    for name in python3-venv python3-dev; do
        dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null | grep -qx installed || missing+=("$name")
    done
    if [ ${#missing[@]} -gt 0 ] && command -v apt-get >/dev/null; then
        apt_install "${missing[@]}"
    fi
    say "taking Numba, CuPy and Triton from PyPI into $venv (about 2 GB; minutes)"
    python3 -m venv --clear "$venv" || fail "cannot make a virtual environment in $venv"
    "$venv/bin/python3" -m pip install --quiet --no-deps --only-binary :all: --disable-pip-version-check -r "$wanted" </dev/null ||
        fail "could not install the packages of $wanted"
    cp "$wanted" "$venv/made-of"
    say "the packages of tests/python are in $venv; ./setup test -R '^python' runs their tests"
}
