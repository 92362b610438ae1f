# Sourced by ./setup: installs other runtimes that run kernels on this processor, for `bench/run rivals`: PoCL from Debian, and Intel's
# OpenCL runtime (three packages of PyPI, about 300 MB) in build/rivals.

rivals_install() {
    local folder=$build/rivals missing=() name
    for name in pocl-opencl-icd ocl-icd-opencl-dev; do
        dpkg-query -W -f '${db:Status-Status}' "$name" 2>/dev/null | grep -qx installed || missing+=("$name")
    done
    if [ ${#missing[@]} -gt 0 ] && command -v apt-get >/dev/null; then
        apt_install "${missing[@]}"
    fi
    if [ ! -e "$folder/icd/intel.icd" ]; then
        if ! python3 -m pip --version >/dev/null 2>&1; then
            apt_install python3-pip
        fi
        rm -rf "$folder"
        mkdir -p "$folder/wheels" "$folder/lib" "$folder/icd"
        say "taking Intel's OpenCL runtime from PyPI into $folder (about 300 MB)"
        python3 -m pip download --quiet --no-deps --only-binary :all: --disable-pip-version-check -d "$folder/wheels" \
            intel-opencl-rt==2026.2.0 intel-cmplr-lib-rt==2026.2.0 tbb==2023.2.0 </dev/null || fail "could not take Intel's OpenCL runtime from PyPI"
        for name in "$folder"/wheels/*.whl; do
            python3 -m zipfile -e "$name" "$folder/unpacked" || fail "cannot unpack $name"
        done
        cp -r "$folder"/unpacked/*.data/data/lib/. "$folder/lib" || fail "the packages are not as expected"
        rm -rf "$folder/unpacked" "$folder/wheels"
        name=$(find "$folder/lib" -name 'libintelocl.so*' | head -n 1)
        [ -n "$name" ] || fail "the packages have no libintelocl.so"
        echo "$name" >"$folder/icd/intel.icd"
    fi
    say "bench/run rivals runs its kernels on them, too"
}
