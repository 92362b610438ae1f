// The data that memtrace report put into the page, unpacked.
const data = JSON.parse(document.getElementById("data").textContent);
// A host program is a launch, its threads are what CTAs are: what is said of kernels, and of it.
const ofThreads = data.threads;
function say(kernels, threads) { return ofThreads ? threads : kernels; }
// The name of a column, or of a level of reuse.
const hostNames = {kernel: "program", launch: "run", launches: "runs", "launches before": "runs before", CTA: "thread"};
function nameWord(name) { return ofThreads && hostNames[name] || name; }

// An access of a host program that reads and writes, with LOCK or without, is an update.
function typeWord(type) { return ofThreads && type === "atomic" ? "update" : type; }

// Numbers as LEB128 in base64, one after another.
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

// Lists have the columns of postprocess/page/page.def, by their names: step_bin is stepBin here.
function camel(name) { return name.replace(/_([a-z])/g, (_, c) => c.toUpperCase()); }
function rowsOf(list) {
  const columns = list.columns.map(camel);
  return list.rows.map((r) => Object.fromEntries(columns.map((key, i) => [key, r[i]])));
}
// A pack as {an array for each column, groups: [{its keys, from, to}]}. In pieces, by a generator: between two of them the page can answer.
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

// The CTAs of the axis as "x,y,z"; what is always 0 at the end is left out: 2,0,0 is 2 in a 1-D grid.
function axisWords(axis) {
  const flat = axis.groups.some((g) => g.z) ? 3 : axis.groups.some((g) => g.y) ? 2 : 1;
  return axis.groups.flatMap((g) => Array.from(axis.x.subarray(g.from, g.to), (x) => [x, g.y, g.z].slice(0, flat).join(",")));
}
// Cells of the CTA matrix, by group (superstep of the reader, kernel of the writer), ascending rows in each.
function* unpackCells(list) {
  const out = yield* unpack(list), row = Uint32Array.from(out.at, (v) => Math.floor(v / list.width)), column = Uint32Array.from(out.at, (v) => v % list.width);
  return Object.assign(out, {width: list.width, row, column, host: row.includes(0) || column.includes(0)});
}
// Volumes of CTAs or SMs: by superstep (bin), ascending keys.
function* unpackParts(list) {
  const out = yield* unpack(list);
  return Object.assign(out, {most: d3.max(out.key) || 0});
}

// The volumes of a launch, kernel, CTA or SM; whose bytes its communication is: [words, a volume's bytes, words where room is scarce, does an option leave them out?]
const volumeKeys = ["load", "store", "commLoad", "commStore", "sameLaunch", "sameCta"];
const senderKinds = [[(v) => v.sameLaunch, data.options.strict], [(v) => v.commLoad - v.sameLaunch - v.sameCta, false], [(v) => v.sameCta, data.options["same-cta"] === "local"]]
  .map(([of, out], i) => [data.words.senders[i][0], of, data.words.senders[i][1], out]).filter(([, , , out], i) => !out && !(ofThreads && i));
// In the words of docs/definitions.md.
const communicationWords = document.getElementById("communication").textContent;

const kernelNames = data.kernels;
const allLaunches = rowsOf(data.launches).map((l) => Object.assign(l, {known: l.stream !== null,
  grid: l.stream === null ? null : [l.gridX, l.gridY, l.gridZ], block: l.stream === null ? null : [l.blockX, l.blockY, l.blockZ]}));
const launches = allLaunches.filter((l) => l.superstep !== null), untracedLaunches = allLaunches.filter((l) => l.superstep === null);
// With filters, what is not of the launches that they leave says that it is of the run.
const filtered = data.from_json ? data.options.kernels !== null || data.options.supersteps !== null : launches.length < data.totals.launches;
const ofRun = filtered ? " of the run" : "";

const axisNames = axisWords(unpackWhole(data.axis));
let cells = null, ctaParts = null, smParts = null; // until unpackLists is through
function* unpackLists() {
  if (data.cells) cells = yield* unpackCells(data.cells);
  if (data.ctas) ctaParts = yield* unpackParts(data.ctas);
  if (data.sms) smParts = yield* unpackParts(data.sms);
}
const transferRows = data.transfers ? rowsOf(data.transfers) : [], copies = rowsOf(data.copies), ranges = rowsOf(data.ranges), sites = rowsOf(data.sites), allocations = rowsOf(data.allocations);

// What the panels agree on: the superstep that is looked at (null: all), kernels of the writer and reader,
// a source line ("file:number"), a buffer (its label).
const state = {superstep: null, source: null, target: null, line: null, buffer: null, listeners: []};
function onState(f) { state.listeners.push(f); }
function setState(change) {
  Object.assign(state, change);
  for (const f of state.listeners) f();
}
