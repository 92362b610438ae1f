# Sourced by ./setup: a CUDA toolkit, found or taken from NVIDIA's packages on PyPI.

# Tests a toolkit by the same file as cmake/MemtraceCUDA.cmake.
is_cuda() {
    [ -e "$1/include/cuda_runtime_api.h" ] && [ -e "$1/bin/ptxas" ] && [ -e "$1/bin/fatbinary" ]
}

# Prints the first toolkit found.
cuda_find() {
    local root
    for root in ${CUDA_PATH:+"$CUDA_PATH"} /usr/local/cuda /usr/lib/cuda "$build/cuda"; do
        if is_cuda "$root"; then
            echo "$root"
            return
        fi
    done
    return 1
}

# Required parts of CUDA: assembler and fatbinary, runtime headers, compiler headers, libdevice, Thrust/CUB,
# the profiler calls' header.
# CUDA_EXTRA names more for programs that use them, e.g. CUDA_EXTRA="nvidia-curand==10.4.*".
cuda_wheels="nvidia-cuda-nvcc nvidia-cuda-runtime nvidia-cuda-crt nvidia-nvvm nvidia-cuda-cccl nvidia-cuda-profiler-api"
cuda_release="13.0.*"

cuda_install() {
    local root wheels
    if root=$(cuda_find); then
        say "CUDA toolkit: $root"
        return
    fi
    say "no CUDA toolkit in CUDA_PATH, /usr/local/cuda, /usr/lib/cuda: taking NVIDIA's packages from PyPI into $build/cuda"
    if ! python3 -m pip --version >/dev/null 2>&1; then
        say "installing python3-pip: downloads the CUDA packages"
        apt_install python3-pip
    fi
    wheels=$(mktemp -d "$log/wheels.XXXXXX")
    local specs=() name
    for name in $cuda_wheels; do
        specs+=("$name==$cuda_release")
    done
    for name in ${CUDA_EXTRA-}; do
        specs+=("$name")
    done
    python3 -m pip download --quiet --no-deps --only-binary :all: --disable-pip-version-check --dest "$wheels" \
        "${specs[@]}" </dev/null || fail "could not download the CUDA packages: set CUDA_PATH to a toolkit instead"
    python3 tools/setup/unpack_wheels.py "$wheels" "$build/cuda" || fail "could not unpack the CUDA packages"
    rm -rf "$wheels"
    is_cuda "$build/cuda" || fail "the CUDA packages do not make a toolkit: $build/cuda lacks ptxas, fatbinary or headers"
    say "CUDA toolkit: $build/cuda"
}
