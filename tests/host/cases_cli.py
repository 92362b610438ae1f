"""memtrace host itself: its words, its exit codes, the programs it takes."""
import os
import re
import shutil
import signal
import stat
import struct
import subprocess

from harness import case, clean, holds, same
from world import MACHINE, ENGINES


def refused(w, *words, says, code=2, **variables):
    """memtrace host must exit with `code` and one line on stderr that has all of `says`."""
    process = subprocess.run([w.tool("mt-host"), *words], capture_output=True, text=True, cwd=w.work,
                             env=clean(**variables), timeout=300)
    same(f"mt-host {' '.join(words)}: exit code; {process.stderr}", process.returncode, code)
    same(f"mt-host {' '.join(words)}: stdout", process.stdout, "")
    for part in says:
        holds(f"mt-host {' '.join(words)} says {part!r}: {process.stderr}", part in process.stderr)
    same("lines on stderr", process.stderr.count("\n"), 1)


@case("cli.words")
def words(w):
    """Wrong command lines: the option is named, and the way out."""
    for line, says in (([], ["no program"]), (["trace", "ls"], ["trace: there is no such program", "mat, insn, atomic"]),
                       (["--", "trace"], ["trace: there is no such program"]), (["--library=none"], ["no program"]),
                       (["mat", "a\x1b[31m"], ["a\\x1b[31m: there is no such program"]), # what a terminal could obey
                       (["--threshold=1", "ls"], ["--threshold is for mat"]),
                       (["mat", "--library=", "ls"], ["--library", "all|data|none|NAME"]),
                       (["insn", "--library=all", "ls"], ["--library is for mat and atomic"]),
                       (["mat"], ["no program", "memtrace host mat -- ls"]),
                       (["mat", "--"], ["no program"]),
                       (["mat", "--threshold"], ["--threshold", "value"]),
                       (["mat", "--threshold=big", "ls"], ["--threshold", "'big'", "BYTES"]),
                       (["atomic", "--threshold=1", "ls"], ["--threshold is for mat"]),
                       (["atomic", "-l", "63", "ls"], ["-l", "'63'", "power of two"]),
                       (["atomic", "-b", "0", "ls"], ["-b", "'0'"]),
                       (["atomic", "-d", "0", "ls"], ["-d", "'0'"]),
                       (["mat", "-Q", "ls"], ["-Q"]), (["mat", "--nonsense", "ls"], ["--nonsense"]),
                       (["--engine=gdb", "mat", "ls"], ["gdb", "qemu"]),
                       (["insn", "--engine=llvm", "/bin/true"], ["--engine=qemu"]),
                       (["mat", "--engine=llvm", "/bin/true"], ["mt-cc --host"])):
        refused(w, *line, says=says)


@case("cli.help")
def helps(w):
    text = w.call([w.tool("mt-host"), "--help"]).stdout
    for word in ("mat", "insn", "atomic", "memtrace graph", "memtrace convert", "--engine", "MEMTRACE_QEMU", "PIN_ROOT"):
        holds(f"--help names {word}", word in text)
    letters = {"mat": ["--threshold", "--routine", "--signal", "--all"], "insn": ["--output"],
               "atomic": [f"-{c}" for c in "orfilbatdc"]}
    for mode, options in letters.items():
        for spelled in ([mode, "--help"], ["--help", mode]):
            text = w.call([w.tool("mt-host"), *spelled]).stdout
            for option in options:
                holds(f"{mode} --help names {option}", re.search(rf"{option}[,=\[ ]", text))
            holds("no line is long", max(map(len, text.splitlines())) <= 120)
    holds("--version", "memtrace" in w.call([w.tool("mt-host"), "--version"]).stdout)


def elf(machine, bits=64):
    """The head of an ELF program for another machine."""
    ident = b"\x7fELF" + bytes([2 if bits == 64 else 1, 1, 1]) + bytes(9)
    return ident + struct.pack("<HHIQQQ", 2, machine, 1, 0x400000, 0, 0) + bytes(64)


@case("cli.programs")
def programs(w):
    """Files that cannot be traced are refused with the reason."""
    def file(name, data, mode=0o755):
        path = os.path.join(w.work, name)
        with open(path, "wb") as f:
            f.write(data)
        os.chmod(path, mode)
        return path
    for path, says in ((file("arm", elf(183)), ["AArch64", "x86-64"]), (file("old", elf(3, 32)), ["32-bit x86"]),
                       (file("x32", elf(62, 32)), ["x32"]), (file("odd", elf(4711)), ["4711"]),
                       (file("text", b"echo hello\n"), ["neither", "sh "]), (file("empty", b""), ["empty"]),
                       (file("closed", b"#!/bin/sh\n", 0o644), ["ermission denied"]),
                       (file("lost", b"#!/no/such/shell -x\n"), ["/no/such/shell"]),
                       (file("nobody", b"#!\n"), ["interpreter"]),
                       (w.work, ["directory"]), ("/no/such/program", ["No such file"]),
                       ("no-such-program", ["no such program in PATH"])):
        refused(w, "mat", "--", path, says=[os.path.basename(path), *says])


@case("cli.engine_missing")
def engine_missing(w):
    """Without the engine: exit code 1, what to install, the program is not run."""
    empty = os.path.join(w.work, "empty")
    os.mkdir(empty)
    touch = ["mat", "--engine=qemu", "--", shutil.which("touch"), os.path.join(w.work, "ran")]

    def fake(text):
        path = w.path("qemu")
        with open(path, "w", encoding="utf-8") as f:
            f.write(f"#!/bin/sh\n{text}\n")
        os.chmod(path, 0o755)
        return path
    refused(w, *touch, code=1, says=["qemu-x86_64", "qemu-user"], PATH=empty)
    refused(w, *touch, code=1, says=["/no/qemu"], MEMTRACE_QEMU="/no/qemu")
    refused(w, *touch, code=1, says=["version"], MEMTRACE_QEMU=shutil.which("true"))
    refused(w, *touch, code=1, says=["6.2"], MEMTRACE_QEMU=fake("echo qemu-x86_64 version 6.2.0"))
    refused(w, *touch, code=1, says=["without plugins"], MEMTRACE_QEMU=fake("echo qemu-x86_64 version 8.0.1"))
    touch[1] = "--engine=pin"
    refused(w, *touch, code=1, says=["PIN_ROOT", "--engine=qemu"], PATH=empty, PIN_ROOT="")
    refused(w, *touch, code=1, says=["PIN_ROOT", "/no/kit"], PIN_ROOT="/no/kit")
    holds("the program was not run", not os.path.exists(os.path.join(w.work, "ran")))


@case("cli.pin")
def pin(w):
    """The command for Pin, with a stand-in for it."""
    kit = os.path.join(w.work, "kit")
    os.mkdir(kit)
    for path, text in ((f"{kit}/pin", "#!/bin/sh\nprintf '%s\\n' \"$@\"\nexit 9\n"), (f"{kit}/tool.so", "")):
        with open(path, "w", encoding="utf-8") as f:
            f.write(text)
        os.chmod(path, 0o755)
    result = w.host("atomic", "-l", "128", "-i", "1", "--", "/bin/echo", "a b", "--", trace="/dev/null", engine="pin",
                    code=9, env=clean(PIN_ROOT=kit, MEMTRACE_PIN_TOOL=f"{kit}/tool.so"))
    same("words for Pin", result.out.splitlines(),
         ["-t", f"{kit}/tool.so", "-mode", "atomic", "-output", "/dev/null", "-locks", "128", "-roi", "1", "--",
          "/bin/echo", "a b", "--"])


def both(w, command, words=(), **more):
    """Runs natively and traced: same output and exit code."""
    native = subprocess.run(command, capture_output=True, text=True, env=clean(HELLO="there"), timeout=300,
                            stdin=open(more["stdin"]) if "stdin" in more else subprocess.DEVNULL)
    traced = w.host("mat", *words, "--", *command, code=native.returncode, env=clean(HELLO="there"),
                    stdin=open(more["stdin"]) if "stdin" in more else subprocess.DEVNULL,
                    trace=more.get("trace", "t.mtc"))
    same("stdout", traced.out, native.stdout)
    same("stderr", traced.err, native.stderr)
    holds("the trace is there", os.path.getsize(traced.trace) > 1000)
    return traced


@case("cli.transparent", *ENGINES)
def transparent(w):
    """argv[0], words, variables, standard input and exit code arrive; no variable of ours does."""
    program, text = w.compile("hello.c"), w.path("stdin")
    with open(text, "w", encoding="utf-8") as f:
        f.write("one\ntwo\n")
    for words in ([], ["42", "", "a b", "--mat", "$x,y=\\"], ["255"]):
        both(w, [program, *words], stdin=text)
    os.makedirs(os.path.join(w.work, "a, b=c\\d"))
    both(w, [program], trace=os.path.join(w.work, "a, b=c\\d", "x,,y z.mtc"))


@case("cli.transparent_path", *MACHINE)
def path(w):
    """Names in PATH and relative ones; scripts, scripts of scripts; static and position-dependent programs."""
    program = w.compile("hello.c")
    shutil.copy(program, os.path.join(w.work, "hello-in-path"))
    old, here = os.environ["PATH"], os.getcwd()
    os.environ["PATH"] = w.work + ":" + old
    os.chdir(w.work)
    try:
        names(w, program)
    finally:
        os.environ["PATH"] = old
        os.chdir(here)
    for flag in ("-static", "-no-pie", "-static-pie"):
        both(w, [w.compile("hello.c", "-O1", flag), "7"])


def names(w, program):
    both(w, ["hello-in-path", "3"])
    both(w, ["./hello-in-path", "4"])
    for name, head in (("one", f"#! {program} -x  y \n"), ("two", "#!./one\n"), ("sh", "#!/bin/sh\nexit $1\n")):
        with open(name, "w", encoding="utf-8") as f:
            f.write(head)
        os.chmod(name, os.stat(name).st_mode | stat.S_IXUSR)
        both(w, [f"./{name}", "5"])
        both(w, [name, "6"])


@case("cli.signals", *ENGINES)
def signals(w):
    """Signals to memtrace host reach the program; the trace is whole up to there, and memtrace host's exit code says it."""
    program = w.compile("lives.c")
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        trace = w.path("t.mtc")
        with subprocess.Popen([w.tool("mt-host"), f"--engine={w.engine}", "mat", "-o", trace, "--", program, "killed",
                               "0"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              env=clean()) as host:
            host.stdout.readline()
            host.send_signal(number)
            code = host.wait(300)
            errors = host.stderr.read()
        same(f"exit code; {errors}", code, 128 + number)
        process = subprocess.run([w.tool("mt-graph"), "-f", "json", trace], capture_output=True, text=True)
        holds(f"mt-graph can read it: {process.stderr}", process.returncode in (0, 3))
        holds("it has the buffer of the cells", f'"size": {256 * 64}' in process.stdout or
              f'"size":{256 * 64}' in process.stdout)


@case("cli.talk", *ENGINES)
def talk(w):
    """--verbose: where the trace is, how many accesses, what next. An output that cannot be written is said."""
    program = w.compile("hello.c")
    result = w.host("mat", "--verbose", "--", program, stdin=subprocess.DEVNULL)
    for part in (result.trace, "accesses, complete", "memtrace graph"):
        holds(f"--verbose says {part!r}: {result.err}", part in result.err)
    result = w.host("mat", "--", program, stdin=subprocess.DEVNULL)
    same("without --verbose", result.err, "")
    result = w.host("mat", "--", program, stdin=subprocess.DEVNULL, trace=os.path.join(w.work, "no", "x.mtc"), code=None)
    holds(f"folder that is not there: {result}", os.path.join(w.work, "no") in result.err)
    old = w.path("old.mtc")
    with open(old, "w", encoding="utf-8") as f:
        f.write("not a trace of ours")
    os.chmod(old, 0o400)
    if os.geteuid() != 0:
        result = w.host("mat", "--", program, stdin=subprocess.DEVNULL, trace=old, code=None)
        holds(f"no trace was written: {result.err}", old in result.err)


@case("cli.show")
def show(w):
    """--show prints a line that a shell can run."""
    program = w.compile("hello.c")
    if not w.has("qemu"):
        return
    trace = os.path.join(w.work, "it's, here.mtc")
    line = w.host("mat", "--show", "--", program, "7", "it's", "a b=c d", "e=f g", trace=trace,
                  engine="qemu").out
    process = subprocess.run(["sh", "-c", line], capture_output=True, text=True, env=clean(),
                             stdin=subprocess.DEVNULL)
    same(f"exit code of {line}", process.returncode, 7)
    same("its words", process.stdout.split(" HELLO")[0], f"<{program}><7><it's><a b=c d><e=f g>")
    holds("the trace", os.path.getsize(trace) > 1000)
