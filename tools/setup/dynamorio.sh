# Sourced by ./setup: DynamoRIO, the engine that traces host programs fast and with AVX-512, from a release that the user has downloaded.

dynamorio_from="DynamoRIO-Linux-VERSION.tar.gz (11.3.0 or newer) of https://github.com/DynamoRIO/dynamorio/releases"

# dynamorio_check LIST FILE: checks that FILE is a release for this processor; LIST contains its paths.
dynamorio_check() {
    local list=$1 file=$2 folder machine
    [ -s "$list" ] || fail "$file is no .tar.gz, or not whole: download it again: $dynamorio_from"
    if ! grep -q '^[^/]*/bin64/drrun$' "$list"; then
        grep -q '^[^/]*/core/CMakeLists.txt$' "$list" && fail "$file is DynamoRIO's source: a release for Linux has it built: $dynamorio_from"
        fail "$file is no release of DynamoRIO (no bin64/drrun in it): $dynamorio_from"
    fi
    folder=$(sed -n 's:/bin64/drrun$::p' "$list" | head -n 1)
    for machine in cmake/DynamoRIOConfig.cmake lib64/release/libdynamorio.so ext/lib64/release/libdrmgr_static.a; do
        grep -qxF "$folder/$machine" "$list" || fail "$file lacks $machine: it is too old, or not whole: $dynamorio_from"
    done
    machine=$(tar -xzOf "$file" "$folder/bin64/drrun" 2>/dev/null | od -An -tu2 -j18 -N2 | tr -d ' ')
    [ "$machine" = 62 ] || fail "$file is for another processor than x86-64: $dynamorio_from"
}

# dynamorio_install FILE [SHA256]: into build/dynamorio.
dynamorio_install() {
    local file=${1-} want=${2-} sum folder list
    [ -n "$file" ] || fail "./setup dynamorio FILE [SHA256]: FILE is $dynamorio_from"
    [ -f "$file" ] && [ -r "$file" ] || fail "there is no file $file to read"
    sum=$(sha256sum <"$file") && sum=${sum%% *}
    [ -z "$want" ] || [ "${want#sha256:}" = "$sum" ] || fail "$file has the SHA-256 sum $sum, not ${want#sha256:}: download it again"
    folder=$(mktemp -d "$build/dynamorio.XXXXXX") || fail "cannot write to $build"
    list=$folder/list
    tar -tzf "$file" >"$list" 2>/dev/null
    (dynamorio_check "$list" "$file") || { rm -rf "$folder" && exit 1; }
    say "unpacking $file (SHA-256 $sum) into $build/dynamorio"
    mkdir "$folder/new"
    tar -xzf "$file" -C "$folder/new" --strip-components=1 --no-same-owner || { rm -rf "$folder" && fail "$file cannot be unpacked"; }
    rm -rf "$build/dynamorio"
    mv "$folder/new" "$build/dynamorio" && rm -rf "$folder"
}

# Uses the installed release, unless another one is named.
dynamorio_use() {
    if [ -z "${DYNAMORIO_HOME-}" ] && [ -x "$build/dynamorio/bin64/drrun" ]; then
        export DYNAMORIO_HOME=$build/dynamorio
    fi
}
