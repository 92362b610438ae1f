#!/usr/bin/env python3
"""in_root.py KIT WORDS...: runs a kit on the CPU device in a root folder that has nothing but the C library, Python and a shell: what docs/gpu.md promises
that a kit needs. Exit code: the run's; 77 where this user may not make such a root."""
import glob
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile

SHELL = shutil.which("dash") or shutil.which("sh")
LEAVE_OUT = shutil.ignore_patterns("__pycache__", "test", "site-packages", "idlelib", "tkinter", "ensurepip", "config-*", "*.a")


def libraries(path):
    """The paths of what a program or library is linked with, and the dynamic linker."""
    return re.findall(r"(/\S+) \(0x", subprocess.run(["ldd", path], capture_output=True, text=True, check=False).stdout)


def machine(libc):
    """The other libraries of the C library."""
    return [path for name in ("libpthread", "libdl", "librt", "libm", "libutil") for path in glob.glob(os.path.join(os.path.dirname(libc), name + ".so.[0-9]"))]


def put(root, path):
    """The file at the same place, once."""
    to = root + path
    if not os.path.exists(to):
        os.makedirs(os.path.dirname(to), exist_ok=True)
        shutil.copy(os.path.realpath(path), to)


def fill(root):
    """Python with its modules, and what these are linked with."""
    python, modules = os.path.realpath(sys.executable), sysconfig.get_path("stdlib")
    shutil.copytree(modules, root + modules, ignore=LEAVE_OUT, symlinks=True)
    for path in (python, SHELL, *glob.glob(os.path.join(modules, "lib-dynload", "*.so"))):
        put(root, path)
        for library in libraries(path):
            if "libc.so" in library:
                for other in machine(library):
                    put(root, other)
            put(root, library)
    for name, target in (("bin/python3", python), ("bin/sh", SHELL)):
        os.makedirs(os.path.join(root, "bin"), exist_ok=True)
        if not os.path.exists(os.path.join(root, name)):
            os.symlink(target, os.path.join(root, name))
    for name in ("proc", "dev", "tmp", "kit"):
        os.makedirs(os.path.join(root, name))


def inside(root, command):
    """In namespaces of its own: its processes, its mounts."""
    script = ('mount --bind "$1" "$0/kit" && mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" && root=$0 && shift && '
              'exec chroot "$root" /bin/sh -c "$1"')
    return ["unshare", "--user", "--map-root-user", "--mount", "--pid", "--fork", "sh", "-c", script, root, command[0], command[1]]


def main():
    kit, *words = sys.argv[1:]
    with tempfile.TemporaryDirectory() as root:
        fill(root)
        environment = {"PATH": "/bin", "HOME": "/tmp"}
        if subprocess.run(inside(root, [os.path.realpath(kit), "python3 -c 'import ctypes, json'"]), env={**environment, "PATH": os.environ["PATH"]}, check=False).returncode:
            print("skipped: this user may not make namespaces")
            return 77
        wish = " ".join(f"'{word}'" for word in words)
        command = f"export PATH=/bin HOME=/tmp; for tool in cc c++ gcc clang nvcc git gdb; do command -v $tool && exit 3; done; /kit/run --device cpu {wish}"
        return subprocess.run(inside(root, [os.path.realpath(kit), command]), check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
