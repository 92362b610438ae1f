// Source lines that access global memory, with what is known of each beside them. data.lines is as in comm.json: lines,
// variables and allocations with their volumes by kernel, each null where the trace lacks it.
const hotLines = data.lines && data.lines.lines ? data.lines.lines : null;
function volumeSum(kernels) {
  const v = {load: 0, store: 0, accesses: 0};
  for (const k of Object.values(kernels)) {
    v.load += k.Load;
    v.store += k.Store;
    v.accesses += k.loads + k.stores + k.atomics + k.unknown;
  }
  return v;
}
function lineIndex() {
  const files = new Map();
  const of = (file, line) => {
    if (!files.has(file)) files.set(file, new Map());
    const lines = files.get(file);
    if (!lines.has(line)) lines.set(line, {ops: [], launches: 0, bytes: 0, accesses: 0});
    return lines.get(line);
  };
  for (const s of sites) if (s.file && s.line) of(s.file, s.line).ops.push(s);
  for (const l of launches) if (l.file && l.line) of(l.file, l.line).launches++;
  for (const name in hotLines || {}) {
    const colon = name.lastIndexOf(":"), v = volumeSum(hotLines[name]);
    if (colon < 1) continue; // "?"
    const at = of(name.slice(0, colon), +name.slice(colon + 1));
    at.accesses += v.accesses;
    at.bytes += v.load + v.store;
  }
  return files;
}

function siteWords(at) {
  const seen = new Map();
  for (const s of at.ops) {
    const key = s.op + (s.size ? " " + s.size + " B" : "") + (s.name ? " " + s.name : "");
    seen.set(key, (seen.get(key) || 0) + 1);
  }
  const words = [...seen].map(([k, n]) => n > 1 ? k + " ×" + n : k);
  if (at.launches) words.push(many(at.launches, "launch", "launches"));
  return words;
}

function codeOf(file, lines, most) {
  const text = new Map(data.sources[file] ? data.sources[file].lines : []);
  const numbers = [...new Set([...text.keys(), ...lines.keys()])].sort((a, b) => a - b), body = el("tbody");
  let before = null;
  for (const n of numbers) {
    if (text.size && before !== null && n > before + 1) body.append(el("tr", {class: "gap"}, el("td", {class: "n"}, "⋮"), el("td"), el("td")));
    before = n;
    const at = lines.get(n), words = at ? siteWords(at) : [];
    const notes = el("td", {class: "ops", title: words.join("\n")});
    if (at && at.bytes) notes.append(el("i", {class: "heat", style: "width:" + Math.max(2, 90 * at.bytes / most) + "px"}), " " + bytes(at.bytes));
    if (words.length) notes.append(el("span", {class: "words"}, "  " + (words.length > 3 ? words.slice(0, 3).join(", ") + ", …" : words.join(", "))));
    body.append(el("tr", {class: at && at.ops.length ? "hit" : "", "data-line": n, "data-bytes": at ? at.bytes : 0}, el("td", {class: "n"}, String(n)),
      el("td", {}, text.has(n) ? text.get(n) : el("span", {class: "muted"}, "(source not found, or not to be shown: --source-root)")), notes));
  }
  return el("div", {class: "code", tabindex: "0", role: "region", "aria-label": "Source of " + file}, el("table", {}, body));
}

// The end of a path says more than its beginning.
function shortPath(path) {
  const parts = path.split("/");
  return path.length > 32 && parts.length > 4 ? "…/" + parts.slice(-3).join("/") : path;
}

function drawLines(section) {
  const index = lineIndex();
  if (!index.size) {
    section.append(nothing("No source lines are known: they are in the companion (MemTrace-pipe-N.meta), and none was read."));
    return;
  }
  const weight = (lines) => d3.sum([...lines.values()], (l) => hotLines ? l.bytes : l.ops.length);
  const files = [...index.keys()].sort((a, b) => weight(index.get(b)) - weight(index.get(a)) || (a < b ? -1 : 1));
  const most = d3.max([...index.values()], (lines) => d3.max([...lines.values()], (l) => l.bytes)) || 1;
  const holder = el("div"), select = el("select", {id: "file", "aria-label": "Source file", on: {change() { show(this.value); }}},
    ...files.map((f) => el("option", {value: f, title: f}, shortPath(f) + "  (" + many(weight(index.get(f)) && !hotLines ? weight(index.get(f)) : index.get(f).size, hotLines ? "line" : "access site") + ")")));
  function show(file) {
    clear(holder, codeOf(file, index.get(file), most));
    const lines = index.get(file), hottest = [...lines.keys()].reduce((m, n) => lines.get(n).bytes > lines.get(m).bytes ? n : m);
    look(hottest);
  }
  // Scrolls the source to a line; its row.
  function look(line) {
    const row = holder.querySelector("tr[data-line='" + line + "']"), box = holder.firstElementChild;
    box.scrollTop = row.offsetTop - box.clientHeight / 2;
    return row;
  }
  // From a bar to its line.
  function go(name) {
    const colon = name.lastIndexOf(":"), file = name.slice(0, colon);
    if (!index.has(file)) return;
    select.value = file;
    show(file);
    look(name.slice(colon + 1)).classList.add("chosen");
    holder.firstElementChild.scrollIntoView({block: "nearest"});
  }
  section.append(lead(!sites.length ? "No line is known to access global memory; what launches kernels is shown." : hotLines ? "Lines with accesses to global memory and the bytes they moved, with what the compiler made of them."
    : data.lines === undefined ? "Lines with accesses to global memory, and what the compiler made of each; bytes by line were left out" + (data.from_json ? " (mt-extract --sections lines)." : " (--quick).")
    : "Lines with accesses to global memory, and what the compiler made of each. A raw trace does not say which line an access came from, so there are no counts per line; a compact trace does."),
    el("div", {class: "bar"}, el("label", {}, "file", select)), holder);
  show(files[0]);
  if (hotLines) {
    const rows = volumeRows(hotLines, (name) => baseName(name));
    for (const r of rows) if (index.has(r.key.slice(0, r.key.lastIndexOf(":")))) r.pick = () => go(r.key);
    section.insertBefore(el("div", {id: "hot"}, el("h3", {}, "Hottest lines"), bars(rows, "Bytes by line", 12),
      colourLegend([["load", "loaded"], ["store", "stored"]])), holder.previousElementSibling);
  }
}

// Rows for bars() of {name: {kernel: volume}}, the most bytes first.
function volumeRows(places, shorten) {
  return Object.keys(places).map((name) => ({name, v: volumeSum(places[name]), kernels: Object.keys(places[name])}))
    .sort((a, b) => b.v.load + b.v.store - a.v.load - a.v.store || (a.name < b.name ? -1 : 1))
    .map((r) => ({key: r.name, name: shorten(r.name), title: r.name + "\n" + r.kernels.join("\n") + "\nloaded " + exactBytes(r.v.load) + ", stored " + exactBytes(r.v.store)
      + ", " + many(r.v.accesses, "access", "accesses"), parts: [[r.v.load, "load"], [r.v.store, "store"]], text: bytes(r.v.load + r.v.store)}));
}
