"""md2man.py PAGE.md OUT.1 VERSION: makes a manual page from the Markdown of docs/man/.

Supported: `# name(1) - one line` or `# name - one line` (the first line), `## section`, `### part`, paragraphs, lists
(`- item` or `* item`, continued by indentation), indented and fenced code, tables (as preformatted text), `code`,
**bold**, *emphasis* and [text](target). A paragraph that begins with an option in backquotes becomes a tagged one when
a line beginning with `: ` follows.
"""
import os
import re
import sys


def inline(text):
    """Markdown within a line to roff; code and bold are bold, emphasis is italic."""
    parts = re.split(r"(`[^`]+`)", text)
    out = []
    for part in parts:
        if part.startswith("`") and part.endswith("`") and len(part) > 2:
            out.append("\\fB" + literal(part[1:-1]) + "\\fR")
            continue
        part = re.sub(r"\[([^\]]+)\]\(([^)]+)\)", lambda m: m[1] if m[1] == m[2] else f"{m[1]} ({m[2]})", part)
        part = literal(part)
        part = re.sub(r"\*\*([^*]+)\*\*", r"\\fB\1\\fR", part)
        part = re.sub(r"(?<![\w*])\*([^*\s][^*]*)\*", r"\\fI\1\\fR", part)
        out.append(part)
    line = "".join(out)
    return "\\&" + line if line[:1] in ".'" else line


def literal(text):
    return text.replace("\\", "\\e").replace("-", "\\-")


def code(lines):
    out = [".PP", ".RS 4", ".nf"]
    for line in lines:
        line = literal(line)
        out.append("\\&" + line if line[:1] in ".'" else line)
    return out + [".fi", ".RE"]


def blocks(lines):
    """Yields (kind, content): heading, code, item, term, para."""
    i = 0
    while i < len(lines):
        line = lines[i]
        if not line.strip():
            i += 1
        elif line.startswith("#"):
            yield "heading", line
            i += 1
        elif line.startswith("```"):
            end = i + 1
            while end < len(lines) and not lines[end].startswith("```"):
                end += 1
            yield "code", lines[i + 1 : end]
            i = end + 1
        elif line.startswith("    "):
            end = i
            while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
                end += 1
            body = [l[4:] for l in lines[i:end]]
            while body and not body[-1].strip():
                body.pop()
            yield "code", body
            i = end
        elif line.startswith("|"):
            end = i
            while end < len(lines) and lines[end].startswith("|"):
                end += 1
            yield "code", table(lines[i:end])
            i = end
        elif re.match(r"[-*] ", line):
            body = [line[2:]]
            i += 1
            while i < len(lines) and lines[i].startswith("  ") and lines[i].strip():
                body.append(lines[i].strip())
                i += 1
            yield "item", " ".join(body)
        else:
            body = []
            while i < len(lines) and lines[i].strip() and not re.match(r"#|```|\||[-*] |: ", lines[i]):
                body.append(lines[i].strip())
                i += 1
            if i < len(lines) and lines[i].startswith(": "):
                text = [lines[i][2:]]
                i += 1
                while i < len(lines) and lines[i].startswith("  ") and lines[i].strip():
                    text.append(lines[i].strip())
                    i += 1
                yield "term", (" ".join(body), " ".join(text))
            elif body:
                yield "para", " ".join(body)
            else:  # a ": " line without an option before it
                yield "para", lines[i]
                i += 1


def table(lines):
    """Returns cells in columns, without the rule below the heads."""
    rows = [[c.strip().replace("`", "") for c in re.split(r"(?<!\\)\|", l.strip().strip("|"))] for l in lines]
    rows = [r for r in rows if not all(re.fullmatch(r":?-+:?", c) for c in r)]
    widths = [max(len(r[i]) if i < len(r) else 0 for r in rows) for i in range(max(map(len, rows)))]
    return ["  ".join(c.ljust(w) for c, w in zip(r, widths)).rstrip() for r in rows]


def page(text, version, default_name):
    lines = text.splitlines()
    title = lines[0].lstrip("# ").strip() if lines and lines[0].startswith("# ") else default_name
    match = re.match(r"([\w.-]+?)(?:\((\d)\))?(?:\s+[-–—:]+\s+(.*))?$", title)
    name, what = (match[1], match[3]) if match else (default_name, title)
    section = match[2] if match and match[2] else "1"
    body = list(blocks(lines[1:] if lines and lines[0].startswith("# ") else lines))
    if not what and body and body[0][0] == "para":  # the one line stands below the title
        what = re.sub(r"[`*]", "", body.pop(0)[1]).rstrip(".")
    out = [f'.TH "{name.upper()}" "{section}" "" "memtrace {version}" "memtrace"']
    if not (body and body[0][0] == "heading" and body[0][1].lstrip("# ").upper() == "NAME"):
        out += [".SH NAME", literal(name) + (" \\- " + inline(what) if what else "")]
    for kind, content in body:
        if kind == "heading":
            level = len(content) - len(content.lstrip("#"))
            head = content.lstrip("# ").strip().replace('"', "")
            out.append((".SH " + head.upper()) if level <= 2 else (".SS " + head))
        elif kind == "code":
            out += code(content)
        elif kind == "item":
            out += [".IP \\(bu 2", inline(content)]
        elif kind == "term":
            out += [".TP", inline(content[0]), inline(content[1])]
        else:
            out += [".PP", inline(content)]
    return "\n".join(out) + "\n"


def main():
    source, out, version = sys.argv[1:]
    with open(source, encoding="utf-8") as f:
        text = page(f.read(), version, os.path.splitext(os.path.basename(source))[0])
    os.makedirs(os.path.dirname(out), exist_ok=True)
    with open(out, "w", encoding="utf-8") as f:
        f.write(text)


main()
