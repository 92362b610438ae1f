// Source lines that access global memory, with the figures of each. data.lines is the section of comm.json: lines,
// variables and allocations with their volumes by kernel, each null if the trace lacks it.
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
// Sums requests of a line, or of one access in it. data.coalescing is the section of comm.json.
function requestSum(list) {
  const v = {requests: 0, accesses: 0, bytes: 0, distinct: 0, sectors: 0};
  for (const r of list) for (const key in v) v[key] += r[key];
  return v;
}
// Bytes that requests move, and bytes used: a byte requested by several lanes of a request counts once.
function movedBytes(r) { return r.sectors * sectorBytes; }
function usedBytes(r) { return Math.min(r.distinct, movedBytes(r)); }
function usedShare(r) { return percent(usedBytes(r), movedBytes(r)); }
function perRequest(r) { return r.requests ? (r.sectors / r.requests).toFixed(1) : r.none || ""; }
// Text in place of figures of requests, for lines whose accesses are not grouped.
const ungrouped = data.apart ? "not grouped" : "";

// Returns the position of the number in "file:line", or -1 ("ns::kernel+0x120", machine code without lines).
function lineColon(name) { return (name || "").search(/:[0-9]+$/); }

// file -> line -> {ops: sites, launches, bytes, accesses, requests: rows of coalescing, parts: rows of single accesses,
// conflicts: racing bytes, banks: wavefronts due to bank conflicts}
function lineIndex() {
  const files = new Map();
  const of = (file, line) => {
    if (!files.has(file)) files.set(file, new Map());
    const lines = files.get(file);
    if (!lines.has(line)) lines.set(line, {ops: [], launches: 0, bytes: 0, accesses: 0, requests: [], parts: [], conflicts: 0, banks: 0, miss: null});
    return lines.get(line);
  };
  const named = (name) => {
    const colon = lineColon(name);
    return colon < 1 ? null : of(name.slice(0, colon), +name.slice(colon + 1)); // "?" is not a line
  };
  for (const s of sites) if (s.file && s.line) of(s.file, s.line).ops.push(s);
  for (const l of launches) if (l.file && l.line) of(l.file, l.line).launches += l.count;
  for (const name in hotLines || {}) {
    const v = volumeSum(hotLines[name]), at = named(name);
    if (!at) continue;
    at.accesses += v.accesses;
    at.bytes += v.load + v.store;
  }
  for (const r of data.coalescing ? coalescingRows() : []) if (named(r.line)) named(r.line).requests.push(r);
  for (const r of (data.coalescing && data.coalescing.sites) || []) if (named(r.line)) named(r.line).parts.push(r);
  for (const r of data.misses ? data.misses.lines : []) if (named(r.line)) named(r.line).miss = r;
  for (const c of data.conflicts ? conflictRows() : [])
    for (const name of new Set([c.lineA, c.lineB])) if (named(name)) named(name).conflicts += c.bytes;
  for (const r of data.shared ? data.shared.banks.rows : []) if (r.file && r.line) of(r.file, r.line).banks += bankConflicts(r);
  return files;
}
const lineHeats = [["bytes", "Bytes", (at) => at.bytes], ["wasted", "Wasted bytes", (at) => { const v = requestSum(at.requests); return at.miss ? at.miss.fetched - at.miss.used : movedBytes(v) - usedBytes(v); }],
                   ["conflicts", "Conflicts", (at) => at.conflicts], ["banks", "Bank conflicts", (at) => at.banks]];

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
// Returns the accesses of a line, by column, variable and type, over all kernels; [] if there is only one.
function lineParts(at) {
  const groups = new Map();
  for (const r of at.parts) {
    const key = JSON.stringify([r.column, r.variable, r.type]);
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(r);
  }
  const parts = [...groups.values()].map((list) => Object.assign({column: list[0].column, variable: list[0].variable, type: list[0].type}, requestSum(list)));
  for (const p of parts) p.bytes *= p.type === "atomic" ? 2 : 1; // load and store, as everywhere
  return parts.length > 1 ? parts.sort((a, b) => a.column - b.column) : [];
}

// Tells which of the profiler's two figures corresponds to this one.
const atomicWords = "Atomics: 1 if all lanes add to one word, as in smsp__sass_l1tex_t_sectors_pipe_lsu_mem_global_op_atom; l1tex__t_sectors_pipe_lsu_mem_global_op_atom counts 32.";
// Returns true if lanes 16 bytes apart access less than 16 bytes. Accesses of 8 bytes may be halves.
function halved(r) { return (r.strides["16"] || r.strides["-16"]) && r.bytes < 16 * r.accesses; }
// True if there is a column of bank conflicts.
const bankColumn = !!data.shared && data.shared.banks.rows.some((r) => r.wavefronts > r.ideal);
const codeHeads = [["line", "n", ""], ["bytes", "num", "asked for by all lanes; an atomic counts as a load and as a store"], ...(ofThreads ? [["misses", "num", "misses of a cache per thread"], ["used", "num", "share of the fetched bytes that are used"]] : [["sectors/\u200brequest", "num", "sectors of 32 bytes; 4 is best if 32 lanes access 4 bytes each. " + atomicWords], ["used", "num", "share of the bytes of its sectors that a request uses"]]),
                   ["conflicts", "num", say("bytes with possible races between CTAs of one launch", "bytes with possible races between threads")], ...(bankColumn ? [["bank conflicts", "num", "wavefronts of shared memory beyond those needed without conflicts"]] : []), ["source", "source", ""], ["accesses", "words", "accesses that the compiler made from this line"]];
// Returns the cells of a row after its number; v: sums of requests.
function codeCells(volume, v, conflicts, banks, source, words, title) {
  return [el("td", {class: "num ops"}, ...volume), el("td", {class: "num", "data-head": ofThreads ? "misses" : "sectors/request"}, v.miss ? count(v.miss.misses) : perRequest(v)),
    el("td", {class: "num", "data-head": "used"}, v.miss ? (v.miss.fetched ? percent(v.miss.used, v.miss.fetched) : "") : v.requests ? usedShare(v) : ""),
    el("td", {class: "num conflict", "data-head": "in conflict"}, conflicts), ...(bankColumn ? [el("td", {class: "num", "data-head": "bank conflicts"}, banks ? count(banks) : "")] : []), el("td", {class: "source"}, ...source), el("td", {class: "words", title}, words)];
}
function codeRow(n, text, at, heat, most) {
  const words = at ? siteWords(at) : [], value = at ? heat(at) : 0;
  const volume = [value ? el("i", {class: "heat", style: "width:" + Math.max(2, 60 * value / most) + "px"}) : "", at && at.bytes ? " " + bytes(at.bytes) : ""];
  return el("tr", {class: at && at.ops.length ? "hit" : "", "data-line": n, "data-bytes": at ? at.bytes : 0}, el("td", {class: "n"}, String(n)),
    ...codeCells(volume, Object.assign(requestSum(at ? at.requests : []), {miss: at && at.miss, none: at && at.bytes ? ungrouped : ""}), at && at.conflicts ? bytes(at.conflicts) : "", at ? at.banks : 0, [text], words.length > 3 ? words.slice(0, 3).join(", ") + ", …" : words.join(", "), words.join("\n")));
}
function partRow(p) {
  return el("tr", {class: "part"}, el("td", {class: "n"}), ...codeCells([bytes(p.bytes)], p, "", 0, ["└ column " + p.column + ", ", p.variable ? el("b", {}, p.variable) : "", p.variable ? ", " : "", p.type], many(p.requests, "request"), null));
}
function codeOf(file, lines, heat, most) {
  const text = new Map(data.sources[file] ? data.sources[file].lines : []), bare = ![...lines.values()].some((at) => at.conflicts);
  const numbers = [...new Set([...text.keys(), ...lines.keys()])].sort((a, b) => a - b), body = el("tbody");
  let before = null;
  for (const n of numbers) {
    if (text.size && before !== null && n > before + 1) body.append(el("tr", {class: "gap"}, el("td", {class: "n"}, "⋮"), el("td", {colspan: codeHeads.length - 1})));
    before = n;
    const at = lines.get(n);
    body.append(codeRow(n, text.has(n) ? text.get(n) : el("span", {class: "muted"}, "(source not found, or not included: --source-root)"), at, heat, most),
      ...(at ? lineParts(at).map(partRow) : []));
  }
  return el("div", {class: "code" + (bare ? " bare" : ""), tabindex: "0", role: "region", "aria-label": "Source of " + file},
    el("table", {}, el("thead", {}, el("tr", {}, ...codeHeads.map(([name, kind, title]) => el("th", {scope: "col", class: kind + (name === "conflicts" ? " conflict" : ""), title: title || null}, name)))), body));
}

// Shortens a path at its beginning, since its end is more specific.
function shortPath(path) {
  const parts = path.split("/");
  return path.length > 32 && parts.length > 4 ? "…/" + parts.slice(-3).join("/") : path;
}
// Returns a function that goes to a line of the panel, or null.
function lineLink(name) {
  const colon = lineColon(name);
  return colon > 0 && lineFiles().has(name.slice(0, colon)) ? () => setState({line: name}) : null;
}
let lineFilesKept = null;
function lineFiles() { return lineFilesKept = lineFilesKept || lineIndex(); }
function lineTableRows(index) {
  return [...index].flatMap(([file, lines]) => [...lines].flatMap(([line, at]) => [{file, line, part: "", bytes: at.bytes, conflicts: at.conflicts, banks: at.banks, v: Object.assign(requestSum(at.requests), {none: at.bytes ? ungrouped : ""})},
    ...lineParts(at).map((p) => ({file, line, part: "column " + p.column + ", " + (p.variable || "?") + ", " + p.type, bytes: p.bytes, conflicts: null, banks: null, v: p}))]));
}
const lineTableColumns = [placeColumn(), textColumn("access", "part"), numberColumn("bytes", "bytes"), {name: "requests", num: true, get: (r) => r.v.requests, text: (r) => r.v.requests ? count(r.v.requests) : r.v.none || count(0)},
  {name: "sectors per request", num: true, title: atomicWords, get: (r) => r.v.requests ? r.v.sectors / r.v.requests : null, text: (r) => perRequest(r.v)},
  {name: "used", num: true, get: (r) => r.v.sectors ? usedBytes(r.v) / movedBytes(r.v) : null, text: (r) => usedShare(r.v)}, numberColumn("races (B)", "conflicts"), ...(bankColumn ? [numberColumn("bank conflicts", "banks")] : [])];

function drawLines(section) {
  const index = lineFiles();
  if (!index.size) {
    if (hotLines && Object.keys(hotLines).some((name) => name !== "?")) {
      section.append(lead("No source lines are known (nvcc -lineinfo adds them): accesses by address in the machine code."));
      section.append(el("div", {id: "hot"}, el("h3", {}, "Hottest places"), bars(volumeRows(hotLines, (name) => name), "Bytes by place", 12, ["loaded (B)", "stored (B)"]),
        colourLegend([["load", "loaded"], ["store", "stored"]])));
      return null;
    }
    section.append(nothing("No source lines are known: they are in the companion file (MemTrace-pipe-N.meta), and none was read."));
    return null;
  }
  const weight = (lines) => d3.sum([...lines.values()], (l) => hotLines ? l.bytes : l.ops.length);
  const files = [...index.keys()].sort((a, b) => weight(index.get(b)) - weight(index.get(a)) || (a < b ? -1 : 1));
  const all = [...index].flatMap(([file, lines]) => [...lines].map(([line, at]) => ({file, line, at})));
  const heats = lineHeats.filter(([, , of]) => all.some((l) => of(l.at)));
  let heat = heats.length ? heats[0][2] : lineHeats[0][2], order = [], place = -1;
  const holder = el("div"), words = el("output"), select = el("select", {id: "file", "aria-label": "Source file", on: {change() { show(this.value); }}},
    ...files.map((f) => el("option", {value: f, title: f}, shortPath(f) + "  (" + (hotLines ? many([...index.get(f).values()].filter((l) => l.accesses).length, "line") : many(weight(index.get(f)) || index.get(f).size, "access site")) + ")")));
  function show(file) {
    const focused = holder.contains(document.activeElement);
    select.value = file;
    clear(holder, codeOf(file, index.get(file), heat, d3.max(all, (l) => heat(l.at)) || 1));
    if (focused) holder.firstElementChild.focus({preventScroll: true});
    const lines = index.get(file), hottest = [...lines.keys()].reduce((m, n) => heat(lines.get(n)) > heat(lines.get(m)) ? n : m);
    look(hottest);
  }
  // Scrolls the source to a line. Returns its row.
  function look(line) {
    const row = holder.querySelector("tr[data-line='" + line + "']"), box = holder.firstElementChild;
    if (row) box.scrollTop = row.offsetTop - box.clientHeight / 2;
    return row;
  }
  function rank() {
    order = all.filter((l) => heat(l.at)).sort((a, b) => heat(b.at) - heat(a.at) || a.line - b.line);
    place = -1;
  }
  // Goes to a line, from any place that names it.
  function go(name) {
    const colon = lineColon(name), file = name.slice(0, colon), line = +name.slice(colon + 1);
    if (!index.has(file)) return;
    show(file);
    const row = look(line);
    if (row) row.classList.add("chosen");
    place = order.findIndex((l) => l.file === file && l.line === line);
    words.textContent = place < 0 ? "" : "number " + count(place + 1) + " of " + count(order.length);
    holder.firstElementChild.scrollIntoView({block: "nearest"});
  }
  function step(by) {
    if (!order.length) return;
    const l = order[(place + by + order.length + (place < 0 && by < 0)) % order.length];
    setState({line: l.file + ":" + l.line});
  }
  section.addEventListener("keydown", (event) => {
    if (event.target.matches("input, select") || event.ctrlKey || event.metaKey || event.altKey || !["n", "p"].includes(event.key)) return;
    event.preventDefault();
    step(event.key === "n" ? 1 : -1);
  });
  section.append(lead(!sites.length ? say("No source line is known to access global memory; lines that launch kernels are shown.", "No source line is known to access memory; lines that run programs are shown.") : ofThreads ? "Source lines: bytes loaded and stored, misses in a cache per thread, and the share of fetched bytes that are used." : hotLines ? "Lines that access global memory: bytes loaded and stored, coalescing of the warps’ requests, and the accesses that the compiler made from them. Several accesses in one line are listed separately, by column and variable."
    : data.lines === undefined ? "Lines that access global memory, and the accesses that the compiler made from them; bytes by line were left out" + (data.from_json ? " (memtrace extract --sections lines)." : " (--quick).")
    : "Lines that access global memory, and the accesses that the compiler made from them. There are no counts per line: a raw trace does not record the line of an access; a compact trace does."),
    el("div", {class: "bar"}, el("label", {}, "file", select), heats.length > 1 ? segments("Sort by", heats.map(([k, t]) => [k, t]), heats[0][0], (v) => { heat = heats.find(([k]) => k === v)[2]; rank(); show(select.value); }) : "",
      heats.length ? el("span", {class: "seg"}, el("button", {type: "button", id: "hotter", "aria-label": "previous hottest line", "aria-keyshortcuts": "p", on: {click() { step(-1); }}}, "‹ p"),
        el("button", {type: "button", id: "next-hottest", "aria-keyshortcuts": "n", on: {click() { step(1); }}}, "next hottest (n) ›")) : "", words, csvButton("Source lines", () => lineTableRows(index), lineTableColumns)), holder);
  rank();
  show(files[0]);
  if (hotLines) {
    const rows = volumeRows(hotLines, (name) => baseName(name));
    for (const r of rows) r.pick = lineLink(r.key);
    section.insertBefore(el("div", {id: "hot"}, el("h3", {}, "Hottest lines"), bars(rows, "Bytes by line", 12, ["loaded (B)", "stored (B)"]),
      colourLegend([["load", "loaded"], ["store", "stored"]])), holder.previousElementSibling);
  }
  let shown = null;
  onState(() => {
    if (state.line !== null && state.line !== shown) go(state.line);
    shown = state.line;
  });
  return {go, order: () => order};
}

// Returns rows for bars() from {name: {kernel: volume}}, most bytes first.
function volumeRows(places, shorten) {
  return Object.keys(places).map((name) => ({name, v: volumeSum(places[name]), kernels: Object.keys(places[name])}))
    .sort((a, b) => b.v.load + b.v.store - a.v.load - a.v.store || (a.name < b.name ? -1 : 1))
    .map((r) => ({key: r.name, full: r.name, name: shorten(r.name), title: r.name + "\n" + r.kernels.join("\n") + "\nloaded " + exactBytes(r.v.load) + ", stored " + exactBytes(r.v.store)
      + ", " + many(r.v.accesses, "access", "accesses"), parts: [[r.v.load, "load"], [r.v.store, "store"]], text: bytes(r.v.load + r.v.store)}));
}
