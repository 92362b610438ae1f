// ---- several devices: bytes between them, and the links they use ----
// A kernel waits for its loads; stores and copies may proceed in parallel.
const flowKinds = [["loads", "load", (by) => by === "load" || by === "unknown"], ["stores", "store", (by) => by === "store" || by === "atomic"], ["copies", "good", (by) => by === "copy"],
                   ["collectives", "load-deep", (by) => by === "collective"]];
function startDevices() { if (!data.devices) document.getElementById("devices").remove(); }
function flowRows() { return (data.devices || []).filter((r) => state.superstep === null || state.superstep === r.superstep); }
function crossing(r) { return r.from !== r.to && r.from !== "host" && r.to !== "host"; }
function flowSums(rows) { return flowKinds.map(([, , is]) => d3.sum(rows, (r) => is(r.by) ? r.bytes : 0)); }
function flowWords(rows) {
  const sums = flowSums(rows);
  return flowKinds.map(([name], i) => sums[i] ? bytes(sums[i]) + " by " + name : "").filter(Boolean).join(", ");
}
function flowParts(rows) { return flowSums(rows).map((sum, i) => [sum, flowKinds[i][1]]); }
function usedKinds(rows) { return flowKinds.filter(([, , is]) => rows.some((r) => is(r.by))); }

function devicePlaces() {
  const numbers = new Set((data.devices || []).flatMap((r) => [r.from, r.to]).filter((p) => p !== "host").map(Number));
  return [...(data.devices.some((r) => r.from === "host" || r.to === "host") ? ["host"] : []), ...[...numbers].sort((a, b) => a - b).map(String)];
}
// Machines of a job on several: Map from a device's number to the machine's name; empty for one machine.
const machineOf = new Map((data.machines || []).map((m) => [m.device, m.machine]));
function deviceMatrix() {
  const places = devicePlaces(), machine = (p) => machineOf.has(p) ? p + " " + machineOf.get(p) : p;
  return flowMatrix(places, places.map(machine), flowRows(), (r) => r.from + " " + r.to, "Bytes by pair of devices");
}
// Host memory belongs to the machine of the device that it goes to or comes from.
function machineMatrix() {
  const names = [...new Set(machineOf.values())], at = (p, other) => names.indexOf(machineOf.get(p === "host" ? other : p));
  return flowMatrix(names.map((n, i) => i), names, flowRows(), (r) => at(r.from, r.to) + " " + at(r.to, r.from), "Bytes by pair of machines");
}
// places: keys of rows and columns, with their names; key: of a row's pair of places.
function flowMatrix(places, names, rows, key, title) {
  const of = d3.group(rows, key), name = new Map(places.map((p, i) => [p, names[i]]));
  const most = d3.max([...of].filter(([pair]) => pair.split(" ")[0] !== pair.split(" ")[1]), ([, list]) => d3.sum(list, (r) => r.bytes)) || 1;
  const cell = (from, to) => {
    const list = of.get(from + " " + to) || [], sum = d3.sum(list, (r) => r.bytes), words = (from === to ? "own memory" : name.get(from) + " → " + name.get(to)) + ": " + (flowWords(list) || "nothing");
    if (!sum || from === to) return el("td", {class: "num own", title: words}, sum ? bytes(sum) : "");
    const colour = ramp(0.1 + 0.9 * Math.sqrt(sum / most));
    return el("td", {class: "num", title: words, style: "background:" + colour + ";color:" + (d3.lab(colour).l > 60 ? "#14181c" : "#ffffff")}, bytes(sum));
  };
  return el("div", {class: "flows"}, el("table", {"aria-label": title},
    el("thead", {}, el("tr", {}, el("th", {scope: "col"}, "from ↓ to →"), ...names.map((n) => el("th", {scope: "col", class: "num"}, n)))),
    el("tbody", {}, ...places.map((from) => el("tr", {}, el("th", {scope: "row"}, name.get(from)), ...places.map((to) => cell(from, to)))))));
}
function kernelFlows() {
  const rows = flowRows().filter(crossing), by = d3.group(rows, (r) => r.kernel || r.by);
  const list = [...by].map(([kernel, of]) => ({name: shortKernel(kernel), full: kernel, title: kernel + ": " + flowWords(of), parts: flowParts(of), text: bytes(d3.sum(of, (r) => r.bytes)) + " in " + many(new Set(of.map((r) => r.superstep)).size, "launch", "launches")}));
  list.sort((a, b) => d3.sum(b.parts, (p) => p[0]) - d3.sum(a.parts, (p) => p[0]));
  return list.length ? bars(list, "Across devices by kernel", 8, flowKinds.map(([name]) => name + " (B)")) : nothing("No bytes go between devices.");
}

// ---- by launch ----
const MOST_PAIRS = 16;
// Returns the pairs of devices with most bytes between them: [{name, rows}], rows of launches only.
function flowPairs() {
  const rows = data.devices.filter((r) => crossing(r) && r.superstep !== null);
  return [...d3.group(rows, (r) => r.from + " → " + r.to)].map(([name, of]) => ({name, rows: of, bytes: d3.sum(of, (r) => r.bytes)}))
    .sort((a, b) => b.bytes - a.bytes || (a.name < b.name ? -1 : 1)).slice(0, MOST_PAIRS).sort((a, b) => a.name.localeCompare(b.name, "en", {numeric: true}));
}
function flowMap(pairs) {
  let columns = null, sums = [];
  const surface = canvas(bufferRow.top + pairs.length * bufferRow.height + bufferRow.axis, "Devices by launch", draw), e = surface.element, room = () => Math.min(90, labelRoom(surface.width));
  function draw(c, width, height) {
    const left = room();
    columns = columnsOf(width - left - 4, 1, 3);
    sums = pairs.map((p) => {
      const list = Array.from({length: columns.n}, () => []);
      for (const r of p.rows) list[columns.at(launchPlace(r.superstep))].push(r);
      return list;
    });
    const most = d3.max(sums, (list) => d3.max(list, (rows) => d3.sum(rows, (r) => r.bytes))) || 1;
    pairs.forEach((p, k) => {
      const y = bufferRow.top + k * bufferRow.height, full = bufferRow.height - 4;
      c.fillStyle = theme.ink;
      c.textAlign = "right";
      c.fillText(clipText(c, p.name, left - 10), left - 8, y + bufferRow.height / 2);
      c.fillStyle = theme.soft;
      c.fillRect(left, y + 2, width - left - 4, full);
      sums[k].forEach((rows, i) => {
        let base = y + 2 + full;
        flowParts(rows).forEach(([sum, colour]) => {
          const h = sum ? Math.max(1, sum / most * full) : 0;
          c.fillStyle = theme[colour];
          c.fillRect(left + i * columns.width, base - h, Math.max(1, columns.width - (columns.width > 8 ? 1 : 0)), h);
          base -= h;
        });
      });
    });
    launchAxis(c, columns, left, height - 9, width);
    if (state.superstep === null) return;
    c.strokeStyle = theme.ink;
    c.lineWidth = 2;
    c.strokeRect(left + columns.at(launchPlace(state.superstep)) * columns.width, 3, Math.max(3, columns.width), pairs.length * bufferRow.height + 4);
  }
  function hit(event) {
    const [px, py] = at(event, e), k = Math.floor((py - bufferRow.top) / bufferRow.height), i = columns ? Math.floor((px - room()) / columns.width) : -1;
    return pairs[k] && i >= 0 && i < columns.n ? [k, i] : null;
  }
  e.addEventListener("pointermove", (event) => {
    const cell = hit(event);
    if (!cell) hideTip();
    else showTip(event.clientX, event.clientY, [pairs[cell[0]].name, launchWords(...columns.of(cell[1])), flowWords(sums[cell[0]][cell[1]]) || "nothing"]);
  });
  e.addEventListener("pointerleave", hideTip);
  e.addEventListener("click", (event) => { const cell = hit(event); if (cell) setState({superstep: launches[columns.of(cell[1])[0]].superstep}); });
  onState(() => surface.draw());
  return {surface, rows: () => pairs.flatMap((p) => p.rows.map((r) => Object.assign({pair: p.name}, r)))};
}
const flowColumns = [textColumn("devices", "pair"), launchColumn("superstep"), textColumn("by", "by"), numberColumn("bytes", "bytes")];
function flowBlock() {
  const pairs = launches.length > 1 ? flowPairs() : [];
  if (!pairs.length) return [];
  const map = flowMap(pairs);
  return [block("flow-launches", "By launch", "One row per pair of devices, height: bytes" + (pairs.length === MOST_PAIRS ? "; the pairs with most bytes" : "") + ". Copies belong to no launch and are not included.", figure("Devices by launch", map.surface, map.rows, flowColumns))];
}

// Returns the key with most bytes; on ties the first by name.
function mostOf(rows, key) { return largest([...d3.rollup(rows, (l) => d3.sum(l, (r) => r.bytes), key)].sort((a, b) => a[0] < b[0] ? -1 : 1), (p) => p[1])[0]; }
// Returns [{name, kind, speed, rows, bytes, seconds, most: the largest row}], longest time first.
function linkLoads(rows) {
  return [...d3.group(rows, (r) => r.link)].map(([name, of]) => {
    const sum = d3.sum(of, (r) => r.bytes);
    return {name, kind: of[0].kind, speed: of[0].speed, rows: of, bytes: sum, seconds: sum / of[0].speed, most: mostOf(of, (r) => r.kernel || r.by)};
  }).sort((a, b) => b.seconds - a.seconds || (a.name < b.name ? -1 : 1));
}
function linkPicture() {
  const list = linkLoads(data.links.filter((r) => state.superstep === null || state.superstep === r.superstep));
  if (!list.length) return nothing("No bytes go over links.");
  return bars(list.map((l) => ({name: l.name, full: l.name, title: l.name + " (" + l.kind + ", " + Math.round(l.speed / 1e8) / 10 + " GB/s): " + flowWords(l.rows) + "; most for " + shortKernel(l.most), parts: flowParts(l.rows),
    text: bytes(l.bytes) + ", " + duration(l.seconds * 1e9) + ", most for " + middle(shortKernel(l.most), 24)})), "Links", 12, flowKinds.map(([name]) => name + " (B)"));
}
function deviceTable() {
  return virtualTable(data.devices, [numberColumn("launch", "superstep"), Object.assign(textColumn("kernel", "kernel", true), {text: (r) => shortKernel(r.kernel || "–")}), textColumn("by", "by"), textColumn("from", "from"), textColumn("to", "to"),
    numberColumn("accesses", "accesses", "for copies: their number"), numberColumn("bytes", "bytes")], "Between devices");
}
function drawDevices(section) {
  const legend = colourLegend(usedKinds(data.devices).map(([name, colour]) => [colour, name]));
  section.append(lead("Row: device that owns the memory the bytes come from; column: device they go to. A kernel waits for bytes that it loads. " + (launches.length > 1 ? "Shows the selected launch; copies belong to none." : "")), legend,
    el("div", {class: "blocks"}, living("flows", "Between devices", null, deviceMatrix), ...(machineOf.size ? [living("machine-flows", "Between machines", null, machineMatrix)] : []), living("crossing", "By kernel", null, kernelFlows),
      data.links ? living("links", "Over links", "Bytes in each direction, and the time they take at the link’s speed, one transfer after the other.", linkPicture) : block("links", "Over links", null, nothing("memtrace report --topology=FILE (nvidia-smi topo -m) adds the bytes over each link."))),
    ...flowBlock(), block("device-rows", "Rows", null, deviceTable()));
  return {rows: flowRows, links: () => data.links ? linkLoads(data.links) : []};
}
