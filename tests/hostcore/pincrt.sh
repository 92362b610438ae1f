#!/bin/sh
# Compiles C files against the headers of a Pin kit and nothing else, and looks for what PinCRT has not got.
# usage: pincrt.sh GCC SOURCE-ROOT FILE…; without PIN_HEADERS or PIN_ROOT: skipped (77).
kit=${PIN_HEADERS:-$PIN_ROOT}
[ -n "$kit" ] || { echo "neither PIN_HEADERS nor PIN_ROOT is set"; exit 77; }
crt=$kit/extras/crt/include
[ -d "$crt" ] || { echo "$crt is not there"; exit 1; }
gcc=$1 root=$2
shift 2
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
own=$($gcc -print-file-name=include)
for file in "$@" "$root/base/json.c" "$root/format/host_text.c"; do
    $gcc -std=c11 -Wall -Wextra -Werror -Wno-unused-parameter -nostdinc -isystem "$own" -DPIN_CRT=1 \
        -fno-stack-protector -fno-exceptions -funwind-tables -fasynchronous-unwind-tables -DTARGET_IA32E -DHOST_IA32E \
        -fPIC -DTARGET_LINUX -isystem "$crt" -isystem "$crt/arch-x86_64" -isystem "$crt/kernel/uapi" \
        -isystem "$crt/kernel/uapi/asm-x86" -O3 -fomit-frame-pointer -fno-strict-aliasing -DMEMTRACE_VERSION='"test"' \
        -I"$root" -I"$root/include" -c "$file" -o "$work/$(basename "$file").o" || exit 1
done
# No thread library, no thread-local storage, nothing that only glibc has.
if nm "$work"/*.o | grep -E ' U (pthread_|__tls|__errno_location|__isoc|__.*_chk|atexit)'; then
    echo "the core needs what PinCRT does not have"
    exit 1
fi
