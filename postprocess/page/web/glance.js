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
  if (rows.length === 1) return glanceItem("kernel", "volumes", false, say("One kernel, ", "The program, "), kernelWord(top.name), ", moves all bytes: ", bytes(top.load), " loaded, ", bytes(top.store), " stored in ", many(top.launches, "launch", "launches"), ".");
  return glanceItem("kernel", "volumes", false, kernelWord(top.name), " moves most: ", bytes(top.load + top.store), ", ", percent(top.load + top.store, all), " of all bytes, in ", count(top.launches), " of ", many(launches.length, "launch", "launches"), ".");
}
function glanceTransfers() {
  if (!data.has.comm || !data.has.transfers || !launches.length) return null;
  const t = totals();
  const nobody = [[say("another CTA or an earlier launch", "another thread"), say("an earlier launch", "an earlier run")], [say("another CTA", "another thread"), say("another CTA of an earlier launch", "another thread of an earlier program")]][+(data.options["same-cta"] === "local")][+!!data.options.strict];
  if (!t.commLoad) return glanceItem("comm", "transfers", false, say("No CTA loads what ", "No thread loads what ") + nobody + " wrote", t.fromHost ? ": all that has a writer came from the host." : ".");
  const pairs = new Map();
  for (const r of transferRows)
    if (r.source && r.target) pairs.set(r.source + " " + r.target, {from: r.source, to: r.target, size: ((pairs.get(r.source + " " + r.target) || {}).size || 0) + r.size});
  const top = largest([...pairs.values()], (p) => p.size), name = (k) => kernelWord(kernelNames[k]);
  const part = (n) => bytes(n) + (data.has.data ? " (" + percent(n, t.load) + ")" : "");
  const parts = data.has.senders ? senderKinds.map(([words, of], i) => part(of(t)) + (i ? "" : " were last written") + " by " + words).join(", ") : part(t.commLoad) + " are communication";
  return glanceItem("comm", "transfers", false, say("Of what CTAs load, ", "Of what threads load, "), parts, top && pairs.size > 1 ? "; most of it goes from " : top ? "; it goes from " : "", top ? name(top.from) : "", top ? " to " : "", top ? name(top.to) : "", top && pairs.size > 1 ? ": " + bytes(top.size) : "", ".");
}
function glanceHost() {
  const t = data.HCV ? totals() : null;
  if (!t || !t.toHost) return null;
  return glanceItem("host", "transfers", false, "Host code loads ", bytes(t.toHost), say(" that CTAs wrote", " that threads wrote"), t.fromHost ? say("; CTAs load ", "; threads load ") + bytes(t.fromHost) + " that the host wrote." : ".");
}
function glanceLine() {
  if (!hotLines) return null;
  const rows = volumeRows(hotLines, (name) => baseName(name)), of = (r) => r.parts[0][0] + r.parts[1][0], all = d3.sum(rows, of);
  const known = rows.filter((r) => r.key !== "?"); // what has no line is there, too
  if (known.length < 2 || !all) return null;
  return glanceItem("line", "lines&line=" + encodeURIComponent(known[0].key), false, "Line ", code(known[0].name, known[0].title), " moves most of ", many(known.length, "line"), ": ", bytes(of(known[0])), ", ", percent(of(known[0]), all), " of all bytes.");
}
function glanceNothing() {
  return glanceItem("nothing", "timeline", false, launches.length ? say("No access of the traced launches ", "No access of the traced runs ") + (shared ? "to global memory " : "") + say("was recorded: their kernels touch no global memory", "was recorded: the program touches no memory") + ", or filters left nothing." : say("No launch is in this trace, or filters left none.", "No run is in this trace, or filters left none."));
}
// What no panel shows: made of the findings of memtrace check.
function glanceFindings() { return (data.findings || []).map(([look, text]) => glanceItem("finding", "", !!look, text)); }
function drawGlance() {
  const items = ((!launches.length || !data.totals.records) && !data.totals.host_accesses && !data.from_json ? [glanceNothing(), glanceHazards(), glanceBanks(), ...glanceFindings()] : [glanceConflicts(), glanceHazards(), glanceKernels(), glanceTransfers(), glanceDevices(), glanceHost(), glanceLine(), ...glancePlots(), glanceBanks(), glancePlacement(), ...glanceFindings()]).filter(Boolean);
  items.sort((a, b) => b.warn - a.warn);
  return items.length ? el("div", {class: "glance", id: "glance"}, el("h2", {}, "At a glance"), el("ul", {}, ...items.map((i) =>
    el("li", {class: i.warn ? "look" : "", "data-glance": i.id}, ...i.parts.filter((p) => p !== ""), ...(i.panel ? [" ", el("a", {href: "#" + i.panel, "aria-label": "see " + i.panel.split("&")[0]}, "see")] : []))))) : null;
}
