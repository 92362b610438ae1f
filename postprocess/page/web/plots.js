// Results of the further analyses of memtrace extract (sections of comm.json with the same names): coalescing, reuse,
// sharing, races, placement; bytes by allocation and variable.
function block(id, title, text, ...children) {
  return el("div", {id}, el("h3", {}, title), text ? lead(text) : null, ...children);
}
// Returns the selected supersteps of {kernel: {superstep: value}}: [[kernel, superstep, value], …].
function chosenLaunches(kernels) {
  const out = [];
  for (const kernel in kernels)
    for (const step in kernels[kernel])
      if (state.superstep === null || state.superstep === +step) out.push([kernel, +step, kernels[kernel][step]]);
  return out;
}
// Returns a block whose picture follows the selected superstep.
function living(id, title, text, draw) {
  const holder = el("div");
  const follow = () => clear(holder, draw());
  onState(follow);
  follow();
  return block(id, title, text, holder);
}

// ---- coalescing ----
const sectorBytes = 32;
function coalescingRows() {
  const rows = [];
  for (const kernel in data.coalescing.kernels)
    for (const line in data.coalescing.kernels[kernel])
      for (const type in data.coalescing.kernels[kernel][line])
        rows.push(Object.assign({kernel, line, type}, data.coalescing.kernels[kernel][line][type]));
  return rows;
}
// Sums over all kernels: instances of a template share their lines. Accesses without line stay separate by kernel.
const coalescingSums = ["requests", "accesses", "bytes", "distinct", "sectors", "lines", "single", "irregular"];
function coalescingLines(all = coalescingRows()) {
  const sums = new Map();
  for (const r of all) {
    const key = JSON.stringify([r.line, r.type, r.line === "?" ? r.kernel : ""]), s = sums.get(key);
    if (!s) {
      sums.set(key, Object.assign({}, r, {kernels: 1, strides: Object.assign({}, r.strides)}));
      continue;
    }
    s.kernels++;
    for (const k of coalescingSums) s[k] += r[k];
    for (const k in r.strides) s.strides[k] = (s.strides[k] || 0) + r.strides[k];
  }
  return [...sums.values()];
}
function strideWords(r) {
  const of = Object.keys(r.strides).map((s) => [s, r.strides[s]]).sort((a, b) => b[1] - a[1]).slice(0, 3);
  return of.map(([s, n]) => "stride " + s + " B: " + percent(n, r.requests)).concat(r.irregular ? ["irregular: " + percent(r.irregular, r.requests)] : [],
    r.single ? ["one lane: " + percent(r.single, r.requests)] : []).join(", ");
}
function coalescingBlock() {
  if (data.coalescing === undefined) return null;
  if (data.coalescing === null)
    return block("coalescing", "Coalescing", null, nothing(data.apart ? "Not grouped: the kernels ran one thread at a time, so their accesses form no requests of warps." : "Coalescing needs the lanes of each warp: a compact trace (MEMTRACE_FORMAT=compact) has them, a raw trace does not."));
  const vain = (r) => movedBytes(r) - usedBytes(r), rows = coalescingLines(), whole = rows.sort((a, b) => vain(b) - vain(a) || b.sectors - a.sectors);
  if (!rows.length) return block("coalescing", "Coalescing", null, nothing("No warp accessed global memory."));
  const sum = (key) => whole.reduce((s, r) => s + r[key], 0), moved = sum("sectors") * sectorBytes;
  const picture = bars(whole.map((r) => ({name: (r.line === "?" ? r.kernel : baseName(r.line)) + " " + r.type,
    title: [r.kernel + (r.kernels > 1 ? " and " + many(r.kernels - 1, say("other kernel", "other program")) : ""), r.line + ", " + r.type, many(r.requests, "request") + " of " + many(r.accesses, "lane", "lanes"), many(r.sectors, "sector") + ", " + many(r.lines, "line"), strideWords(r), r.type === "atomic" ? atomicWords : null].filter(Boolean).join("\n"),
    full: [r.line === "?" ? r.kernel : r.line, r.type].join(" "), pick: lineLink(r.line), parts: [[usedBytes(r), "load"], [movedBytes(r) - usedBytes(r), "store-pale"]],
    text: perRequest(r) + " sectors per request, " + usedShare(r) + " used"})), "Sectors moved by line", 14, ["used (B)", "wasted (B)"]);
  const out = block("coalescing", "Coalescing", "Bytes of the " + sectorBytes + "-byte sectors that warps' requests access: used (a byte that several lanes of a request access counts once, as in the efficiency of memtrace extract) and wasted. Lines with most wasted bytes come first.", el("p", {id: "coalescing-sum"},
    many(sum("requests"), "request") + ", " + many(sum("sectors"), "sector") + " (" + bytes(moved) + "), " + percent(sum("distinct"), moved) + " of it used"), picture,
    colourLegend([["load", "used"], ["store-pale", "wasted"]]), rows.some(halved) ? el("p", {class: "muted"}, data.words.halves) : null,
    data.coalescing.unmasked ? el("p", {class: "muted"}, many(data.coalescing.unmasked, "access", "accesses") + " in no known request: not in these figures.") : null);
  out.className = "wide";
  return out;
}

// ---- reuse ----
const levels = [["CTA", "load", 6], ["SM", "store", 3.6], ["device", "good", 1.4]].filter(([level]) => !ofThreads || level !== "SM"); // narrower lines are drawn over wider ones
// Returns the misses in an LRU cache of 2^k lines, k = 0, 1, …
function missCurve(launchesOf, level) {
  let uses = 0, largest = 1, lines = 0;
  const hits = new Map();
  for (const [, , v] of launchesOf) {
    uses += v.uses;
    largest = Math.max(largest, v[level].largest);
    lines += v[level].lines;
    for (const d in v[level].histogram) hits.set(+d, (hits.get(+d) || 0) + v[level].histogram[d]);
  }
  const points = [];
  for (let k = 0; k === 0 || 2 ** (k - 1) < largest; k++) {
    let hit = 0;
    for (const [d, n] of hits) if (d < 2 ** k) hit += n; // buckets are powers of two: 0, 1, 2–3, 4–7 …
    points.push([2 ** k, uses ? (uses - hit) / uses : 0, uses - hit]);
  }
  return {points, largest, uses, lines};
}
// Returns the scale's end: 100 %, or if there are few misses a round number above the maximum.
function missScale(curves) {
  const most = d3.max(curves, (c) => d3.max(c.points, (p) => p[1])) || 0;
  return d3.scaleLinear().domain([0, most > 0.5 ? 1 : Math.max(most, 0.001)]).nice(4);
}
function reusePicture() {
  const chosen = chosenLaunches(data.reuse.kernels), size = data.reuse.line_size;
  if (!chosen.some(([, , v]) => v.uses)) return nothing("No accesses.");
  const curves = levels.map(([level, colour, wide]) => Object.assign({level, colour, wide}, missCurve(chosen, level)));
  const width = 560, height = 250, box = {left: 46, right: 12, top: 22, bottom: 44}, most = d3.max(curves, (c) => c.points[c.points.length - 1][0]);
  const x = d3.scaleLog().base(2).domain([1, Math.max(2, most)]).range([box.left, width - box.right]), y = missScale(curves).range([height - box.bottom, box.top]);
  const svg = d3.create("svg").attr("class", "curve").attr("viewBox", `0 0 ${width} ${height}`).attr("role", "img").attr("aria-label", "Miss rate by cache size");
  for (const t of y.ticks(4)) {
    svg.append("line").attr("class", "grid").attr("x1", box.left).attr("x2", width - box.right).attr("y1", y(t)).attr("y2", y(t));
    svg.append("text").attr("x", box.left - 6).attr("y", y(t) + 4).attr("text-anchor", "end").text(+(100 * t).toFixed(2) + "\u00a0%");
  }
  svg.append("text").attr("class", "axis").attr("x", 0).attr("y", 10).text("uses that miss");
  svg.append("text").attr("class", "axis").attr("x", width - box.right).attr("y", height - 6).attr("text-anchor", "end").text("size of the cache →");
  const every = Math.ceil(Math.log2(Math.max(2, most)) / 8);
  for (let k = 0; 2 ** k <= most; k += every)
    svg.append("text").attr("x", x(2 ** k)).attr("y", height - box.bottom + 18).attr("text-anchor", "middle").text(bytes(2 ** k * size));
  for (const c of curves) {
    svg.append("path").attr("stroke", `var(--${c.colour})`).style("stroke-width", c.wide).attr("d", d3.line().x((p) => x(p[0])).y((p) => y(p[1]))(c.points));
    svg.append("g").selectAll("circle").data(c.points).join("circle").attr("cx", (p) => x(p[0])).attr("cy", (p) => y(p[1])).attr("r", 2 + c.wide / 2).attr("fill", `var(--${c.colour})`)
      .on("mousemove", (p) => showTip(d3.event.clientX, d3.event.clientY, ["per " + nameWord(c.level) + ", cache of " + bytes(p[0] * size), percent(p[2], c.uses) + " miss", many(p[2], "use") + " of " + count(c.uses)]))
      .on("mouseleave", hideTip);
  }
  const words = curves.map((c) => [c.colour, (c.level === "device" ? (chosen.length > 1 ? say("one launch touches at most ", "one run touches at most ") : say("the launch touches ", "the run touches ")) : "one " + nameWord(c.level) + " touches at most ") + many(c.largest, "line") + " (" + bytes(c.largest * size) + ")"]);
  return el("div", {}, figure("Misses by size of a cache", svg.node(), () => curves.flatMap((c) => c.points.map((p) => ({level: nameWord(c.level), bytes: p[0] * size, misses: p[2], uses: c.uses}))),
    [textColumn("cache per", "level"), numberColumn("size (B)", "bytes"), numberColumn("misses", "misses"), numberColumn("uses", "uses")]), colourLegend(words), el("p", {class: "muted"}, footprintWords()));
}
// Returns the footprint of the run and its largest launch: [lines, launch with most lines, its lines]; null: not known.
let footprintKept;
function footprint() {
  if (footprintKept === undefined) footprintKept = findFootprint();
  return footprintKept;
}
function findFootprint() {
  if (!data.reuse || data.reuse.footprint === undefined) return null;
  let most = null;
  for (const kernel in data.reuse.kernels)
    for (const step in data.reuse.kernels[kernel]) {
      const lines = data.reuse.kernels[kernel][step].device.largest;
      if (!most || lines > most.lines) most = {kernel, step: +step, lines};
    }
  return most && {lines: data.reuse.footprint, bytes: data.reuse.footprint * data.reuse.line_size, step: most.step, kernel: most.kernel, most: most.lines * data.reuse.line_size};
}
function footprintWords() {
  const f = footprint();
  if (f && ofThreads) return "It touches " + aboutSample() + many(f.lines, "cache line") + " of " + bytes(data.reuse.line_size) + " (" + bytes(f.bytes) + ").";
  return f ? "The whole run touches " + aboutSample() + many(f.lines, "line") + " (" + bytes(f.bytes) + "); " + (filtered ? say("the largest launch shown, ", "the largest run shown, ") : say("its largest launch, ", "its largest run, ")) + f.step + " (" + middle(shortKernel(f.kernel), 40) + "), " + bytes(f.most) + "." : "";
}
// Footprint and misses of a sample are estimates.
function aboutSample() {
  return data.reuse.sample > 1 ? "about " : "";
}
function sampleWords() {
  const parts = Object.values(data.reuse.kernels).flatMap((steps) => Object.values(steps)).filter((v) => v.error_uses !== undefined).map((v) => v.uses ? v.error_uses / v.uses : 0);
  return parts.length ? " An estimate from one of " + count(data.reuse.sample) + " lines of the device (standard error: up to " + (100 * Math.max(...parts)).toFixed(1) + "\u00a0% of the uses; --sample=1 is exact)." : "";
}
function reuseBlock() {
  if (!data.reuse) return null;
  return living("reuse", "Reuse", say("Misses in a cache of a given size, if each CTA, each SM, or the whole device had one (least recently used line replaced, lines of ", "Misses in a cache of a given size, if each thread, or all threads together, had one (least recently used line replaced, lines of ")
    + data.reuse.line_size + " bytes)." + sampleWords(), reusePicture);
}

// ---- sharing ----
const sharingKinds = [["private", "muted", say("one CTA", "one thread")], ["read", "load", "several read"], ["true", "good", "one writes bytes that others use"], ["false", "store", "false sharing: others use different bytes of the line"]];
function sharingPicture() {
  const sums = new Map(), top = [];
  for (const [kernel, step, v] of chosenLaunches(data.sharing.kernels)) {
    for (const name in v.allocations) {
      if (!sums.has(name)) sums.set(name, {private: 0, read: 0, true: 0, false: 0});
      for (const [k] of sharingKinds) sums.get(name)[k] += v.allocations[name][k].accesses;
    }
    for (const t of v.top) if (t.sharing === "false") top.push(Object.assign({kernel, step}, t));
  }
  const rows = [...sums].map(([name, s]) => ({name, pick: bufferLink(name), all: sharingKinds.reduce((a, [k]) => a + s[k], 0), parts: sharingKinds.map(([k, c]) => [s[k], c]),
    title: name + "\n" + sharingKinds.map(([k, , w]) => w + ": " + many(s[k], "access", "accesses")).join("\n"), bad: s.false})).sort((a, b) => b.bad - a.bad || b.all - a.all);
  for (const r of rows) r.text = count(r.all) + (r.bad ? ", " + percent(r.bad, r.all) + " false sharing" : "");
  top.sort((a, b) => b.accesses - a.accesses);
  return el("div", {}, rows.length ? bars(rows, "Accesses by sharing", 8, sharingKinds.map(([k]) => k)) : nothing("No accesses."), colourLegend(sharingKinds.map(([, c, w]) => [c, w])),
    top.length ? el("p", {class: "muted"}, "Most false sharing: " + top.slice(0, 3).map((t) => t.address + " of " + (t.allocation || "an unknown allocation") + " (" + many(t.writers, "writer") + ", " + many(t.accesses, "access", "accesses") + ")").join("; ") + ".") : null);
}

// ---- races (section conflicts) ----
function conflictRows() {
  const rows = [];
  for (const kernel in data.conflicts)
    for (const step in data.conflicts[kernel])
      for (const c of data.conflicts[kernel][step])
        rows.push({kernel, step: +step, lineA: c.a.line, lineB: c.b.line, a: (c.a.line ? baseName(c.a.line) + " " : "") + typeWord(c.a.type), b: (c.b.line ? baseName(c.b.line) + " " : "") + typeWord(c.b.type), bytes: c.bytes,
          address: c.address, allocation: c.allocation || "–", ctas: c.ctas.map((k) => ofThreads ? k[0] : k.join(",")).join(" and ")});
  return rows;
}
function conflictsBlock() {
  if (!data.conflicts) return null;
  const rows = conflictRows();
  if (!rows.length) return block("conflicts", say("Possible races between CTAs", "Possible races between threads"), null, nothing(say("No two CTAs of one launch access the same byte, one of them with a plain store.", "No two threads access the same byte unordered, one of them with a plain store.")));
  const out = block("conflicts", say("Possible races between CTAs", "Possible races between threads"), say("Bytes that two CTAs of one launch access, at least one of them with a plain store. CUDA does not order them; the program may.", "Bytes that two threads access, at least one of them with a plain store. Neither locks nor atomics order them; the program may do so in another way."),
    virtualTable(rows.sort((a, b) => b.bytes - a.bytes), [textColumn("kernel", "kernel", true), launchColumn("step"), Object.assign(textColumn("one", "a"), {pick: (r) => lineLink(r.lineA)}),
      Object.assign(textColumn("other", "b"), {pick: (r) => lineLink(r.lineB)}), numberColumn("bytes", "bytes"),
      textColumn("first at", "address", true), Object.assign(textColumn("allocation", "allocation"), {pick: (r) => bufferLink(r.allocation)}), textColumn(say("for example CTAs", "for example threads"), "ctas")], "Conflicts"));
  out.className = "wide";
  return out;
}

// ---- placement ----
const placementNames = {block: say("blocks of CTAs", "blocks of threads"), robin: "round robin", mincut: "least traffic found"};
function placementBlock() {
  const p = ofThreads ? null : data.placement;
  if (!p) return null;
  const known = Object.values(p.policies).every((x) => typeof x.distinct === "number");
  if (!p.load) return block("placement", "On " + many(p.devices, "device"), null, nothing("There is no communication: no bytes would cross between devices."));
  return block("placement", "On " + many(p.devices, "device"), say("If the CTAs of each launch were split over ", "If the threads of each run were split over ") + p.devices + " devices: bytes that would cross between them, out of " + exactBytes(p.load) + " of communication. A byte counts each time it is read"
    + (known ? say("; a distinct byte counts once per launch and device that reads it.", "; a distinct byte counts once per run and device that reads it.") : "; the number of distinct bytes is not known."),
    bars([...(typeof p.ran === "number" ? [{name: "as it ran", parts: known ? [[p.ran, "store"], [0, "store-pale"]] : [[p.ran, "store"]], title: exactBytes(p.ran), text: bytes(p.ran) + ", " + percent(p.ran, p.load)}] : []), ...Object.keys(p.policies).map((k) => placementRow(k, p.policies[k], p.load, known))], "Bytes across devices", 8, known ? ["distinct (B)", "read again (B)"] : ["across (B)"]),
    known ? colourLegend([["store", "distinct"], ["store-pale", "read again"]]) : null);
}
// known: distinct bytes are known; files of earlier versions lack them.
function placementRow(name, policy, load, known) {
  const {cross, distinct} = policy;
  return {name: placementNames[name] || name, parts: known ? [[distinct, "store"], [cross - distinct, "store-pale"]] : [[cross, "store"]],
    title: exactBytes(cross) + (known ? ", " + exactBytes(distinct) + " of them distinct" : ""),
    text: bytes(cross) + ", " + percent(cross, load) + (known ? "; " + bytes(distinct) + " distinct" : "")};
}

// link: function that goes from a name to its line or buffer.
function volumesBlock(id, title, places, link) {
  if (!places || !Object.keys(places).length) return null;
  const rows = volumeRows(places, (n) => n);
  for (const r of rows) r.pick = link(r.key);
  return block(id, title, null, bars(rows, title, 10, ["loaded (B)", "stored (B)"]), colourLegend([["load", "loaded"], ["store", "stored"]]));
}
// Returns the line with most bytes of a variable.
function variableLink(name) {
  const of = ((data.coalescing && data.coalescing.sites) || []).filter((r) => r.line && (r.variable || "?") === name);
  return of.length ? lineLink(largest(of, (r) => r.bytes).line) : null;
}

// ---- misses of host programs ----
function missesBlock() {
  const m = data.misses;
  if (!m) return null;
  const rows = m.lines.filter((r) => r.misses).map((r) => Object.assign({part: percent(r.misses, r.accesses), use: percent(r.used, r.fetched)}, r));
  const whole = rows.map((r) => ({key: r.line, full: r.line, name: baseName(r.line), title: [r.line, many(r.misses, "miss", "misses") + " of " + many(r.accesses, "access", "accesses"), exactBytes(r.used) + " used of " + exactBytes(r.fetched)], pick: lineLink(r.line),
    parts: [[r.used, "load"], [r.fetched - r.used, "store-pale"]]}));
  const wordColumn = (name, key) => ({name, num: true, get: (r) => parseFloat(r[key].replace(/[<> ]/g, "")) || 0, text: (r) => r[key], csv: (r) => r[key]});
  return block("misses", "Cache misses", "Misses of a cache per thread (" + bytes(m.bytes) + ", " + m.ways + " ways, lines of " + m.line_size + " bytes): bytes fetched by each source line, and bytes of them that are used before the cache line is replaced.",
    rows.length ? bars(whole, "Cache misses", 10, ["used (B)", "wasted (B)"]) : nothing("No misses."), colourLegend([["load", "used"], ["store-pale", "fetched, not used"]]),
    virtualTable(rows, [Object.assign(textColumn("line", "line"), {text: (r) => baseName(r.line), hint: (r) => r.line, pick: (r) => lineLink(r.line)}), numberColumn("accesses", "accesses"), numberColumn("misses", "misses"), wordColumn("miss rate", "part"), numberColumn("by stores", "store_misses"), numberColumn("fetched (B)", "fetched"), numberColumn("used (B)", "used"), wordColumn("used", "use")], "Cache misses"));
}

// ---- cache lines that move between threads ----
function bounceRows() {
  return (data.bounces || []).map((b) => Object.assign({other: b.times - b.same, first: "thread " + b.from_thread + " → " + b.to_thread}, b, {type: typeWord(b.type)}));
}
function bouncesBlock() {
  if (!data.bounces) return null;
  const rows = bounceRows(), text = "Cache lines that one thread stores to and another thread accesses next. Without common bytes it is false sharing.";
  if (!rows.length) return block("bounces", "Cache lines that bounce between threads", text, nothing("No thread accesses a cache line that another thread has stored to."));
  return block("bounces", "Cache lines that bounce between threads", text, virtualTable(rows, [Object.assign(textColumn("buffer", "label"), {pick: (r) => bufferLink(r.label)}), Object.assign(textColumn("last store", "from"), {text: (r) => baseName(r.from), hint: (r) => r.from, pick: (r) => lineLink(r.from)}),
    Object.assign(textColumn("next access", "to"), {text: (r) => baseName(r.to), hint: (r) => r.to, pick: (r) => lineLink(r.to)}), textColumn("type", "type"), numberColumn("times", "times"), numberColumn("common bytes", "same"), numberColumn("other bytes", "other", "false sharing"), textColumn("first", "first")], "Cache lines that bounce between threads"));
}
// ---- false sharing by layout ----
function falsePairRows() {
  const side = (s) => typeWord(s.type) + " " + baseName(s.line);
  return (data.false_pairs || []).map((f) => Object.assign({one: side(f.a), other: side(f.b), first: "threads " + f.a.thread + ", " + f.b.thread}, f));
}
function falsePairsBlock() {
  const rows = falsePairRows(), title = "Threads at different bytes of one cache line";
  if (!rows.length) return null;
  return block("false", title, "False sharing: at least one of the two stores, and nothing in the program orders them. If the line was not transferred more often than once, it is by layout only: the threads ran one after the other.",
    virtualTable(rows, [Object.assign(textColumn("buffer", "label"), {pick: (r) => bufferLink(r.label)}), Object.assign(textColumn("one", "one"), {hint: (r) => r.a.line, pick: (r) => lineLink(r.a.line)}),
      Object.assign(textColumn("other", "other"), {hint: (r) => r.b.line, pick: (r) => lineLink(r.b.line)}), numberColumn("accesses", "accesses"), numberColumn("transfers", "handed"), numberColumn("lines", "lines"), numberColumn("bytes apart", "distance"), textColumn("nearest", "first")], title));
}

function drawPlots(section) {
  const l = data.lines || {};
  const panels = [ofThreads ? null : coalescingBlock(), volumesBlock("allocations", "By allocation", l.allocations, bufferLink), volumesBlock("variables", "By variable", l.variables, variableLink), reuseBlock(),
    data.sharing ? living("sharing", "Sharing of cache lines", say("Accesses by how CTAs of a launch share their cache lines (lines of ", "Accesses by how threads share their cache lines (lines of ") + data.sharing.line_size + " bytes). Buffers with most false sharing come first.", sharingPicture) : null,
    missesBlock(), falsePairsBlock(), bouncesBlock(), placementBlock(), conflictsBlock()].filter(Boolean);
  if (!panels.length) {
    section.append(nothing(data.from_json ? "The comm.json has none of these analyses: memtrace extract --sections more writes them." : "These analyses were left out (--quick)."));
    return;
  }
  section.append(el("div", {class: "blocks"}, ...panels));
}
