// The data that mt-report put into the page, unpacked. Columns: postprocess/page/report_*.c.
const data = JSON.parse(document.getElementById("data").textContent);

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

// The CTAs of the axis as "x,y,z"; what is always 0 at the end is left out: 2,0,0 is 2 in a 1-D grid.
function unpackAxis(axis) {
  const from = unpacker(axis.data), names = new Array(axis.count), xyz = [];
  let flat = 1;
  for (let i = 0; i < axis.count; i++) {
    const cta = [from.next(), from.next(), from.next()];
    if (cta[2]) flat = 3;
    else if (cta[1] && flat < 2) flat = 2;
    xyz.push(cta);
  }
  for (let i = 0; i < axis.count; i++) names[i] = xyz[i].slice(0, flat).join(",");
  return names;
}

// Long lists are unpacked in pieces, by generators: between two of them the page can answer.
const piece = 1 << 16;

// Cells of the CTA matrix, by group (superstep of the reader, kernel of the writer), ascending rows in each.
function* unpackCells(cells) {
  const n = cells.count, from = unpacker(cells.data);
  const out = {bin: cells.bin, stepBin: cells.step_bin, width: cells.width, groups: [], row: new Uint32Array(n),
               column: new Uint32Array(n), size: new Float64Array(n), count: new Float64Array(n), host: false};
  for (let i = 0; from.more();) {
    const group = {step: from.next(), kernel: from.next(), from: i, to: i + from.next()};
    for (let at = 0; i < group.to; i++) {
      at += from.next();
      out.row[i] = Math.floor(at / cells.width);
      out.column[i] = at % cells.width;
      out.size[i] = from.next();
      out.count[i] = from.next();
      if (!out.row[i] || !out.column[i]) out.host = true;
      if (i % piece === 0) yield;
    }
    out.groups.push(group);
  }
  return out;
}

// Volumes of CTAs or SMs: by superstep (bin), ascending keys.
function* unpackParts(parts) {
  const n = parts.count, from = unpacker(parts.data);
  const out = {bin: parts.bin, stepBin: parts.step_bin, groups: [], key: new Uint32Array(n), load: new Float64Array(n),
               store: new Float64Array(n), commLoad: new Float64Array(n), commStore: new Float64Array(n), sameLaunch: new Float64Array(n),
               sameCta: new Float64Array(n), most: 0};
  for (let i = 0; from.more();) {
    const group = {step: from.next(), from: i, to: i + from.next()};
    for (let key = 0; i < group.to; i++) {
      key += from.next();
      out.key[i] = key;
      out.load[i] = from.next();
      out.store[i] = from.next();
      out.commLoad[i] = from.next();
      out.commStore[i] = from.next();
      out.sameLaunch[i] = from.next();
      out.sameCta[i] = from.next();
      if (key > out.most) out.most = key;
      if (i % piece === 0) yield;
    }
    out.groups.push(group);
  }
  return out;
}

function unpackLaunch(r) {
  const e = r.length > 10;
  return {superstep: r[0], kernel: r[1], load: r[2], store: r[3], commLoad: r[4], commStore: r[5], sameLaunch: r[6], sameCta: r[7], ctas: r[8], sms: r[9],
          known: e, stream: e ? r[10] : null, grid: e ? r[11] : null, block: e ? r[12] : null, shared: e ? r[13] : null,
          begin: e ? r[14] : null, end: e ? r[15] : null, file: e ? r[16] : "", line: e ? r[17] : null,
          records: e ? r[18] : null, untraced: e ? r[19] : null, status: e ? r[20] : null, library: e ? r[21] : null};
}

// The volumes of a launch, kernel, CTA or SM; whose bytes its communication is: [words, a volume's bytes, words where room is scarce, does an option leave them out?]
const volumeKeys = ["load", "store", "commLoad", "commStore", "sameLaunch", "sameCta"];
const senderKinds = [["another CTA of the same launch", (v) => v.sameLaunch, "other CTA, same launch", data.options.strict],
  ["another CTA of an earlier launch", (v) => v.commLoad - v.sameLaunch - v.sameCta, "other CTA, earlier launch", false],
  ["the same CTA of an earlier launch", (v) => v.sameCta, "same CTA, earlier launch", data.options["same-cta"] === "local"]].filter(([, , , out]) => !out);
// In the words of docs/definitions.md.
const communicationWords = document.getElementById("communication").textContent;

// With filters, what is not of the launches that they leave says that it is of the run.
const filtered = data.from_json ? data.options.kernels !== null || data.options.supersteps !== null : data.launches.filter((r) => r[0] !== null).length < data.totals.launches;
const ofRun = filtered ? " of the run" : "";

const kernelNames = data.kernels;
const launches = data.launches.map(unpackLaunch).filter((l) => l.superstep !== null);
const untracedLaunches = data.launches.map(unpackLaunch).filter((l) => l.superstep === null);
const axisNames = unpackAxis(data.axis);
let cells = null, ctaParts = null, smParts = null; // until unpackLists is through
function* unpackLists() {
  if (data.cells) cells = yield* unpackCells(data.cells);
  if (data.ctas) ctaParts = yield* unpackParts(data.ctas);
  if (data.sms) smParts = yield* unpackParts(data.sms);
}
// from kernel, from superstep, to kernel, to superstep, bytes, accesses, unordered bytes
const transferRows = data.transfers || [];
const copies = data.copies.map((r) => ({after: r[0], kind: r[1], dst: r[2], src: r[3], bytes: r[4], count: r[5], begin: r[6]}));
const ranges = data.ranges.map((r) => ({name: r[0], domain: r[1], thread: r[2], begin: r[3], end: r[4], open: r[5]}));
const sites = data.sites.map((r) => ({id: r[0], file: r[1], line: r[2], column: r[3], op: r[4], size: r[5], func: r[6], name: r[7]}));
const allocations = data.allocations.map((r) => ({id: r[0], kind: r[1], name: r[2], base: r[3], bytes: r[4], file: r[5], line: r[6],
                                                  from: r[7], to: r[8]}));

// What the panels agree on: the superstep that is looked at (null: all), kernels of the writer and reader,
// a source line ("file:number"), a buffer (its label).
const state = {superstep: null, source: null, target: null, line: null, buffer: null, listeners: []};
function onState(f) { state.listeners.push(f); }
function setState(change) {
  Object.assign(state, change);
  for (const f of state.listeners) f();
}
