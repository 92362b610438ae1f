// Data that memtrace report put into the page, unpacked.
const data = JSON.parse(document.getElementById("data").textContent);
// A host program is a launch, and its threads take the place of CTAs: texts for kernels, and for host programs.
const ofThreads = data.threads;
function say(kernels, threads) { return ofThreads ? threads : kernels; }
// Returns the name of a column, or of a level of reuse.
const hostNames = {kernel: "program", launch: "run", launches: "runs", "launches before": "runs before", CTA: "thread"};
function nameWord(name) { return ofThreads && hostNames[name] || name; }

// An access of a host program that reads and writes, with or without LOCK, is an update.
function typeWord(type) { return ofThreads && type === "atomic" ? "update" : type; }

// Returns a reader of LEB128 numbers encoded in base64.
function unpacker(text) {
  const bytes = atob(text || "");
  let at = 0;
  return {
    next() {
      let value = 0, scale = 1, byte;
      do {
        byte = bytes.charCodeAt(at++);
        value += (byte & 127) * scale;
        scale *= 128;
      } while (byte & 128);
      return value;
    },
    more() { return at < bytes.length; },
  };
}

// Lists have the columns of postprocess/page/page.def, by name: step_bin becomes stepBin.
function camel(name) { return name.replace(/_([a-z])/g, (_, c) => c.toUpperCase()); }
function rowsOf(list) {
  const columns = list.columns.map(camel);
  return list.rows.map((r) => Object.fromEntries(columns.map((key, i) => [key, r[i]])));
}
// Unpacks a pack to {an array for each column, groups: [{its keys, from, to}]}. A generator that works in pieces, so
// that the page can respond in between.
const piece = 1 << 16;
function* unpack(list) {
  const columns = list.columns.map(camel), keys = columns.slice(0, list.keys), from = unpacker(list.data), out = {bin: list.bin, stepBin: list.step_bin, groups: []};
  const arrays = columns.slice(list.keys).map((key) => out[key] = new Float64Array(list.count));
  for (let i = 0; from.more();) {
    const group = {};
    for (const key of keys) group[key] = from.next();
    group.from = i;
    group.to = i + from.next();
    for (; i < group.to; i++) {
      for (let k = 0; k < arrays.length; k++) arrays[k][i] = from.next();
      if (i > group.from) arrays[0][i] += arrays[0][i - 1];
      if (i % piece === 0) yield;
    }
    out.groups.push(group);
  }
  return out;
}
function unpackWhole(list) {
  const steps = unpack(list);
  for (;;) {
    const step = steps.next();
    if (step.done) return step.value;
  }
}

// Returns the CTAs of the axis as "x,y,z" without trailing dimensions that are always 0: 2,0,0 is 2 in a 1-D grid.
function axisWords(axis) {
  const flat = axis.groups.some((g) => g.z) ? 3 : axis.groups.some((g) => g.y) ? 2 : 1;
  return axis.groups.flatMap((g) => Array.from(axis.x.subarray(g.from, g.to), (x) => [x, g.y, g.z].slice(0, flat).join(",")));
}
// Unpacks cells of the CTA matrix, by group (superstep of the reader, kernel of the writer), with ascending rows.
function* unpackCells(list) {
  const out = yield* unpack(list), row = Uint32Array.from(out.at, (v) => Math.floor(v / list.width)), column = Uint32Array.from(out.at, (v) => v % list.width);
  return Object.assign(out, {width: list.width, row, column, host: row.includes(0) || column.includes(0)});
}
// Unpacks volumes of CTAs or SMs: by superstep (bin), with ascending keys.
function* unpackParts(list) {
  const out = yield* unpack(list);
  return Object.assign(out, {most: d3.max(out.key) || 0});
}

// Volumes of a launch, kernel, CTA or SM, and the senders of its communication: [name, bytes of a volume, short name,
// is it excluded by an option?]
const volumeKeys = ["load", "store", "commLoad", "commStore", "sameLaunch", "sameCta"];
const senderKinds = [[(v) => v.sameLaunch, data.options.strict], [(v) => v.commLoad - v.sameLaunch - v.sameCta, false], [(v) => v.sameCta, data.options["same-cta"] === "local"]]
  .map(([of, out], i) => [data.words.senders[i][0], of, data.words.senders[i][1], out]).filter(([, , , out], i) => !out && !(ofThreads && i));
// Definition from docs/definitions.md.
const communicationWords = document.getElementById("communication").textContent;

const kernelNames = data.kernels;
const allLaunches = rowsOf(data.launches).map((l) => Object.assign(l, {known: l.stream !== null, ns: l.stream === null ? null : l.busy,
  grid: l.stream === null ? null : [l.gridX, l.gridY, l.gridZ], block: l.stream === null ? null : [l.blockX, l.blockY, l.blockZ]}));
const launches = allLaunches.filter((l) => l.superstep !== null), untracedLaunches = allLaunches.filter((l) => l.superstep === null);
// With filters, texts about the whole run say so.
const launchCount = d3.sum(launches, (l) => l.count); // a row may be of several launches
const filtered = data.from_json ? data.options.kernels !== null || data.options.supersteps !== null : launchCount < data.totals.launches;
const ofRun = filtered ? " of the run" : "";

const axisNames = axisWords(unpackWhole(data.axis));
let cells = null, ctaParts = null, smParts = null; // set by unpackLists
function* unpackLists() {
  if (data.cells) cells = yield* unpackCells(data.cells);
  if (data.ctas) ctaParts = yield* unpackParts(data.ctas);
  if (data.sms) smParts = yield* unpackParts(data.sms);
}
const transferRows = data.transfers ? rowsOf(data.transfers) : [], copies = rowsOf(data.copies), ranges = rowsOf(data.ranges), sites = rowsOf(data.sites), allocations = rowsOf(data.allocations);

// State shared by the panels: the selected superstep (null: all), kernels of the writer and reader, a source line
// ("file:number"), a buffer (its label).
const state = {superstep: null, source: null, target: null, line: null, buffer: null, listeners: []};
function onState(f) { state.listeners.push(f); }
function setState(change) {
  Object.assign(state, change);
  for (const f of state.listeners) f();
}
