// Buffers and launches: which launch reads and writes which allocation, and where in it. data.traffic is the section of
// comm.json.
const traffic = data.traffic || null;
const allocationOf = new Map(allocations.map((a) => [a.id, a]));
// Buffers in order of allocation: {label, id, bytes, piece, launches, heat, all: bytes in all launches, from, to:
// indices in `launches` of its lifetime}.
const buffers = traffic && traffic.allocations ? Object.keys(traffic.allocations).map((label) => {
  const t = traffic.allocations[label] || {}, a = allocationOf.get(t.id);
  const named = (columns, rows) => rowsOf({columns, rows: Array.isArray(rows) ? rows : []}), uses = named(data.columns.traffic_launches, t.launches);
  return Object.assign({}, t, {label, launches: uses, heat: named(data.columns.traffic_heat, t.heat), all: d3.sum(uses, (r) => r.load + r.store), from: a ? a.from : 0, to: a && a.to !== null ? a.to : launches.length});
}) : [];
const bufferLabels = new Set(buffers.map((b) => b.label));
// Returns a function that goes to a buffer of the panel, or null.
function bufferLink(label) { return bufferLabels.has(label) ? () => setState({buffer: label}) : null; }

// Returns the index of a launch among those shown.
const launchPlaces = launches.map((l) => l.superstep);
function launchPlace(superstep) { return d3.bisectLeft(launchPlaces, superstep); }
// Divides launches into columns for a width in pixels: of(i) is the launches [from, to) of column i. Columns are no
// finer than `step` launches of the data.
function columnsOf(width, step, least) {
  const n = Math.max(1, Math.min(Math.ceil(launches.length / step), Math.floor(width / least)));
  return {n, width: width / n, most: Math.ceil(launches.length / n), of: (i) => [Math.ceil(i * launches.length / n), Math.ceil((i + 1) * launches.length / n)], at: (place) => Math.min(n - 1, Math.floor(place * n / launches.length))};
}
function launchWords(from, to) {
  const name = (i) => kernelNames[launches[i].kernel];
  return to - from > 1 ? say("launches ", "runs ") + launches[from].superstep + " … " + launches[to - 1].superstep + ": " + middle(name(from), 60) + " …" : say("launch ", "run ") + launches[from].superstep + ": " + name(from);
}
// Note on launches that share a column.
function columnNote(columns) { return columns.most > 1 ? "Each column sums up to " + count(columns.most) + say(" neighbouring launches; the table lists each", " neighbouring runs; the table lists each") + (traffic.launch_step > 1 ? " " + count(traffic.launch_step) : "") + "." : ""; }
// Draws ticks below columns: numbers of launches.
function launchAxis(c, columns, left, y, width) {
  const every = Math.max(1, Math.ceil(56 / columns.width));
  c.fillStyle = theme.muted;
  c.textAlign = "center";
  for (let i = 0; i < columns.n; i += every)
    c.fillText(String(launches[columns.of(i)[0]].superstep), Math.min(left + (i + 0.5) * columns.width, width - 10), y);
}
const bufferRow = {height: 26, top: 6, axis: 22};
function labelRoom(width) { return Math.min(210, width * 0.34); }

// ---- buffer by launch ----
function bufferSums(b, columns) {
  if (b.sums && b.sums.load.length === columns.n) return b.sums;
  const out = b.sums = {load: new Float64Array(columns.n), store: new Float64Array(columns.n), atomics: new Float64Array(columns.n), accesses: new Float64Array(columns.n)};
  for (const r of b.launches) {
    const i = columns.at(launchPlace(r.superstep));
    out.load[i] += r.load;
    out.store[i] += r.store;
    out.atomics[i] += r.atomics;
    out.accesses[i] += r.loads + r.stores + r.atomics + r.unknown;
  }
  return out;
}
function bufferMap(shown) {
  let columns = null, sums = [], cursor = null;
  const surface = canvas(100, say("Buffers by launch", "Buffers by run"), draw), e = surface.element, note = el("p", {class: "muted", id: "buffers-note"});
  function fit() { surface.setHeight(bufferRow.top + shown().length * bufferRow.height + bufferRow.axis); }
  function draw(c, width, height) {
    const left = labelRoom(width), list = shown();
    columns = columnsOf(width - left - 4, traffic.launch_step, 3);
    sums = list.map((b) => bufferSums(b, columns));
    note.textContent = columnNote(columns);
    const most = Math.max(1, d3.max(sums, (s) => Math.max(d3.max(s.load), d3.max(s.store)))), shade = (v) => 0.3 + 0.7 * Math.log2(1 + v) / Math.log2(1 + most);
    list.forEach((b, k) => {
      const y = bufferRow.top + k * bufferRow.height, x = (place) => left + place * (width - left - 4) / launches.length;
      c.globalAlpha = 1;
      c.fillStyle = state.buffer === b.label ? theme.accent : theme.ink;
      c.textAlign = "right";
      c.fillText(clipText(c, b.label, left - 10), left - 8, y + bufferRow.height / 2);
      c.fillStyle = theme.soft;
      c.fillRect(x(b.from), y + 1, Math.max(2, x(b.to) - x(b.from)), bufferRow.height - 3);
      for (let i = 0; i < columns.n; i++) drawColumn(c, sums[k], i, left + i * columns.width, y + 2, shade);
    });
    c.globalAlpha = 1;
    if (state.superstep !== null) {
      const i = columns.at(launchPlace(state.superstep));
      c.strokeStyle = theme.ink;
      c.lineWidth = 2;
      c.strokeRect(left + i * columns.width, 3, Math.max(3, columns.width), list.length * bufferRow.height + 4);
    }
    if (cursor) {
      c.strokeStyle = theme.accent;
      c.lineWidth = 2;
      c.strokeRect(left + cursor[1] * columns.width, bufferRow.top + cursor[0] * bufferRow.height, Math.max(4, columns.width), bufferRow.height - 1);
    }
    launchAxis(c, columns, left, height - 9, width);
  }
  // Draws reads above and writes below; a line between them marks atomics.
  function drawColumn(c, s, i, x, y, shade) {
    const gap = columns.width > 8 ? 1 : 0, half = (bufferRow.height - 5) / 2, w = Math.max(1, columns.width - gap);
    for (const [v, colour, at] of [[s.load[i], theme.load, y], [s.store[i], theme.store, y + half]]) {
      if (!v) continue;
      c.globalAlpha = shade(v);
      c.fillStyle = colour;
      c.fillRect(x, at, w, half);
    }
    if (!s.atomics[i]) return;
    c.globalAlpha = 1;
    c.fillStyle = theme.ink;
    c.fillRect(x, y + half - 1.5, w, 3);
  }
  function words([k, i]) {
    const b = shown()[k], s = sums[k], [from, to] = columns.of(i);
    return [b.label, launchWords(from, to), "read " + exactBytes(s.load[i]) + ", written " + exactBytes(s.store[i]), many(s.accesses[i], "access", "accesses") + (s.atomics[i] ? ", " + count(s.atomics[i]) + " of them atomics" : ""),
      from < b.from || from >= b.to ? "not allocated then" : null];
  }
  function hit(event) {
    const [px, py] = at(event, e), left = labelRoom(surface.width), k = Math.floor((py - bufferRow.top) / bufferRow.height), i = Math.floor((px - left) / columns.width);
    return k >= 0 && k < shown().length && i < columns.n ? [k, i] : null;
  }
  function choose([k, i]) {
    const from = i < 0 ? null : launches[columns.of(i)[0]].superstep;
    setState({buffer: state.buffer === shown()[k].label && i < 0 ? null : shown()[k].label, superstep: i < 0 ? state.superstep : from});
  }
  e.addEventListener("pointermove", (event) => {
    const cell = hit(event);
    if (!cell) hideTip();
    else showTip(event.clientX, event.clientY, cell[1] < 0 ? [shown()[cell[0]].label] : words(cell));
  });
  e.addEventListener("pointerleave", hideTip);
  e.addEventListener("click", (event) => { const cell = hit(event); if (cell) choose(cell); });
  e.addEventListener("keydown", (event) => {
    const step = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]}[event.key];
    if (event.key === "Enter" && cursor) choose(cursor);
    else if (event.key === "Escape") { cursor = null; hideTip(); setState({buffer: null, superstep: null}); }
    else if (!step) return;
    else cursor = cursor ? [Math.max(0, Math.min(shown().length - 1, cursor[0] + step[0])), Math.max(0, Math.min(columns.n - 1, cursor[1] + step[1]))] : [0, 0];
    event.preventDefault();
    surface.draw();
    if (!cursor) return;
    const box = e.getBoundingClientRect();
    showTip(box.left + labelRoom(surface.width) + cursor[1] * columns.width, box.top + cursor[0] * bufferRow.height, words(cursor));
  });
  e.addEventListener("blur", () => { if (cursor) { cursor = null; hideTip(); surface.draw(); } });
  return {surface, note, fit, sums: () => sums, columns: () => columns};
}
function bufferTableRows() {
  return buffers.flatMap((b) => b.launches.map((r) => Object.assign({label: b.label, kernel: traffic.launch_step > 1 || !kernelBySuperstep.has(r.superstep) ? "" : kernelNames[kernelBySuperstep.get(r.superstep)]}, r)));
}
const bufferColumns = [Object.assign(textColumn("buffer", "label"), {pick: (r) => bufferLink(r.label)}), launchColumn("superstep"), textColumn("kernel", "kernel", true), numberColumn("read (B)", "load"), numberColumn("written (B)", "store"),
  numberColumn("loads", "loads"), numberColumn("stores", "stores"), numberColumn("atomics", "atomics")];

// ---- address by time ----
const heatKinds = [["both", "Read and written", (r) => r.load + r.store], ["read", "Read", (r) => r.load], ["written", "Written", (r) => r.store]];
function heatSums(b, columns, of) {
  const rows = Math.max(1, Math.min(MOST_PIECES, Math.ceil(b.bytes / b.piece) || 1)), grid = new Float64Array(columns.n * rows);
  for (const r of b.heat) grid[r.piece * columns.n + columns.at(launchPlace(r.superstep))] += of(r);
  return {rows, grid};
}
function addressMap(shown) {
  let of = heatKinds[0][2], columns = null, sums = [];
  const surface = canvas(200, say("Addresses over launches", "Addresses over runs"), draw), e = surface.element, legend = el("div", {class: "legend"});
  const list = () => { const all = shown().filter((b) => b.bytes), one = buffers.find((b) => b.label === state.buffer && b.bytes); return one ? [one] : all; };
  const strip = () => list().length === 1 ? 260 : list().length < 5 ? 96 : 52;
  function fit() { surface.setHeight(bufferRow.top + list().length * (strip() + 6) + bufferRow.axis); }
  function draw(c, width, height) {
    const left = labelRoom(width);
    columns = columnsOf(width - left - 4, traffic.heat_step, 2);
    sums = list().map((b) => heatSums(b, columns, of));
    let most = 0, least = Infinity;
    for (const s of sums) for (const v of s.grid) if (v) { most = Math.max(most, v); least = Math.min(least, v); }
    const shade = (v) => most > least ? 0.06 + 0.94 * Math.log(v / least) / Math.log(most / least) : 0.75;
    sums.forEach((s, k) => {
      const b = list()[k], y = bufferRow.top + k * (strip() + 6);
      c.fillStyle = theme.soft;
      c.fillRect(left, y, width - left - 4, strip());
      c.fillStyle = theme.ink;
      c.textAlign = "right";
      c.fillText(clipText(c, b.label, left - 10), left - 8, y + 8);
      c.fillStyle = theme.muted;
      c.fillText(bytes(b.bytes), left - 8, y + strip() - 8);
      c.imageSmoothingEnabled = false;
      c.drawImage(gridImage(s.grid, columns.n, s.rows, shade), left, y, width - left - 4, strip());
    });
    launchAxis(c, columns, left, height - 9, width);
    const bar = el("i", {class: "ramp", style: "background:linear-gradient(to right," + [0.06, 0.25, 0.5, 0.75, 1].map(ramp).join(",") + ")"});
    clear(legend, most ? el("span", {}, exactBytes(least), bar, exactBytes(most), ", logarithmic") : "No bytes.", el("span", {}, "downwards: addresses from start to end of the buffer, in at most " + MOST_PIECES + " pieces"
      + (columns.most > 1 ? say("; to the right: launches, at most ", "; to the right: runs, at most ") + count(columns.most) + " summed per column" : "")));
  }
  e.addEventListener("pointermove", (event) => {
    const [px, py] = at(event, e), k = Math.floor((py - bufferRow.top) / (strip() + 6)), b = list()[k], i = columns ? Math.floor((px - labelRoom(surface.width)) / columns.width) : -1;
    const row = b ? Math.floor((py - bufferRow.top - k * (strip() + 6)) / (strip() / sums[k].rows)) : -1;
    if (!b || i < 0 || i >= columns.n || row < 0 || row >= sums[k].rows) { hideTip(); return; }
    showTip(event.clientX, event.clientY, [b.label, "bytes " + count(row * b.piece) + " to " + count(Math.min(b.bytes, (row + 1) * b.piece) - 1), launchWords(...columns.of(i)), exactBytes(sums[k].grid[row * columns.n + i])]);
  });
  e.addEventListener("pointerleave", hideTip);
  e.addEventListener("click", (event) => {
    const i = columns ? Math.floor((at(event, e)[0] - labelRoom(surface.width)) / columns.width) : -1;
    if (i >= 0 && i < columns.n) setState({superstep: launches[columns.of(i)[0]].superstep});
  });
  return {surface, legend, fit, list, sums: () => sums, kind(v) { of = heatKinds.find(([k]) => k === v)[2]; surface.draw(); }};
}
const MOST_PIECES = 64;
function heatTableRows(list) {
  return list.flatMap((b) => b.heat.map((r) => Object.assign({label: b.label, offset: r.piece * b.piece}, r)));
}
const heatColumns = [textColumn("buffer", "label"), launchColumn("superstep"), numberColumn("from byte", "offset"), numberColumn("read (B)", "load"), numberColumn("written (B)", "store")];

// ---- host programs ----
function programBuffers() {
  const used = new Map(buffers.map((b) => [b.id, b]));
  return allocations.filter((a) => used.has(a.id) || a.kind !== "section").map((a) => {
    const b = used.get(a.id), r = b && b.launches[0] || {load: 0, store: 0, loads: 0, stores: 0, atomics: 0};
    return Object.assign({}, a, {label: b ? b.label : "#" + a.id + " " + (a.name || a.kind), load: r.load, store: r.store, loads: r.loads, stores: r.stores, atomics: r.atomics,
      over: b && b.bytes ? r.load / a.bytes : 0, use: !r.load && !r.store ? "never touched" : !r.load ? "written, never read" : !r.store ? "read only" : ""});
  }).sort((a, b) => b.load + b.store - a.load - a.store || b.bytes - a.bytes);
}
const programColumns = [Object.assign(textColumn("buffer", "label", true), {pick: (r) => bufferLink(r.label)}), placeColumn(), numberColumn("times", "like", "allocated there"), numberColumn("bytes", "bytes"),
  numberColumn("read (B)", "load"), {name: "times over", num: true, title: "bytes read per byte of the buffer", get: (r) => r.over, text: (r) => r.over ? r.over.toFixed(1) : "–"}, numberColumn("written (B)", "store"), numberColumn("loads", "loads"), numberColumn("stores", "stores"), numberColumn("atomics", "atomics"), textColumn("use", "use")];

// ---- the panel ----
const firstBuffers = 12;
function drawBuffers(section) {
  if (!buffers.length || !launches.length) {
    section.append(nothing(data.traffic === undefined ? (data.from_json ? "The comm.json has no section “traffic”: memtrace extract --sections traffic writes it." : "Left out (--quick).")
      : data.traffic === null ? "Allocations are in the companion file (MemTrace-pipe-N.meta), and none was read." : say("No access of the launches shown was recorded.", "No access of the runs shown was recorded.")));
    return null;
  }
  if (ofThreads) {
    section.append(lead("Bytes read from and written to allocations and global variables, by the source line that allocates. " + footprintWords()), virtualTable(programBuffers(), programColumns, "Buffers"));
    return null;
  }
  let most = firstBuffers;
  // Shows the buffers with most bytes, in order of allocation, so that two that swap roles are both visible.
  const rank = new Map(buffers.slice().sort((a, b) => b.all - a.all).map((b, i) => [b, i])), shown = () => buffers.filter((b) => rank.get(b) < most || b.label === state.buffer);
  const map = bufferMap(shown), heat = addressMap(shown);
  let drawn = null;
  const refit = () => {
    map.fit();
    map.surface.draw();
    if (drawn === state.buffer + " " + most) return; // addresses of all launches do not depend on the selection
    drawn = state.buffer + " " + most;
    heat.fit();
    heat.surface.draw();
    select.value = state.buffer === null ? "" : state.buffer;
    more.hidden = most >= buffers.length;
  };
  const more = el("button", {type: "button", class: "quiet", on: {click() { most = Math.min(most + 50, 500); refit(); }}}, "show more of " + count(buffers.length) + " buffers");
  const select = el("select", {id: "buffer", "aria-label": "Buffer", on: {change() { setState({buffer: this.value || null}); }}}, el("option", {value: ""}, "all shown above"),
    ...buffers.slice().sort((a, b) => b.all - a.all).slice(0, 2000).map((b) => el("option", {value: b.label}, b.label)));
  section.append(lead(say("Allocations that each launch reads and writes, and where in them. Of two double buffers (ping-pong), one is read while the other is written. ", "Allocations that each run reads and writes, and where in them. Of two double buffers (ping-pong), one is read while the other is written. ") + footprintWords()),
    el("h3", {}, say("Buffer by launch", "Buffer by run")), figure(say("Buffers by launch", "Buffers by run"), map.surface, bufferTableRows, bufferColumns), map.note,
    el("div", {class: "bar"}, colourLegend([["load", "read (upper half)"], ["store", "written (lower half)"], ["ink", "atomics (line between)"], ["soft", "allocated"]]), more),
    el("h3", {}, say("Address by launch", "Address by run")), el("div", {class: "bar"}, el("label", {}, "buffer", select), segments("Bytes", heatKinds.map(([k, t]) => [k, t]), "both", (v) => heat.kind(v))),
    figure(say("Addresses over launches", "Addresses over runs"), heat.surface, () => heatTableRows(heat.list()), heatColumns), heat.legend);
  onState(refit);
  refit();
  return {map, heat, shown};
}
