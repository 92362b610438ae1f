// Heading, extent of the trace, missing data, and the main figures.
function totals() {
  const t = {load: 0, store: 0, commLoad: 0, commStore: 0, sameLaunch: 0, sameCta: 0, ctas: 0, fromHost: 0, toHost: 0, between: 0, unordered: 0};
  for (const l of launches) {
    for (const k of volumeKeys) t[k] += l[k];
    t.ctas += l.ctas;
  }
  for (const r of transferRows) {
    if (r.target === 0) t.toHost += r.size;
    else if (r.source === 0) t.fromHost += r.size;
    else t.between += r.size;
    t.unordered += r.unordered;
  }
  return t;
}

function tile(name, value, unit, more, exact, key) {
  return el("div", {class: "tile", title: exact || null, "data-figure": key, "data-exact": exact === undefined ? value : exact},
    el("div", {class: "k"}, name), el("div", {class: "v"}, value, unit ? el("small", {}, " " + unit) : null), el("div", {class: "x"}, more || ""));
}
function countTile(name, n, more, key) {
  const [value, unit] = countParts(n);
  return tile(name, value, unit, more, count(n), key);
}
function bytesTile(name, n, more, key) {
  const [value, unit] = bytesParts(n);
  return tile(name, value, unit, more, count(n) + " B", key);
}

function recordsTile() {
  const t = data.totals, known = t.reported !== null;
  return countTile("records", known ? t.reported : t.records, "accesses of threads" + (!filtered ? "" : known ? ", of " + count(t.records) + " of the run" : " of the run"), "records");
}
// Tile with the total communication, and its parts by sender.
function communicationTile(t) {
  const part = (n, words) => el("div", {}, (t.load ? percent(n, t.load) + " of loads" : bytes(n)) + (words ? ": " + words : ""));
  const e = bytesTile("communication", t.commLoad, el("div", {}, ...data.has.senders ? senderKinds.filter(([, of]) => of(t)).map(([, of, words]) => part(of(t), words)) : [part(t.commLoad)]), "commLoad");
  e.title += "\n" + communicationWords;
  return e;
}

// Returns sentences on data that the page lacks.
function missing() {
  const out = [], t = data.totals;
  if (t.lost) out.push(many(t.lost, "record" + ofRun + " was", "records" + ofRun + " were") + " lost.");
  out.push(...data.gaps);
  if (data.estimates) out.push("The trace is a sample: figures count traced CTAs only; the table Estimates scales them to the whole run.");
  if (t.unknown) out.push(many(t.unknown, "record" + ofRun + " is", "records" + ofRun + " are") + " of unknown type and not counted in any volume.");
  return out;
}
function limits() {
  const out = [], o = data.options;
  if (o.kernels !== null) out.push(say("Only kernels whose name matches ", "Only programs whose name matches ") + o.kernels + " are shown.");
  if (o.supersteps !== null) out.push(say("Only launches ", "Only runs ") + o.supersteps + " are shown.");
  if (filtered) out.push(say("Figures marked “of the run” include launches that are not shown. So do the tables of sites, allocations and copies, and copies, ranges and untraced launches in the timeline.", "Figures marked “of the run” include runs that are not shown. So do the tables of sites, allocations and copies, and copies, ranges and untraced runs in the timeline."));
  if (launchCount > launches.length) out.push("The " + count(launchCount) + " launches are shown as " + count(launches.length) + " rows, each of neighbouring launches of a kernel, under the number of the first one (--launches=A..B shows a part of them one by one).");
  if (o["same-cta"] === "local") out.push(say("CTAs with the same id in all launches are one CTA (--same-cta=local): bytes that it wrote itself are not communication.", "Threads with the same id in all runs are one thread (--same-cta=local): bytes that it wrote itself are not communication."));
  if (o.strict) out.push(say("Bytes written and read in the same launch are left out (--strict).", "Bytes written and read in the same run are left out (--strict)."));
  if (!o.host) out.push("Host copies are not read (--no-host): bytes that only the host wrote have no writer.");
  if (data.from_json) out.push(say("Made from a comm.json: launch times, copies, allocations, source lines, strides and shared memory are not shown.", "Made from a comm.json: run times, copies, allocations, source lines, strides and shared memory are not shown."));
  else if (!data.companions) out.push("No companion file (MemTrace-pipe-N.meta) was read: no times, copies, allocations or source lines.");
  return out;
}

function drawOverview(section) {
  const t = totals(), gaps = missing(), more = limits(), kernels = new Set(launches.map((l) => l.kernel)).size;
  const name = data.title || (data.program ? baseName(data.program) : data.inputs.length ? baseName(data.inputs[0]) : "Memory trace");
  document.title = name + " – memtrace report";
  section.append(el("h1", {id: "title"}, name,
    el("span", {class: "badge " + (data.complete ? "good" : "bad"), id: "complete"}, data.complete ? "complete" : data.complete === null ? "completeness unknown" : "incomplete")));
  const facts = [];
  if (data.program) facts.push(["program ", data.program]);
  if (data.device) facts.push(["device ", (data.device_name || data.device) + (data.device_sms ? ", " + many(data.device_sms, "SM") : "")]);
  if (data.inputs.length) facts.push([data.inputs.length === 1 ? "trace " : "traces ", data.inputs.length > 3 ? many(data.inputs.length, "file") : data.inputs.map(baseName).join(", ")]);
  section.append(el("div", {class: "facts"}, ...facts.map(([k, v]) => el("span", {}, k, el("b", {title: v}, v)))));
  const timed = launches.filter((l) => l.known && l.end > l.begin);
  const span = timed.length ? timed.reduce((m, l) => Math.max(m, l.end), 0) - timed.reduce((m, l) => Math.min(m, l.begin), Infinity) : 0;
  const tiles = ofThreads ? [countTile("threads", t.ctas, "with accesses", "ctas"), recordsTile()] : [countTile("launches", launchCount, (filtered && data.totals.launches ? "of " + count(data.totals.launches) + " of the run; " : "") + many(kernels, "kernel") + (span ? ", " + duration(span) : ""), "launches"),
    countTile(say("CTA instances", "threads"), t.ctas, "with accesses; " + many(axisNames.length, say("CTA id", "thread id")), "ctas"),
    recordsTile()];
  if (data.has.data)
    tiles.push(bytesTile("loaded", t.load, "data volume", "load"), bytesTile("stored", t.store, "data volume", "store"));
  const touched = footprint();
  if (touched) tiles.push(bytesTile("footprint", touched.bytes, ofThreads ? "in lines of " + bytes(data.reuse.line_size) : say("of the whole run; largest launch", "of the whole run; largest run") + (filtered ? " shown" : "") + " " + bytes(touched.most), "footprint"));
  if (data.has.comm) tiles.push(communicationTile(t));
  if (data.has.transfers && t.fromHost) tiles.push(bytesTile("from the host", t.fromHost, "loaded, brought by copies", "fromHost"));
  if (data.has.transfers && t.toHost) tiles.push(bytesTile("to host code", t.toHost, say("read by the host, written by CTAs", "read by the host, written by threads"), "toHost"));
  if (t.unordered && !ofThreads) tiles.push(bytesTile("unordered", t.unordered, say("writer and reader in the same launch", "writer and reader in the same run"), "unordered"));
  const box = el("div", {class: "tiles"}, ...tiles);
  redraws.push(() => { // rows of about equal length: nine tiles are five and four, not eight and one; fewer per row after the page became narrower
    const fit = Math.max(1, Math.floor((box.clientWidth + 13) / 148)), rows = Math.ceil(tiles.length / fit);
    box.style.gridTemplateColumns = "repeat(auto-fit, minmax(max(8.4rem, 100% / " + Math.ceil(tiles.length / rows) + " - .8rem), 1fr))";
  });
  section.append(box);
  if (gaps.length || !data.complete)
    section.append(el("div", {class: "warn", id: "missing"}, data.complete ? "Not in these figures:" :
      data.complete === null ? "It is not known whether the trace is complete." : "Incomplete trace: the page shows the part that could be read.",
      el("ul", {}, ...data.notes.map((n) => el("li", {}, n)), ...gaps.map((n) => el("li", {}, n)))));
  const glance = drawGlance();
  if (glance) section.append(glance);
  const notes = data.complete && !gaps.length ? data.notes : [];
  if (more.length || notes.length)
    section.append(el("div", {class: "aside", id: "limits"}, el("ul", {}, ...notes.concat(more).map((n) => el("li", {}, n)))));
}
