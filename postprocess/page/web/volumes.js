// Volumes as bars: loads up, stores down; pale all bytes, solid those that were communicated.
const volumeKinds = [["step", "By launch"], ["kernel", "By kernel"], ["cta", "By CTA"], ["sm", "By SM"]];

// A list of volumes: {n, name(i), load, store, commLoad, commStore (arrays), pick(i)}.
function stepVolumes() {
  const of = (key) => Float64Array.from(launches, (l) => l[key]);
  return {n: launches.length, load: of("load"), store: of("store"), commLoad: of("commLoad"), commStore: of("commStore"),
          name: (i) => "launch " + launches[i].superstep + ": " + kernelNames[launches[i].kernel], tick: (i) => String(launches[i].superstep),
          pick: (i) => setState({superstep: state.superstep === launches[i].superstep ? null : launches[i].superstep}),
          chosen: (i) => launches[i].superstep === state.superstep};
}
// Kernels, those with most bytes first.
function kernelVolumes() {
  const rows = kernelRows().sort((a, b) => b.load + b.store - a.load - a.store), of = (key) => Float64Array.from(rows, (r) => r[key]);
  return {n: rows.length, load: of("load"), store: of("store"), commLoad: of("commLoad"), commStore: of("commStore"), name: (i) => rows[i].name, tick: (i) => shortKernel(rows[i].name), tickRoom: 170};
}
// The parts of the chosen superstep, or all supersteps added up.
function partVolumes(parts, names, unit) {
  const n = parts.most + 1, out = {n, load: new Float64Array(n), store: new Float64Array(n), commLoad: new Float64Array(n), commStore: new Float64Array(n)};
  for (const g of parts.groups) {
    if (state.superstep !== null && Math.floor(state.superstep / parts.stepBin) !== g.step) continue;
    for (let i = g.from; i < g.to; i++) {
      out.load[parts.key[i]] += parts.load[i];
      out.store[parts.key[i]] += parts.store[i];
      out.commLoad[parts.key[i]] += parts.commLoad[i];
      out.commStore[parts.key[i]] += parts.commStore[i];
    }
  }
  const first = (i) => names ? names[i * parts.bin] : String(i);
  const last = (i) => names ? names[Math.min((i + 1) * parts.bin, names.length) - 1] : String(i);
  out.name = (i) => parts.bin > 1 ? unit + "s " + first(i) + " … " + last(i) : unit + " " + first(i);
  out.tick = first;
  return out;
}

function drawVolumes(section) {
  const has = {step: data.has.data || data.has.comm, kernel: kernelNames.length > 2, cta: !!(ctaParts && ctaParts.groups.length), sm: !!(smParts && smParts.groups.length)};
  const kinds = volumeKinds.filter(([k]) => has[k]);
  if (!kinds.length || !launches.length) {
    section.append(nothing("There are no volumes: mt-extract left the sections out on request, or no launch was traced."));
    return null;
  }
  if (!launches.some((l) => l.load || l.store || l.commLoad || l.commStore)) {
    section.append(nothing("No byte of global memory was loaded or stored."));
    return null;
  }
  let kind = kinds[0][0], list = null, bins = null, log = false;
  const left = 74, bottom = 24, surface = canvas(330, "Volumes as bars", draw), e = surface.element;
  const words = el("output", {});
  function take() {
    list = kind === "step" ? stepVolumes() : kind === "kernel" ? kernelVolumes() : kind === "cta" ? partVolumes(ctaParts, axisNames, "CTA") : partVolumes(smParts, null, "SM");
    const sum = (a) => a.reduce((x, y) => x + y, 0);
    words.textContent = (kind === "step" || kind === "kernel" || state.superstep === null ? "all launches" : "launch " + state.superstep) + ": loaded " + bytes(sum(list.load)) + ", stored " + bytes(sum(list.store));
  }
  // No more bars than half as many as there are pixels: neighbours are added up.
  function binned(width) {
    const n = Math.max(1, Math.min(list.n, Math.floor((width - left) / 2))), out = {n, of: (b) => [Math.ceil(b * list.n / n), Math.ceil((b + 1) * list.n / n)]};
    for (const key of ["load", "store", "commLoad", "commStore"]) {
      out[key] = new Float64Array(n);
      for (let i = 0; i < list.n; i++) out[key][Math.floor(i * n / list.n)] += list[key][i];
    }
    return out;
  }
  function draw(c, width, height) {
    if (!list) take();
    bins = binned(width);
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
      // Narrow bars are on whole pixels: else they would shimmer.
      const bar = w < 4 ? Math.round(left + (b + 1) * w) - Math.round(left + b * w) : Math.max(Math.min(w - gap, 90), 1);
      const at = w < 4 ? Math.round(left + b * w) : left + b * w + (w - bar) / 2;
      const dim = bins.n === list.n && list.chosen && state.superstep !== null && !list.chosen(b);
      c.globalAlpha = dim ? 0.4 : 1;
      c.fillStyle = theme["load-pale"];
      c.fillRect(at, y(bins.load[b]), bar, zero - y(bins.load[b]));
      c.fillStyle = theme.load;
      c.fillRect(at, y(bins.commLoad[b]), bar, zero - y(bins.commLoad[b]));
      c.fillStyle = theme["store-pale"];
      c.fillRect(at, zero, bar, y(-bins.store[b]) - zero);
      c.fillStyle = theme.store;
      c.fillRect(at, zero, bar, y(-bins.commStore[b]) - zero);
    }
    c.globalAlpha = 1;
    c.fillStyle = theme.muted;
    c.fillRect(left, zero, width - left, 1);
    c.textAlign = "center";
    const apart = list.tickRoom || 64, every = Math.max(1, Math.ceil(apart / w));
    let free = -Infinity;
    for (let b = 0; b < bins.n; b += every) {
      const text = clipText(c, list.tick(bins.of(b)[0]), Math.max(apart - 6, w - 6)), half = c.measureText(text).width / 2;
      const x = Math.max(left + half, Math.min(width - half, left + (b + 0.5) * w));
      if (x - half < free) continue;
      c.fillText(text, x, height - 9);
      free = x + half + 6;
    }
  }
  function lines(b) {
    const [from, to] = bins.of(b);
    return [to - from > 1 ? list.name(from) + " and " + many(to - from - 1, "other") : list.name(from),
      "loaded " + exactBytes(bins.load[b]), "  of it communication " + exactBytes(bins.commLoad[b]),
      "stored " + exactBytes(bins.store[b]), "  of it communication " + exactBytes(bins.commStore[b])];
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
    if (b !== null && list.pick) list.pick(bins.of(b)[0]);
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
  const volumeTableRows = () => d3.range(list.n).map((i) => ({name: list.name(i), load: list.load[i], store: list.store[i], commLoad: list.commLoad[i], commStore: list.commStore[i]}));
  const legend = el("div", {class: "legend"});
  redraws.push(() => clear(legend, ...[["load-pale", "loaded"], ["load", "of it communication (another CTA wrote it)"], ["store-pale", "stored"], ["store", "of it communication (another CTA loads it)"]]
    .map(([k, t]) => el("span", {}, el("i", {style: "background:" + theme[k]}), t))));
  section.append(lead("Bytes loaded (up) and stored (down). By CTA and by SM: of the chosen launch, or of all. A logarithmic scale shows small ones beside large ones; bars are then not to be added up."),
    el("div", {class: "bar"}, segments("Volumes", kinds, kind, (v) => { kind = v; cursor = null; change(); }),
    segments("Scale of volumes", [["linear", "Linear"], ["log", "Log"]], "linear", (v) => { log = v === "log"; surface.draw(); }), words),
  figure("Volumes", surface, volumeTableRows, [textColumn("part", "name", true), ...volumeColumns]), legend);
  return {list: () => list, bins: () => bins};
}

// Round numbers of bytes: 1, 2, 5 times a power of ten of the unit that fits.
function byteTicks(up, down) {
  const most = Math.max(up, down), unit = Math.pow(1024, Math.max(0, Math.min(5, Math.floor(Math.log(most) / Math.log(1024)))));
  return d3.scaleLinear().domain([-down / unit, up / unit]).ticks(5).map((t) => t * unit).filter((t) => t === Math.floor(t) || unit > 1);
}
// Powers of 32, up to the most there is on each side.
function logTicks(up, down) {
  const of = (most) => d3.range(0, Math.floor(Math.log(most) / Math.log(32)) + 1).map((k) => 32 ** k);
  return [0, ...of(up), ...of(down).map((t) => -t)].filter((t) => Math.abs(t) !== 1);
}
