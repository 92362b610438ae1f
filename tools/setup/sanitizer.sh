# Sourced by ./setup: installs NVIDIA's Compute Sanitizer API, with which memtrace run traces programs on a GPU: headers for the build, and the library.

# Prints the first folder with sanitizer.h, found as in cmake/MemtraceSanitizer.cmake.
sanitizer_headers() {
    local cuda folder
    cuda=$(cuda_find) || cuda=
    for folder in ${cuda:+"$cuda/compute-sanitizer/include" "$cuda/include" "$cuda/extras/Sanitizer/include"} \
        "$build/sanitizer/headers/include" "$build/sanitizer/compute-sanitizer/include" "$build/sanitizer/include"; do
        if [ -e "$folder/sanitizer.h" ]; then
            echo "$folder"
            return
        fi
    done
    return 1
}

# What is taken from PyPI into build/sanitizer: the newest library of each CUDA major, as a driver lets in the libraries of its own and of
# older ones; an assembler for the patches of drivers before 580, unless the toolkit's own is one; and the headers, which go with the
# toolkit's alone, unless they are there. FOLDER PACKAGE FILE
sanitizer_packages() {
    local release
    release=$(sanitizer_toolkit)
    echo "13 nvidia-cuda-sanitizer-api==13.5.* libsanitizer-public.so"
    echo "12 nvidia-cuda-sanitizer-api-cu12==12.9.* libsanitizer-public.so"
    [ "${release%.*}" -lt 13 ] || echo "ptxas-12 nvidia-cuda-nvcc-cu12==12.9.* ptxas"
    if sanitizer_headers >/dev/null; then
        return
    elif [ "${release%.*}" -lt 13 ]; then
        echo "headers nvidia-cuda-sanitizer-api-cu${release%.*}==$release.* include"
    else
        echo "headers nvidia-cuda-sanitizer-api==$release.* include"
    fi
}

# Prints the CUDA release of the toolkit, as 13.0.
sanitizer_toolkit() {
    local cuda release
    cuda=$(cuda_find) || cuda=/usr/local/cuda
    release=$("$cuda/bin/ptxas" --version 2>/dev/null | sed -n 's/.*release \([0-9]*\.[0-9]*\).*/\1/p')
    echo "${release:-${cuda_release%.*}}"
}

# sanitizer_take FOLDER PACKAGE FILE: takes this file or folder of the package, wherever it is in it, and the licence. The folder appears as
# a whole or not at all.
sanitizer_take() {
    local folder=$build/sanitizer/$1 package=$2 all=$log/sanitizer-wheel name found
    [ ! -d "$folder" ] || return 0
    rm -rf "$all" "$all.whl" "$folder.new"
    say "taking $package from PyPI into $folder"
    if python3 -m pip download --quiet --retries 1 --no-deps --only-binary :all: --disable-pip-version-check --dest "$all.whl" "$package" </dev/null &&
        python3 tools/setup/unpack_wheels.py "$all.whl" "$all" && mkdir -p "$folder.new"; then
        for name in "$3" dist-info; do
            found=$(find "$all" -name "$name" -print -quit)
            [ -z "$found" ] || mv "$found" "$folder.new/"
        done
        [ -e "$folder.new/$3" ] && mv "$folder.new" "$folder"
    fi
    rm -rf "$all" "$all.whl" "$folder.new"
    [ -d "$folder" ]
}

# Installs what is missing, and says what stays so. Returns 1 if there is nothing to build with; the build goes on with what is there.
sanitizer_install() {
    local folder package file
    if [ ! -d "$build/sanitizer/13" ] && ! python3 -m pip --version >/dev/null 2>&1; then
        say "installing python3-pip: downloads NVIDIA's library"
        (apt_install python3-pip) # where it cannot be had the build goes on
    fi
    while read -r folder package file; do
        sanitizer_take "$folder" "$package" "$file" || sanitizer_lacks "$folder" "$package"
    done < <(sanitizer_packages)
    sanitizer_headers >/dev/null
}

# Says what does not work without a package.
sanitizer_lacks() {
    case $1 in
    13) say "$2 cannot be had: drivers from 580 on get a toolkit's library, if there is one" ;;
    12) say "$2 cannot be had: drivers before 580 get a toolkit's library, if there is one of CUDA 12" ;;
    ptxas-12) say "$2 cannot be had: no patches are made for drivers before 580" ;;
    *) say "$2 cannot be had: what traces any program on a GPU is not built. A CUDA toolkit has the same in compute-sanitizer/" ;;
    esac
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
    local code=0 listed
    sanitizer_gpu || code=1
    if [ ! -e "$build/lib/memtrace/libmemtrace-inject.so" ]; then
        say "this build has no engine for GPUs (build/lib/memtrace/libmemtrace-inject.so): see above"
        return 1
    fi
    listed=$("$build/bin/mt-run" --list) || code=1
    echo "$listed" | sed 's/^/setup: /'
    [[ $listed == *"here: there is a GPU, and kernels run and are traced there"* ]] || code=1
    if [ "$code" = 0 ]; then
        say "build/bin/memtrace run ./app traces any CUDA program on the GPU"
    else
        say "build/bin/memtrace run ./app runs kernels on the CPU device where there is no GPU, and with -d cpu; with a GPU see above"
    fi
    return "$code"
}
