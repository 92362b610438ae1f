"""%%memtrace: runs the cell as a separate script under memtrace run, and shows the page of its traces."""
import html
import os
import shlex
import subprocess
import sys
import tempfile

import memtrace
from memtrace.frames import INCOMPLETE

HELP = """%%memtrace [-o FOLDER] [OPTION of memtrace run]...

Runs the cell traced, and shows its page. The cell is a script in a process of its own: what other cells imported or computed is not
there, and what it computes does not come back. FOLDER (default: a new temporary one) keeps cell.py, the traces and report.html;
memtrace.open(FOLDER) has the tables. Other options go to memtrace run: %%memtrace -k REGEX, for kernels with such names."""


def split(line):
    """Returns the folder and the other options."""
    words, folder = shlex.split(line), None
    for i, word in enumerate(words):
        if word in ("-o", "--output") and i + 1 < len(words):
            folder, words = words[i + 1], words[:i] + words[i + 2:]
            break
        if word.startswith("--output="):
            folder, words = word.split("=", 1)[1], words[:i] + words[i + 1:]
            break
    return folder, words


def traces_of(folder):
    """Returns the traces with their times, since a later run may reuse names."""
    return {(entry.name, entry.stat().st_mtime_ns) for entry in os.scandir(folder) if entry.name.startswith("MemTrace-")}


def show(path):
    """Embeds the page in the notebook, which works wherever the notebook server may read files."""
    from IPython.display import display
    with open(path, encoding="utf-8") as f:
        page = html.escape(f.read())
    display({"text/html": f'<iframe srcdoc="{page}" style="width: 100%; height: 700px; border: 1px solid #ccc"></iframe>',
             "text/plain": path}, raw=True)


def run_cell(line, cell):
    if line.strip() in ("-h", "--help"):
        print(HELP)
        return
    folder, options = split(line)
    folder = os.path.abspath(folder) if folder else tempfile.mkdtemp(prefix="memtrace-cell-")
    os.makedirs(folder, exist_ok=True)
    before = traces_of(folder)
    script, page = os.path.join(folder, "cell.py"), os.path.join(folder, "report.html")
    with open(script, "w", encoding="utf-8") as f:
        f.write("# %%memtrace: lines are numbered as in the cell\n" + cell)
    words = [memtrace.program(), "run", "-o", folder, *options, "--", sys.executable, script]
    with subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, encoding="utf-8", errors="replace",
                          env={**os.environ, "PYTHONUNBUFFERED": "1", "MPLBACKEND": "agg"}) as child:
        for text in child.stdout:
            sys.stdout.write(text)
    if child.returncode:
        print(f"the cell ended with exit code {child.returncode}")
    if not traces_of(folder) - before:
        print("no kernel ran in the cell: there is nothing to show")
        return
    done = subprocess.run([memtrace.program(), "report", folder, "-o", page], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          encoding="utf-8", errors="replace", check=False)
    print(done.stdout, end="")
    print(f"traces and page: {folder}")
    if done.returncode in (0, INCOMPLETE):
        show(page)


def load(shell):
    shell.register_magic_function(run_cell, "cell", "memtrace")
