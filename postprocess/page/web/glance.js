// At a glance: what stands out, in sentences, each with the panel that shows it. A sentence is only where the trace
// knows enough for it.
function glanceItem(id, panel, warn, ...parts) { return {id, panel, warn, parts}; }
// In a sentence, template arguments of a long name are only in the tooltip.
function kernelWord(name) {
  const short = shortKernel(name), open = short.indexOf("<"), base = short.slice(0, open + 1);
  const alone = kernelNames.filter((k) => shortKernel(k).startsWith(base)).length < 2; // else the arguments tell instances apart
  return code(short.length <= 40 ? short : open > 0 && alone ? base + "…>" : middle(short, 56), name);
}
function code(text, title) { return el("b", {class: "mono", title: title && title !== text ? title : null}, text); }
function largest(list, of) { return list.reduce((m, r) => m === null || of(r) > of(m) ? r : m, null); }

function glanceKernels() {
  const rows = kernelRows(), all = rows.reduce((s, r) => s + r.load + r.store, 0), top = largest(rows, (r) => r.load + r.store);
  if (!data.has.data || !all) return null;
  if (rows.length === 1 && ofThreads) return glanceItem("kernel", "volumes", false, "The program, ", kernelWord(top.name), ", loads ", bytes(top.load), " and stores ", bytes(top.store), " in ", many(top.ctas, "thread"), ".");
  if (rows.length === 1) return glanceItem("kernel", "volumes", false, say("One kernel, "), kernelWord(top.name), ", moves all bytes: ", bytes(top.load), " loaded, ", bytes(top.store), " stored in ", many(top.launches, "launch", "launches"), ".");
  return glanceItem("kernel", "volumes", false, kernelWord(top.name), " moves most: ", bytes(top.load + top.store), ", ", percent(top.load + top.store, all), " of all bytes, in ", count(top.launches), " of ", many(launches.length, "launch", "launches"), ".");
}
function glanceTransfers() {
  if (!data.has.comm || !data.has.transfers || !launches.length) return null;
  const t = totals();
  const nobody = [[say("another CTA or an earlier launch"), say("an earlier launch")], [say("another CTA"), say("another CTA of an earlier launch")]][+(data.options["same-cta"] === "local")][+!!data.options.strict];
  if (!t.commLoad) return glanceItem("comm", "transfers", false, say("No CTA loads what ") + nobody + " wrote", t.fromHost ? ": all that has a writer came from the host." : ".");
  const pairs = new Map();
  for (const r of transferRows)
    if (r.source && r.target) pairs.set(r.source + " " + r.target, {from: r.source, to: r.target, size: ((pairs.get(r.source + " " + r.target) || {}).size || 0) + r.size});
  const top = largest([...pairs.values()], (p) => p.size), name = (k) => kernelWord(kernelNames[k]);
  const part = (n) => bytes(n) + (data.has.data ? " (" + percent(n, t.load) + ")" : "");
  const parts = data.has.senders ? senderKinds.map(([words, of], i) => part(of(t)) + (i ? "" : " were last written") + " by " + words).join(", ") : part(t.commLoad) + " are communication";
  return glanceItem("comm", "transfers", false, say("Of what CTAs load, "), parts, top && pairs.size > 1 ? "; most of it goes from " : top ? "; it goes from " : "", top ? name(top.from) : "", top ? " to " : "", top ? name(top.to) : "", top && pairs.size > 1 ? ": " + bytes(top.size) : "", ".");
}
function glanceHost() {
  const t = data.HCV ? totals() : null;
  if (!t || !t.toHost) return null;
  return glanceItem("host", "transfers", false, "Host code loads ", bytes(t.toHost), say(" that CTAs wrote"), t.fromHost ? say("; CTAs load ") + bytes(t.fromHost) + " that the host wrote." : ".");
}
function glanceLine() {
  if (!hotLines) return null;
  const rows = volumeRows(hotLines, (name) => baseName(name)), of = (r) => r.parts[0][0] + r.parts[1][0], all = d3.sum(rows, of);
  const known = rows.filter((r) => r.key !== "?"); // what has no line is there, too
  if (known.length < 2 || !all) return null;
  return glanceItem("line", "lines&line=" + encodeURIComponent(known[0].key), false, "Line ", code(known[0].name, known[0].title), " moves most of ", many(known.length, "line"), ": ", bytes(of(known[0])), ", ", percent(of(known[0]), all), " of all bytes.");
}
// Kernels of which one request may be several.
function coalescingApart() { return (data.apart || []).filter((kernel) => data.coalescing && data.coalescing.kernels[kernel]).sort(); }
function glanceApart() {
  const list = coalescingApart();
  return list.length ? glanceItem("apart", "coalescing", false, "It is not known how well the accesses of ", kernelWord(list[0]), list.length > 1 ? " and " + many(list.length - 1, "other kernel") : "",
    " go together: lanes of " + (list.length > 1 ? "their" : "its") + " warps were taken apart.") : null;
}
function glanceCoalescing() {
  const rows = data.coalescing ? coalescingLines(coalescingRows().filter((r) => !coalescingApart().includes(r.kernel))) : [], vain = (r) => Math.max(0, r.sectors * sectorBytes - r.distinct);
  const moved = d3.sum(rows, (r) => r.sectors * sectorBytes), lost = d3.sum(rows, vain), top = largest(rows, vain);
  if (!moved) return null;
  if (lost < 0.1 * moved) return glanceItem("coalescing", "coalescing", false, "Warps use ", percent(moved - lost, moved), " of the sectors that they move: accesses are well coalesced.");
  return glanceItem("coalescing", "coalescing", true, "Warps use ", percent(moved - lost, moved), " of the ", bytes(moved), " that they move; most is lost by the ", top.type, " at ",
    top.line === "?" ? kernelWord(top.kernel) : code(baseName(top.line), top.line), ": ", (top.sectors / top.requests).toFixed(1), " sectors per request, ", percent(top.distinct, top.sectors * sectorBytes), " used", halved(top) ? " (clang may access values of 16 bytes, float4 or __int128, in two halves; nvcc does not)" : "", ".");
}
// False sharing by kernel, where it is most of a kernel's accesses first: [{kernel, bad, all, buffer: that with most}].
function falselyShared() {
  const by = new Map();
  for (const [kernel, , v] of data.sharing ? chosenLaunches(data.sharing.kernels) : []) {
    if (!by.has(kernel)) by.set(kernel, {kernel, bad: 0, all: 0, sums: new Map(buffers.map((b) => [b.label, 0]))}); // of equal ones the first allocated
    const k = by.get(kernel);
    for (const name in v.allocations) {
      const bad = v.allocations[name].false.accesses;
      k.all += d3.sum(sharingKinds, ([kind]) => v.allocations[name][kind].accesses);
      k.bad += bad;
      k.sums.set(name, (k.sums.get(name) || 0) + bad);
    }
  }
  return [...by.values()].filter((k) => k.bad && k.bad / k.all >= 0.01).sort((a, b) => b.bad / b.all - a.bad / a.all || b.bad - a.bad || (a.kernel < b.kernel ? -1 : 1));
}
function glanceSharing() {
  const list = falselyShared(), named = 3;
  if (!list.length) return null;
  return glanceItem("sharing", "sharing", list[0].bad / list[0].all > 0.1, say("CTAs share cache lines of "), count(data.sharing.line_size), " bytes falsely: ",
    ...list.slice(0, named).flatMap((k, i) => [(i ? "; " : "") + percent(k.bad, k.all) + " of " + (i ? "those" : "the accesses") + " of ", kernelWord(k.kernel), ", most of them in ", code(largest([...k.sums], (p) => p[1])[0])]),
    list.length > named ? "; and some of " + many(list.length - named, say("other kernel")) : "", ".");
}
function glanceMisses() {
  const m = data.misses, rows = m ? m.lines : [], top = largest(rows, (r) => r.fetched - r.used), misses = d3.sum(rows, (r) => r.misses), accesses = d3.sum(rows, (r) => r.accesses);
  if (!misses) return null;
  const start = ["Caches of ", bytes(m.bytes), " miss ", percent(misses, accesses), " of ", many(accesses, "access", "accesses")];
  if (top.misses < 64 || top.fetched - top.used < top.fetched / 4) return glanceItem("misses", "misses", false, ...start, ".");
  return glanceItem("misses", "misses", misses > accesses / 50 && top.used < top.fetched / 2, ...start, "; most is fetched in vain by ", code(baseName(top.line), top.line), ": ",
    percent(top.misses, top.accesses), " of its accesses miss, ", percent(top.used, top.fetched), " used of what they fetch.");
}
function glanceGrowing() {
  const top = ofThreads ? largest(allocations.filter((a) => a.kind === "realloc" && a.like >= 16), (a) => a.bytes) : null;
  return top && top.file ? glanceItem("growing", "buffers", false, "realloc at ", code(place(top.file, top.line), top.file + ":" + top.line), " is called ", count(top.like), " times, for ", bytes(top.bytes), " in all: does it grow in small steps?") : null;
}
function glanceBounces() {
  const rows = data.bounces || [], top = rows[0], of = rows.filter((r) => r.label === (top && top.label)), all = d3.sum(of, (r) => r.times), other = all - d3.sum(of, (r) => r.same);
  return top ? glanceItem("bounces", "bounces", other > all / 2, "Cache lines go from thread to thread ", many(d3.sum(rows, (r) => r.times), "time"), ", those of ", code(top.label), " ", count(all), ": ", percent(other, all),
    " for other bytes than were stored (false sharing), mostly from ", code(baseName(top.from), top.from), " to ", code(baseName(top.to), top.to), ".") : null;
}
function glanceConflicts() {
  if (!data.conflicts || !launches.length) return null;
  const rows = conflictRows();
  if (!rows.length) return glanceItem("conflicts", "conflicts", false, say("No two CTAs of one launch conflict: none writes with a plain store what another one touches."));
  const top = largest(rows, (r) => r.bytes);
  return glanceItem("conflicts", "conflicts", true, many(rows.length, "conflict"), say(" between CTAs of one launch (races, unless the program orders them), the largest in "), kernelWord(top.kernel), ": ",
    code(top.a), " against ", code(top.b), " on ", bytes(top.bytes), ".");
}
// Buffers of equal size of which a kernel reads one and writes the other, and its next launch the other way round, as output/text/summary_turns.c
// finds them: {a, b: places in `buffers`, kernel, times}, what did it most often first.
function bufferTurns() {
  const uses = launches.map(() => new Map()), last = new Map(), pairs = new Map();
  if (!traffic || traffic.launch_step > 1) return []; // neighbouring launches are one: nothing is known
  buffers.forEach((b, i) => {
    for (const r of b.id === undefined ? [] : b.launches || []) (uses[launchPlace(r.superstep)] || new Map()).set(i, (r.load ? "read" : "") + (r.store ? "written" : ""));
  });
  const flips = (reader, writer) => [...reader.keys()].filter((i) => reader.get(i) === "read" && writer.get(i) === "written").slice(0, 64);
  uses.forEach((now, place) => {
    const kernel = launches[place].kernel, before = last.get(kernel) || new Map(), read = flips(now, before);
    if (!now.size) return;
    last.set(kernel, now);
    for (const x of flips(before, now)) {
      const y = read.find((i) => buffers[i].bytes === buffers[x].bytes), a = Math.min(x, y), b = Math.max(x, y), key = [a, b, kernel].join();
      if (y === undefined) continue;
      read.splice(read.indexOf(y), 1);
      if (!pairs.has(key)) pairs.set(key, {a, b, kernel, times: 0});
      pairs.get(key).times++;
    }
  });
  return [...pairs.values()].sort((p, q) => q.times - p.times || buffers[q.a].bytes - buffers[p.a].bytes || p.a - q.a || p.b - q.b || (kernelNames[p.kernel] < kernelNames[q.kernel] ? -1 : 1));
}
function glanceTurns() {
  const pairs = bufferTurns(), top = pairs[0], others = new Set(pairs.map((p) => p.a + "," + p.b)).size - 1;
  return top && glanceItem("turns", "buffers", false, code(buffers[top.a].label), " and ", code(buffers[top.b].label), " (", bytes(buffers[top.a].bytes), " each) take turns: ", kernelWord(kernelNames[top.kernel]),
    say(" reads one and writes the other, and its next launch the other way round, "), many(top.times, "time"), others ? "; so do others: " + many(others, "pair") : "", ".");
}
function glanceFootprint() {
  const f = footprint();
  return f && f.lines ? glanceItem("footprint", "reuse", false, filtered ? say("The run, with launches that are left out here, touches ") : "The run touches ", aboutSample(), many(f.lines, "cache line"), " of ", count(data.reuse.line_size), " bytes: its footprint is ", bytes(f.bytes), ".") : null;
}
function glancePlacement() {
  const p = data.placement;
  if (!p || !p.load || ofThreads) return null;
  const best = largest(Object.keys(p.policies), (k) => -p.policies[k].cross);
  const cross = p.policies[best].cross;
  const ran = typeof p.ran === "number";
  if (ran && p.ran <= cross) return null; // no advice: it ran better
  return glanceItem("placement", "placement", false, "Over ", many(p.devices, "device"), ", ", cross ? percent(cross, p.load) : "none", " of the communication would cross with the best placement tried, ", placementNames[best] || best, ran ? "; as it ran: " + percent(p.ran, p.load) : "", ".");
}
function glanceNothing() {
  return glanceItem("nothing", "timeline", false, launches.length ? say("No access of the traced launches ") + (shared ? "to global memory " : "") + say("was recorded: their kernels touch no global memory") + ", or filters left nothing." : say("No launch is in this trace, or filters left none."));
}
// What no panel shows: made of the findings of memtrace check.
function glanceFindings() { return (data.findings || []).map(([look, text]) => glanceItem("finding", "", !!look, text)); }
function drawGlance() {
  const items = ((!launches.length || !data.totals.records) && !data.totals.host_accesses && !data.from_json ? [glanceNothing(), glanceHazards(), glanceBanks(), ...glanceFindings()] : [glanceConflicts(), glanceHazards(), glanceKernels(), glanceTransfers(), glanceDevices(), glanceHost(), glanceLine(), glanceApart(), glanceCoalescing(), glanceSharing(), glanceMisses(), glanceGrowing(), glanceBounces(), glanceTurns(), glanceFootprint(), glanceBanks(), glancePlacement(), ...glanceFindings()]).filter(Boolean);
  items.sort((a, b) => b.warn - a.warn);
  return items.length ? el("div", {class: "glance", id: "glance"}, el("h2", {}, "At a glance"), el("ul", {}, ...items.map((i) =>
    el("li", {class: i.warn ? "look" : "", "data-glance": i.id}, ...i.parts.filter((p) => p !== ""), ...(i.panel ? [" ", el("a", {href: "#" + i.panel, "aria-label": "see " + i.panel.split("&")[0]}, "see")] : []))))) : null;
}
