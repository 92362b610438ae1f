"""insn mode, against what objdump and Zydis say of the same bytes, and against the flow of control."""
import os
import re
import struct
import subprocess

from harness import Skipped, case, holds, need, same
from world import MACHINE

FLOW = re.compile(r"j\w+|call|ret|syscall|loop\w*|hlt|ud2|int3?|rep.*")
PREFIXES = {"rep", "repz", "repnz", "repe", "repne", "lock", "bnd", "notrack", "cs", "ds", "es", "ss", "data16", "addr32",
            "xacquire", "xrelease", "rex.w", "rex"}
# Names of one condition, or of one instruction: Intel's manual has several.
CONDITIONS = {"z": "e", "nz": "ne", "nbe": "a", "nb": "ae", "nl": "ge", "nle": "g", "c": "b", "nc": "ae", "na": "be",
              "nae": "b", "ng": "le", "nge": "l", "pe": "p", "po": "np"}
ALIASES = {"movabs": "mov", "retn": "ret", "sal": "shl", "fwait": "wait", "int3": "int", "xchg ax,ax": "nop"}


# Zydis lacks registers of these: tests/hostqemu/test_forms.c has them.
CORRECTED = {*(f"{s}{size}" for s in ("cmps", "scas", "ins", "outs") for size in "bwdq"), "xlat", "adcx", "adox", "cmc",
             "syscall", "vzeroall", "vzeroupper", "fnsave", "frstor", "fxsave", "fxsave64", "fxrstor", "fxrstor64"}


def canonical(mnemonic):
    m = re.fullmatch(r"(j|set|cmov)(\w+)", mnemonic)
    if m and mnemonic != "jmp":
        mnemonic = m[1] + CONDITIONS.get(m[2], m[2])
    mnemonic = ALIASES.get(mnemonic, mnemonic)
    return re.sub(r"^(stos|movs|lods|scas|cmps)[bwdq]$", r"\1", mnemonic) if mnemonic not in ("movsd", "cmpsd") else \
        mnemonic


def read_log(path):
    """{address: (text, reads, writes)} and [(order, address)]; executions' operands are checked for form."""
    insns, executions, address = {}, [], None
    with open(path, encoding="utf-8") as f:
        for line in f:
            words = line.rstrip("\n").split("\t")
            if words[0].startswith("0x"):
                new = int(words[0], 16)
                holds(f"addresses ascend: {line!r}", address is None or new >= address)
                address = new
                same(f"words of {line!r}", (len(words), words[2][:2], words[3][:2]), (4, "R:", "W:"))
                insns[address] = (words[1], words[2][2:].split(), words[3][2:].split())
            else:  # TAB, its number, operands
                same(f"first word of {line!r}", words.pop(0), "")
                executions.append((int(words[0]), address))
                for k in range(1, len(words), 3):
                    holds(f"operand in {line!r}", words[k] in "RW" and words[k + 1].startswith("0x") and
                          int(words[k + 2]) > 0)
    executions.sort()
    return insns, executions


def entry(path):
    with open(path, "rb") as f:
        return struct.unpack_from("<Q", f.read(64), 24)[0]


def disassembly(path):
    """{address: (mnemonic, operands)} and {address: next address} by objdump."""
    text = subprocess.run([need("objdump"), "-d", "-M", "intel", "--no-show-raw-insn", path], capture_output=True,
                          text=True, check=True).stdout
    found, follow, last = {}, {}, None
    for m in re.finditer(r"^ *([0-9a-f]+):\t(.+)$", text, re.M):
        address, words = int(m[1], 16), m[2].split("#")[0].split("<")[0].split()
        while len(words) > 1 and words[0] in PREFIXES:
            words.pop(0)
        found[address] = (words[0], " ".join(words[1:]))
        if last is not None:
            follow[last] = address
        last = address
    return found, follow


REGISTER = re.compile(r"\b(?:[re]?(?:[abcd]x|[sd]i|[sb]p)|[abcd][lh]|[sd]il|[sb]pl|r(?:[89]|1[0-5])[dwb]?|[xyz]mm\d+|"
                      r"st\(\d\)|st)\b")


def compare(w, program, *words, minimum=100):
    result = w.host("insn", "--", program, *words, trace="insn.out", engine="qemu", timeout=240)
    same("output", result.out, w.call([program, *words]).stdout)
    insns, executions = read_log(result.trace)
    holds(f"{len(insns)} instructions", len(insns) >= minimum)
    same("order: each number once", len({o for o, _ in executions}), len(executions))
    path = os.path.realpath(program)
    base = executions[0][1] - entry(path)
    same("the program begins at its entry, on a page", base % 4096, 0)
    against_objdump(path, base, insns, executions)
    against_zydis(w, path, base, insns)
    return insns, executions


def against_objdump(path, base, insns, executions):
    found, follow = disassembly(path)
    for address, (text, reads, writes) in insns.items():
        mine = text.split()
        while len(mine) > 1 and mine[0] in PREFIXES:
            mine.pop(0)
        holds(f"objdump knows {address - base:#x} {text}", address - base in found)
        name, operands = found[address - base]
        name = ALIASES.get(f"{name} {operands}", name)
        same(f"mnemonic at {address - base:#x} ({text}; objdump: {name} {operands})", canonical(mine[0]), canonical(name))
        if name.startswith("nop"):
            continue
        registers = {r.replace("st(", "st").rstrip(")") for r in REGISTER.findall(operands)} - {"st"}
        missing = registers - {r.rstrip("*") for r in reads + writes}
        same(f"registers of {text} that are neither read nor written: {reads} {writes}", missing, set())
    for (o, a), (p, b) in zip(executions, executions[1:]):
        if p == o + 1 and not FLOW.fullmatch(canonical(insns[a][0].split()[0])):
            same(f"what follows {insns[a][0]} at {a - base:#x}", b - base, follow[a - base])


def against_zydis(w, path, base, insns):
    tool = w.path("decode")
    process = subprocess.run(["gcc", "-O1", os.path.join(w.src, "decode.c"), "-o", tool, "-lZydis"], capture_output=True,
                             text=True)
    if process.returncode:
        raise Skipped(f"libzydis-dev is not installed: {process.stderr[:200]}")
    lines = w.call([tool, path], input="".join(f"{a - base:x}\n" for a in insns)).stdout.splitlines()
    same("lines of Zydis", len(lines), len(insns))
    for line, (address, (text, reads, writes)) in zip(lines, insns.items()):
        at, name, r, wr = line.split("\t")
        same(f"address of {line}", int(at, 16), address - base)
        holds(f"mnemonic of {text}: {name}", name in text.split())
        if name in CORRECTED:
            continue
        for what, mine, theirs in (("reads", reads, r[2:].split()), ("writes", writes, wr[2:].split())):
            same(f"{what} of {text} at {at}", sorted(x.rstrip("*") for x in mine), theirs)
            for x in mine:
                vector = re.fullmatch(r"[xyz]mm\d+|st\d|mm\d", x.rstrip("*")) is not None
                if not re.fullmatch(r"mxcsr|x87\w+", x.rstrip("*")):  # control and status: either
                    same(f"{x} in {text} is marked as floating-point or vector", x.endswith("*"), vector)


@case("insn.true", *MACHINE)
def true(w):
    compare(w, need("true"), minimum=50)


@case("insn.larger", *MACHINE)
def larger(w):
    """bash: 1.2 MB of code, thousands of instructions executed, hundreds of thousands of times."""
    script = "f() { echo $(( $1 * 7 )) ${x/a/b}; }; x=abc; for i in 1 2 3; do f $i; done; printf '%05.2f\\n' 3.14159"
    insns, executions = compare(w, need("bash"), "--norc", "-c", script, minimum=5000)
    holds(f"{len(executions)} executions", len(executions) > 100000)


@case("insn.own", *MACHINE)
def own(w):
    """Vector, floating-point and atomic instructions, loops."""
    program = w.compile("touches.c", "-O2")
    insns, executions = compare(w, program)
    # strides(): 134 iterations of one load and one store.
    counts = {}
    for _, address in executions:
        counts[address] = counts.get(address, 0) + 1
    loop = [a for a, n in counts.items() if n == 134]
    holds(f"{len(loop)} instructions in the loop of 134", 4 <= len(loop) <= 8)


@case("insn.container", *MACHINE)
def container(w):
    """The container has the same executions as the text."""
    program = w.compile("routines.c", "-O1", "-no-pie")  # at the same place in both runs
    text = w.host("insn", "--", program, trace="insn.out")
    packed = w.host("insn", "--", program)
    unpacked = w.path("unpacked")
    w.call([w.tool("mt-convert"), "-o", unpacked, packed.trace])
    insns, executions = read_log(text.trace)
    other_insns, other = read_log(unpacked)
    same("instructions", other_insns, insns)
    same("executions", other, executions)
