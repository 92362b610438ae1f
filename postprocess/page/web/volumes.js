// Volumes as bars: loads up, stores down; pale: all bytes, solid: communicated bytes.
const volumeKinds = [["step", say("By launch", "By run")], ["kernel", say("By kernel", "By program")], ["cta", say("By CTA", "By thread")], ["sm", "By SM"]];

// Returns a list of volumes: {n, name(i), tick(i), an array per volumeKeys, pick(i), told: are the senders known?}.
function volumeList(rows) {
  const list = {n: rows.length};
  for (const key of volumeKeys) list[key] = Float64Array.from(rows, (r) => r[key]);
  return list;
}
function stepVolumes() {
  return Object.assign(volumeList(launches), {unit: "launch", told: data.has.senders,
          name: (i) => say("launch ", "run ") + launches[i].superstep + ": " + kernelNames[launches[i].kernel], tick: (i) => String(launches[i].superstep),
          pick: (i) => setState({superstep: state.superstep === launches[i].superstep ? null : launches[i].superstep}),
          chosen: (i) => launches[i].superstep === state.superstep});
}
// Returns kernels, most bytes first.
function kernelVolumes() {
  const rows = kernelRows().sort((a, b) => b.load + b.store - a.load - a.store);
  return Object.assign(volumeList(rows), {unit: "kernel", told: data.has.senders, names: true, name: (i) => rows[i].name, tick: (i) => shortKernel(rows[i].name)});
}
// Returns the parts of the selected superstep, or the sums over all supersteps.
function partVolumes(parts, names, unit) {
  const n = parts.most + 1, out = {n, unit, told: data.has.part_senders, bin: parts.bin};
  for (const key of volumeKeys) out[key] = new Float64Array(n);
  for (const g of parts.groups) {
    if (state.superstep !== null && Math.floor(state.superstep / parts.stepBin) !== g.step) continue;
    for (let i = g.from; i < g.to; i++)
      for (const key of volumeKeys) out[key][parts.key[i]] += parts[key][i];
  }
  const first = (i) => names ? names[i * parts.bin] : String(i);
  const last = (i) => names ? names[Math.min((i + 1) * parts.bin, names.length) - 1] : String(i);
  out.name = (i) => parts.bin > 1 ? unit + "s " + first(i) + " … " + last(i) : unit + " " + first(i);
  out.tick = first;
  return out;
}
// Returns the launches of the volumes of CTAs and SMs, since the page may have merged launches.
function partLaunches(parts) {
  const step = state.superstep, from = step === null ? 0 : step - step % parts.stepBin;
  return step === null ? say("all launches", "all runs") : parts.stepBin > 1 ? say("launches ", "runs ") + from + " to " + (from + parts.stepBin - 1) + " together" : say("launch ", "run ") + step;
}

function drawVolumes(section) {
  const has = {step: data.has.data || data.has.comm, kernel: kernelNames.length > 2, cta: !!(ctaParts && ctaParts.groups.length), sm: !!(smParts && smParts.groups.length)};
  const kinds = volumeKinds.filter(([k]) => has[k] && (!ofThreads || k === "cta"));
  if (!kinds.length || !launches.length) {
    section.append(nothing(say("No volumes: memtrace extract left them out (--sections), or no launch was traced.", "No volumes: memtrace extract left them out (--sections), or no run was traced.")));
    return null;
  }
  if (!launches.some((l) => l.load || l.store || l.commLoad || l.commStore)) {
    section.append(nothing("No bytes of global memory were loaded or stored."));
    return null;
  }
  let kind = kinds[0][0], list = null, bins = null, log = false, bottom = 24;
  const left = 74, least = 15, surface = canvas(330, "Volumes as bars", draw), e = surface.element; // least: minimum width of a bar with a name
  const words = el("output", {}), note = el("p", {class: "muted", id: "volumes-note"});
  function take() {
    list = kind === "step" ? stepVolumes() : kind === "kernel" ? kernelVolumes() : kind === "cta" ? partVolumes(ctaParts, axisNames, say("CTA", "thread")) : partVolumes(smParts, null, "SM");
    const sum = (a) => a.reduce((x, y) => x + y, 0);
    words.textContent = (kind === "cta" ? partLaunches(ctaParts) : kind === "sm" ? partLaunches(smParts) : ofThreads ? "in all" : "all launches") + ": loaded " + bytes(sum(list.load)) + ", stored " + bytes(sum(list.store));
    e.style.width = list.names ? "max(100%, " + (left + least * Math.min(list.n, 500)) + "px)" : "100%";
  }
  // Limits the bars to half the number of pixels: neighbours are shown by the largest value of each kind.
  function binned(width) {
    const n = Math.max(1, Math.min(list.n, Math.floor((width - left) / 2))), out = {n, of: (b) => [Math.ceil(b * list.n / n), Math.ceil((b + 1) * list.n / n)]};
    for (const key of [...volumeKeys, "otherCta"]) out[key] = new Float64Array(n);
    for (let i = 0; i < list.n; i++) {
      const b = Math.floor(i * n / list.n);
      for (const key of volumeKeys) out[key][b] = Math.max(out[key][b], list[key][i]);
      out.otherCta[b] = Math.max(out.otherCta[b], list.commLoad[i] - list.sameCta[i]);
    }
    return out;
  }
  function noted() {
    const out = [], most = Math.ceil(list.n / bins.n);
    if (most > 1) out.push("Each bar is the largest value of each kind among up to " + most + " neighbouring " + list.unit + (list.unit === "launch" ? "es" : "s") + ", not their sum; the table lists each.");
    if (list.bin > 1) out.push(count(list.bin) + say(" neighbouring CTAs are summed, also in the table: the page has at most 400,000 volumes.", " neighbouring threads are summed, also in the table: the page has at most 400,000 volumes."));
    return out.join(" ");
  }
  function draw(c, width, height) {
    if (!list) take();
    bins = binned(width);
    note.textContent = noted();
    const slant = list.names && width - left < list.n * (d3.max(d3.range(list.n), (i) => c.measureText(list.tick(i)).width) + 8);
    bottom = slant ? 118 : 24;
    const up = Math.max(1, d3.max(bins.load), d3.max(bins.commLoad)), down = Math.max(d3.max(bins.store), d3.max(bins.commStore), up * 0.02);
    const room = height - bottom - 14, size = (v) => log ? Math.log2(1 + v) : v, zero = 8 + room * size(up) / (size(up) + size(down));
    const y = (v) => v < 0 ? zero + (8 + room - zero) * size(-v) / size(down) : zero - (zero - 8) * size(v) / size(up);
    const w = (width - left) / bins.n, gap = w > 14 ? 3 : w > 5 ? 1 : 0;
    c.textAlign = "right";
    for (const t of log ? logTicks(up, down) : byteTicks(up, down)) {
      if (Math.abs(y(t) - zero) < 14 && t) continue;
      c.fillStyle = theme.line;
      c.fillRect(left, Math.round(y(t)), width - left, 1);
      c.fillStyle = theme.muted;
      c.fillText(t ? bytes(Math.abs(t)) : "0", left - 8, y(t));
    }
    for (let b = 0; b < bins.n; b++) {
      // Narrow bars are aligned to pixels to avoid a shimmer.
      const bar = w < 4 ? Math.round(left + (b + 1) * w) - Math.round(left + b * w) : Math.max(Math.min(w - gap, 90), 1);
      const at = w < 4 ? Math.round(left + b * w) : left + b * w + (w - bar) / 2;
      const dim = bins.n === list.n && list.chosen && state.superstep !== null && !list.chosen(b);
      c.globalAlpha = dim ? 0.4 : 1;
      c.fillStyle = theme["load-pale"];
      c.fillRect(at, y(bins.load[b]), bar, zero - y(bins.load[b]));
      const nested = list.told ? [["load-mid", bins.commLoad], ["load", bins.otherCta], ["load-deep", bins.sameLaunch]] : [["load", bins.commLoad]];
      for (const [colour, of] of nested) {
        c.fillStyle = theme[colour];
        c.fillRect(at, y(of[b]), bar, zero - y(of[b]));
      }
      c.fillStyle = theme["store-pale"];
      c.fillRect(at, zero, bar, y(-bins.store[b]) - zero);
      c.fillStyle = theme.store;
      c.fillRect(at, zero, bar, y(-bins.commStore[b]) - zero);
    }
    c.globalAlpha = 1;
    c.fillStyle = theme.muted;
    c.fillRect(left, zero, width - left, 1);
    if (slant) {
      uprightNames(c, (b) => left + (b + 0.5) * w, height - bottom + 6, Math.max(1, Math.ceil(12 / w)));
      return;
    }
    c.textAlign = "center";
    const apart = 64, every = Math.max(1, Math.ceil(apart / w));
    let free = -Infinity;
    for (let b = 0; b < bins.n; b += list.names ? 1 : every) {
      const text = clipText(c, list.tick(bins.of(b)[0]), list.names ? width : Math.max(apart - 6, w - 6)), half = c.measureText(text).width / 2;
      const x = Math.max(left + half, Math.min(width - half, left + (b + 0.5) * w));
      if (x - half < free) continue;
      c.fillText(text, x, height - 9);
      free = x + half + 6;
    }
  }
  function uprightNames(c, x, y, every) {
    c.textAlign = "right";
    for (let b = 0; b < bins.n; b += every) {
      c.save();
      c.translate(x(b), y);
      c.rotate(-Math.PI / 2);
      c.fillText(clipText(c, list.tick(bins.of(b)[0]), bottom - 10), 0, 0);
      c.restore();
    }
  }
  function lines(b) {
    const [from, to] = bins.of(b), most = to - from > 1 ? "at most " : "";
    const of = list.told && !most ? communicationLines({commLoad: bins.commLoad[b], commStore: bins.commStore[b], sameLaunch: bins.sameLaunch[b], sameCta: bins.sameCta[b]}, true)
      : ["communication: loaded " + most + exactBytes(bins.commLoad[b]) + ", stored " + most + exactBytes(bins.commStore[b])];
    return [most ? list.name(from) + " and " + many(to - from - 1, "other") + ", each:" : list.name(from), "loaded " + most + exactBytes(bins.load[b]) + ", stored " + most + exactBytes(bins.store[b]), ...of];
  }
  // Returns the bar with most bytes in a bin.
  function largestOf(b) {
    const [from, to] = bins.of(b);
    return largest(d3.range(from, to), (i) => list.load[i] + list.store[i]);
  }
  function binAt(event) {
    const px = at(event, e)[0], b = Math.floor((px - left) / (surface.width - left) * bins.n);
    return px >= left && b < bins.n ? b : null;
  }
  let cursor = null;
  e.addEventListener("pointermove", (event) => {
    const b = binAt(event);
    if (b === null) hideTip();
    else showTip(event.clientX, event.clientY, lines(b));
  });
  e.addEventListener("pointerleave", hideTip);
  e.addEventListener("click", (event) => {
    const b = binAt(event);
    if (b !== null && list.pick) list.pick(largestOf(b));
  });
  e.addEventListener("keydown", (event) => {
    const step = {ArrowLeft: -1, ArrowRight: 1}[event.key];
    if (!step) return;
    event.preventDefault();
    cursor = cursor === null ? 0 : Math.max(0, Math.min(bins.n - 1, cursor + step));
    const box = e.getBoundingClientRect();
    showTip(box.left + left + (cursor + 0.5) * (surface.width - left) / bins.n, box.top + 40, lines(cursor));
  });
  e.addEventListener("blur", hideTip);
  function change() {
    take();
    surface.draw();
  }
  onState(change);
  const volumeTableRows = () => d3.range(list.n).map((i) => Object.assign({name: list.name(i), told: list.told}, ...volumeKeys.map((key) => ({[key]: list[key][i]}))));
  const legend = el("div", {class: "legend"}), legendOf = () => [["load-pale", "loaded"], ...list && list.told && !ofThreads ? [["load-mid", "communication from " + data.words.senders[2][0]], ["load", "from " + data.words.senders[1][0]], ["load-deep", "from " + data.words.senders[0][0]]] : [["load", "communication"]], ["store-pale", "stored"], ["store", "stored and later loaded as communication"]];
  const drawLegend = () => clear(legend, ...legendOf().map(([k, t]) => el("span", {title: k.startsWith("load") && k !== "load-pale" ? communicationWords : null}, el("i", {style: "background:" + theme[k]}), t)));
  redraws.push(drawLegend);
  section.append(lead(ofThreads ? "Bytes loaded (up) and stored (down) by thread. The logarithmic scale shows small values beside large ones." : say("Bytes loaded (up) and stored (down). By CTA and by SM: of the selected launch, or of all. The logarithmic scale shows small values beside large ones; lengths of its bars do not add up.", "Bytes loaded (up) and stored (down). By thread and by SM: of the selected run, or of all. The logarithmic scale shows small values beside large ones; lengths of its bars do not add up.")),
    el("div", {class: "bar"}, segments("Volumes", kinds, kind, (v) => { kind = v; cursor = null; change(); drawLegend(); }),
    segments("Scale of volumes", [["linear", "Linear"], ["log", "Log"]], "linear", (v) => { log = v === "log"; surface.draw(); }), words),
  figure("Volumes", sideways(surface), volumeTableRows, [textColumn("part", "name", true), ...volumeColumns, ...senderColumns(data.has.senders)]), note, legend);
  return {list: () => list, bins: () => bins};
}

// Returns round numbers of bytes: 1, 2, 5 times a power of ten of the unit that fits.
function byteTicks(up, down) {
  const most = Math.max(up, down), unit = Math.pow(1024, Math.max(0, Math.min(5, Math.floor(Math.log(most) / Math.log(1024)))));
  return d3.scaleLinear().domain([-down / unit, up / unit]).ticks(5).map((t) => t * unit).filter((t) => t === Math.floor(t) || unit > 1);
}
// Returns powers of 32, up to the maximum on each side.
function logTicks(up, down) {
  const of = (most) => d3.range(0, Math.floor(Math.log(most) / Math.log(32)) + 1).map((k) => 32 ** k);
  return [0, ...of(up), ...of(down).map((t) => -t)].filter((t) => Math.abs(t) !== 1);
}
