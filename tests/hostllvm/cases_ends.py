"""Ends that the program does not choose: each is the same as natively, in time, and the trace has what was before."""
import json
import os
import re
import pty
import signal
import subprocess

from harness import Failed, case, same, size, until
from world import inside

HERE = os.path.dirname(os.path.realpath(__file__))


def native(w, source, *flags):
    out = w.path("native")
    w.command(["cc", *flags, os.path.join(HERE, "src", source), "-o", out])
    return out


def stores(w, r, cells=1000):
    base = int(r.stdout.split()[0], 16)
    return sum(1 for a in inside(w.accesses(r.trace), base, 4 * cells) if a.op == "store")


def last_words(w, trace):
    r = w.command([os.path.join(w.build, "bin", "mt-dump"), "--head", "0", trace], code=None)
    return [x for x in r.stdout.splitlines() if x.startswith("end ")]


@case
def fatal_signals(w):
    """Signals of timers, limits, the processor and seccomp end the program, as they do natively."""
    plain = native(w, "ends.c", "-O1")
    for host in ("--host", "--host=atomic"):
        mode = "mat" if host == "--host" else "atomic"
        program = w.compile("ends.c", "-O1", "-fno-unroll-loops", "-fno-vectorize", host=host, name="ends" + mode)
        for how in ("real", "virtual", "prof", "cpu", "trap", "general", "sys", "sysprctl", "back", "once", "realtime", "usr1"):
            wanted = w.command([plain, how], code=None, timeout=300).returncode
            if wanted >= 0:
                raise Failed(f"{how}: no signal natively: {wanted}")
            r = w.run(program, how, words=mode, code=wanted)
            same(f"{mode} {how}: stores", stores(w, r), 1001 if how == "once" else 1000)
            same(f"{mode} {how}: the end", [x.split(":")[0] for x in last_words(w, r.trace)], ["end incomplete"])


@case
def seccomp(w):
    """A program that allows itself write and exit alone lives as long as natively; the trace says where it ends."""
    plain = native(w, "ends.c", "-O1")
    program = w.compile("ends.c", "-O1", "-fno-unroll-loops", "-fno-vectorize")
    for how in ("strict", "narrow"):
        same(f"{how}, natively", w.command([plain, how], code=7).stdout.split()[1], "done")
        r = w.run(program, how, code=7)
        same(f"{how}: output", r.stdout.split()[1], "done")
        same(f"{how}: stores before", stores(w, r), 1000)
        same(f"{how}: the end", [x.split(":")[0] for x in last_words(w, r.trace)], ["end incomplete"])
        if "seccomp" not in r.stderr:
            raise Failed(f"{how}: not said: {r.stderr}")


def on_terminal(w, program, trace, act):
    """Its exit code; act(terminal) happens when it runs."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execve(program, [program, "wait"], {**os.environ, "MEMTRACE_HOST": f"mat -o {trace}"})
    text = b""
    while b"counted" not in text:
        text += os.read(terminal, 100)
    act(terminal)
    end = []
    try:
        until("its end", lambda: end or end.extend(os.waitpid(pid, os.WNOHANG)) or end[0] or end.clear())
    except Failed:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise
    r = subprocess.CompletedProcess([], os.waitstatus_to_exitcode(end[1]), text.decode())
    r.trace = trace
    return r


@case
def terminal(w):
    """Ctrl-C, Ctrl-\\ and the end of the terminal."""
    program = w.compile("ends.c", "-O1", "-fno-unroll-loops", "-fno-vectorize")
    for name, act, sig in (("c", lambda t: os.write(t, b"\x03"), signal.SIGINT),
                           ("q", lambda t: os.write(t, b"\x1c"), signal.SIGQUIT), ("h", os.close, signal.SIGHUP)):
        r = on_terminal(w, program, w.path(f"{name}.mtc"), act)
        same(f"{name}: exit code", r.returncode, -sig)
        same(f"{name}: stores", stores(w, r), 1000)


@case
def twice(w):
    """A second signal while the trace is being ended does not end it early."""
    program = w.compile("ends.c", "-O1", "-fno-unroll-loops", "-fno-vectorize")
    for i in range(5):
        trace = w.path(f"twice{i}.mtc")
        with subprocess.Popen([program, "wait"], env={**os.environ, "MEMTRACE_HOST": f"mat -o {trace}"}, text=True,
                              stdout=subprocess.PIPE) as p:
            text = p.stdout.readline() + p.stdout.readline()
            p.send_signal(signal.SIGTERM)
            p.send_signal(signal.SIGHUP)
            p.send_signal(signal.SIGTERM)
            code = p.wait(timeout=300)
        if code not in (-signal.SIGTERM, -signal.SIGHUP):
            raise Failed(f"exit code {code}")
        r = subprocess.CompletedProcess([], code, text)
        r.trace = trace
        same("stores", stores(w, r), 1000)
        same("the end", [x.split(":")[0] for x in last_words(w, trace)], ["end incomplete"])


@case
def main_ends_first(w):
    """pthread_exit in main: the last thread ends the process, the trace is whole."""
    for host, mode in (("--host", "mat"), ("--host=atomic", "atomic")):
        program = w.compile("exits.c", "-O1", "-fno-unroll-loops", "-fno-vectorize", "-pthread", host=host, name="exits" + mode)
        for args in ([], ["thrd"]):
            r = w.run(program, *args, words=mode)
            same("output", r.stdout.split()[1:], ["thread", "exit"])
            same("stores", stores(w, r, 3000), 3000)
            same("complete, lost", w.end(r.trace), (True, 0))


@case
def short_list(w):
    """A list of threads that lacks one does not end the program."""
    program = w.compile("exits.c", "-O1", "-pthread")
    lib = w.path("short_list.so")
    w.command(["cc", "-shared", "-fPIC", os.path.join(HERE, "src", "short_list.c"), "-o", lib])
    r = w.run(program, env={"LD_PRELOAD": lib})
    same("output", r.stdout.split()[1:], ["thread", "exit"])


@case
def taken_out(w):
    """siglongjmp and pthread_exit in handlers, asynchronous pthread_cancel: wherever in the tracer they come, the
    program goes on and ends, and no thread leaves a lock behind."""
    for host, mode in (("--host", "mat"), ("--host=atomic", "atomic")):
        program = w.compile("leaves.c", "-O1", "-pthread", host=host, name="leaves" + mode)
        for file in ("taken.mtc", "taken.txt"):
            for how in ("jump", "exit", "cancel"):
                words = "mat --all" if mode == "mat" else mode
                r = w.run(program, how, words=words, file=file, code=20)
                said = re.sub(r"^memtrace: \d+ accesses could not be recorded: the trace is incomplete\n$", "", r.stderr)
                same(f"{mode} {file} {how}: output, words", (r.stdout, said), ("20\n", ""))


@case
def text_terminated(w):
    """SIGTERM while the thread writes the trace's text: the program ends by it, and the text says that it is not whole."""
    program = w.compile("leaves.c", "-O1", "-pthread")
    for i in range(8):
        trace = w.path(f"term{i}.txt")
        with subprocess.Popen([program, "kill"], env={**os.environ, "MEMTRACE_HOST": f"mat --all -o {trace}"}) as p:
            until("text of the thread", lambda: size(trace) > 100000 * (i + 1), p)
            p.send_signal(signal.SIGTERM)
            try:
                code = p.wait(timeout=300)
            except subprocess.TimeoutExpired:
                p.kill()
                raise Failed("it goes on")
        same("exit code", code, -signal.SIGTERM)
        with open(trace, "rb") as f:
            text = f.read()
        same("the last line is whole, and no end", (text[-1:], b"<end>" in text), (b"\n", False))
        os.unlink(trace)


@case
def no_memory(w):
    """No memory and so no thread of the tracer's: the program ends, and the trace is whole or says that it is not."""
    program = w.compile("leaves.c", "-O1", "-pthread")
    r = w.run(program, "memory", code=20)
    same("output", r.stdout, "20\n")
    if "Cannot allocate memory" in r.stderr:
        same("the last line", [x.split(":")[0] for x in last_words(w, r.trace)], ["end incomplete"])
    else:
        same("complete, lost", w.end(r.trace), (True, 0))


@case
def text_whole(w):
    """Text of a whole trace has its end, that of a killed program has not, and the tools say which is which."""
    def tool(name, *args, code):
        return w.command([os.path.join(w.build, "bin", name), *args], code=code)

    programs = {"mat": w.compile("leaves.c", "-O1", "-pthread"),
                "atomic": w.compile("leaves.c", "-O1", "-pthread", host="--host=atomic", name="leaves_atomic")}
    for how, code, whole in (("work", 0, True), ("kill", -signal.SIGKILL, False)):
        for words, known in (("mat", whole), ("mat --mat-files", None), ("atomic", whole)):
            trace = w.path(f"{how} {words}.txt".replace(" ", "_"))
            program = programs[words.split()[0]]
            with subprocess.Popen([program, how], env={**os.environ, "MEMTRACE_HOST": f"{words} -o {trace}"}, cwd=w.work,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as p:
                if how == "kill":
                    until("text", lambda: size(trace) > 10000, p)
                    p.kill()
                same(f"{words} {how}: exit code", p.wait(timeout=300), code)
            with open(trace, "rb") as f:
                text = f.read()
            with open(trace, "wb") as f:
                f.write(text[:text.rfind(b"\n") + 1])  # a line that is cut off is another matter
            if words == "atomic":
                tool("mt-convert", "--order=time", trace, code=0 if whole else 3)
                continue
            graph = json.loads(tool("mt-graph", "-f", "json", trace, code=3 if known is False else 0).stdout)
            same(f"{words} {how}: complete", graph["complete"], known)
