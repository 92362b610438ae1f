# Sourced by ./setup: installs NVIDIA's Compute Sanitizer API, with which memtrace run traces programs on a GPU: headers for the build, and the library.

# Prints the first folder with sanitizer.h, found as in cmake/MemtraceSanitizer.cmake.
sanitizer_headers() {
    local cuda folder
    cuda=$(cuda_find) || cuda=
    for folder in ${cuda:+"$cuda/compute-sanitizer/include" "$cuda/include" "$cuda/extras/Sanitizer/include"} \
        "$build/sanitizer/compute-sanitizer/include" "$build/sanitizer/include"; do
        if [ -e "$folder/sanitizer.h" ]; then
            echo "$folder"
            return
        fi
    done
    return 1
}

# Prints the package of PyPI that fits the toolkit, as "name==12.4.*".
sanitizer_wheel() {
    local release major
    release=$("$1/bin/ptxas" --version 2>/dev/null | sed -n 's/.*release \([0-9]*\.[0-9]*\).*/\1/p')
    [ -n "$release" ] || release=${cuda_release%.*}
    major=${release%.*}
    if [ "$major" -lt 13 ]; then
        echo "nvidia-cuda-sanitizer-api-cu$major==$release.*"
    else
        echo "nvidia-cuda-sanitizer-api==$release.*"
    fi
}

# Installs it in build/sanitizer if there is none. Returns 1 after a message if it is unavailable.
sanitizer_install() {
    local wheel wheels cuda
    if sanitizer_headers >/dev/null; then
        return
    fi
    cuda=$(cuda_find) || cuda=/usr/local/cuda
    wheel=$(sanitizer_wheel "$cuda")
    say "taking $wheel from PyPI into $build/sanitizer: programs are traced with it on a GPU as they are"
    if ! python3 -m pip --version >/dev/null 2>&1; then
        say "installing python3-pip: downloads that package"
        apt_install python3-pip
    fi
    wheels=$(mktemp -d "$log/wheels.XXXXXX")
    if python3 -m pip download --quiet --no-deps --only-binary :all: --disable-pip-version-check --dest "$wheels" "$wheel" </dev/null &&
        python3 tools/setup/unpack_wheels.py "$wheels" "$build/sanitizer"; then
        rm -rf "$wheels"
        sanitizer_headers >/dev/null && return
    fi
    rm -rf "$wheels"
    say "$wheel cannot be had: what traces any program on a GPU is not built. A CUDA toolkit has the same in compute-sanitizer/"
    return 1
}

# Describes the GPU by the driver's files, which memtrace run looks for.
sanitizer_gpu() {
    if [ ! -e /dev/nvidiactl ] && [ ! -e /dev/dxg ]; then
        say "no GPU: there is neither /dev/nvidiactl nor /dev/dxg (NVIDIA's driver is not loaded)"
        return 1
    fi
    if command -v nvidia-smi >/dev/null && nvidia-smi --query-gpu=name,driver_version,compute_cap --format=csv,noheader 2>/dev/null | sed 's/^/setup: GPU: /'; then
        return
    fi
    say "a GPU's device file is there, and nvidia-smi says nothing"
}

# ./setup gpu: returns 0 if memtrace run would trace on a GPU here.
sanitizer_report() {
    local code=0
    sanitizer_gpu || code=1
    if [ ! -e "$build/lib/memtrace/libmemtrace-inject.so" ]; then
        say "this build has no engine for GPUs (build/lib/memtrace/libmemtrace-inject.so): see above"
        return 1
    fi
    "$build/bin/mt-run" --list | sed 's/^/setup: /'
    [ "${PIPESTATUS[0]}" = 0 ] || code=1
    if [ "$code" = 0 ]; then
        say "build/bin/memtrace run ./app traces any CUDA program on the GPU"
    else
        say "without a GPU, build/bin/memtrace run ./app runs kernels on the CPU device"
    fi
    return "$code"
}
