// Heat maps of transfers: kernel to kernel, CTA to CTA. Both use one drawing: a map asks its model for sums of a part
// of the matrix on a grid no finer than its pixels, so that work and picture stay small for any number of CTAs.
const mapSize = {top: 20, turned: 110, most: 560, cell: 112, named: 15, allNamed: 64};

// model: size(), origin (first index shown), sum(rows [r0, r1), columns [c0, c1), n rows, n columns) -> {bytes, count},
// name(index), lines(range of rows, range of columns) -> texts of the tooltip
function heatMap(label, model, choose) {
  let view = null, grid = null, cursor = null, drag = null, top = mapSize.top;
  const left = model.left;
  const surface = canvas(420, label, draw), e = surface.element, box = sideways(surface);
  const legend = el("div", {class: "legend"});
  const size = () => model.size() - model.origin;
  function whole() { view = {r: model.origin, c: model.origin, n: Math.max(1, size())}; }
  function geometry() {
    const side = sideOf(surface.width), n = Math.max(1, Math.min(view.n, Math.floor(side / (view.n <= 64 ? 4 : 1)), 512));
    return {side, n, cell: side / n};
  }
  // A few places need no large picture; if all have names, the picture has room for them.
  function sideOf(width) { return Math.max(namedSide(), Math.min(width - left - 4, mapSize.most, size() * mapSize.cell)); }
  function namedSide() { return model.upright && size() <= mapSize.allNamed ? mapSize.named * size() : 0; }
  e.style.width = model.upright ? "max(100%, " + (left + 4 + namedSide()) + "px)" : "100%";
  // Returns the names of columns, which are rotated if they are wide.
  function columnNames() { return model.upright ? d3.range(view.c, view.c + Math.min(view.n, 512)).map(model.name) : []; }
  function topOf(c, width) {
    const widest = d3.max(columnNames(), (name) => c.measureText(name).width) || 0;
    return widest + 6 > sideOf(width) / view.n ? Math.max(mapSize.top, Math.min(widest, mapSize.turned) + 8) : mapSize.top;
  }
  // Returns the indices [from, to) of bin i of n; sizes of bins may differ by one.
  function range(start, i, n) { return [start + Math.ceil(i * view.n / n), start + Math.ceil((i + 1) * view.n / n)]; }

  function draw(c, width) {
    if (!view || view.n > size()) whole();
    top = topOf(c, width);
    const wanted = sideOf(width) + top + 26;
    if (Math.abs(wanted - surface.height) > 1) {
      surface.setHeight(wanted);
      askRedraw();
      return;
    }
    const g = geometry();
    grid = model.sum(view.r, view.r + view.n, view.c, view.c + view.n, g.n);
    let most = 0, least = Infinity;
    for (const v of grid.bytes) if (v > 0) { most = Math.max(most, v); least = Math.min(least, v); }
    const scale = most > least ? (v) => 0.06 + 0.94 * Math.log(v / least) / Math.log(most / least) : () => 0.75;
    c.fillStyle = theme.soft;
    c.fillRect(left, top, g.side, g.side);
    if (g.n <= 80) drawCells(c, g, scale);
    else drawPixels(c, g, scale);
    drawAxes(c, g);
    if (cursor) {
      c.strokeStyle = theme.ink;
      c.lineWidth = 2;
      c.strokeRect(left + cursor[1] * g.cell, top + cursor[0] * g.cell, Math.max(g.cell, 3), Math.max(g.cell, 3));
    }
    drawLegend(least, most);
  }
  function drawCells(c, g, scale) {
    const gap = g.cell > 12 ? 1.5 : g.cell > 6 ? 0.75 : 0;
    for (let i = 0; i < g.n * g.n; i++) {
      const v = grid.bytes[i];
      if (!v) continue;
      const x = left + i % g.n * g.cell, y = top + Math.floor(i / g.n) * g.cell;
      c.fillStyle = ramp(scale(v));
      c.fillRect(x + gap, y + gap, g.cell - 2 * gap, g.cell - 2 * gap);
      c.fillStyle = d3.lab(ramp(scale(v))).l > 60 ? "#14181c" : "#ffffff";
      cellText(c, bytesParts(v), x + g.cell / 2, y + g.cell / 2, g.cell - 6);
    }
  }
  // Writes a number in one line, in two, or not at all: a number without its unit is useless.
  function cellText(c, parts, x, y, room) {
    const fits = (text) => c.measureText(text).width <= room;
    c.textAlign = "center";
    if (fits(parts.join(" "))) c.fillText(parts.join(" "), x, y);
    else if (parts.every(fits) && room > 28) parts.forEach((text, i) => c.fillText(text, x, y + (i ? 8 : -7)));
  }
  function drawPixels(c, g, scale) {
    const buffer = gridImage(grid.bytes, g.n, g.n, scale);
    c.imageSmoothingEnabled = false;
    c.drawImage(buffer, left, top, g.side, g.side);
  }
  // Returns the named bins, about one in `every`, with the index that names each: the model's marks, if not all fit.
  function named(start, n, every) {
    const marks = every > 1 && model.marks ? model.marks(start, start + view.n, every * view.n / n) : null, out = [];
    const skip = marks && marks.length > 1 ? Math.max(1, Math.round(marks.length * every / n)) : 0;
    for (let i = 0; skip && i < marks.length; i += skip) out.push([Math.floor((marks[i] - start) * n / view.n), marks[i]]);
    for (let i = 0; !skip && i < n; i += every) out.push([i, range(start, i, n)[0]]);
    return out;
  }
  function drawAxes(c, g) {
    const step = (apart) => Math.max(1, Math.ceil(g.n / Math.max(1, Math.floor(g.side / apart)))), upright = top > mapSize.top, every = step(upright ? 15 : 64), down = step(20);
    c.fillStyle = theme.muted;
    c.textAlign = "right";
    let clear = -Infinity;
    for (const [i, place] of named(view.r, g.n, down)) {
      const y = top + Math.max((i + 0.5) * g.cell, 6);
      if (y - clear < 14) continue;
      clear = y;
      c.fillText(clipText(c, model.name(place), left - 12), left - 6, y);
    }
    c.textAlign = "left";
    let free = 0;
    for (const [i, place] of named(view.c, g.n, every)) {
      if (upright) {
        c.save();
        c.translate(left + (i + 0.5) * g.cell, top - 5);
        c.rotate(-Math.PI / 2);
        c.fillText(clipText(c, model.name(place), mapSize.turned), 0, 0);
        c.restore();
        continue;
      }
      const text = clipText(c, model.name(place), Math.max(g.cell * every - 6, 20)), w = c.measureText(text).width;
      const x = Math.max(left, Math.min(left + g.side - w, left + (i + 0.5) * g.cell - w / 2));
      if (x < free || (text.length < 10 && text.includes("…"))) continue; // too short to identify the name
      c.fillText(text, x, 9);
      free = x + w + 6;
    }
    c.fillText("writer ↓", 0, top - 11);
    c.fillText("reader →", left, top + g.side + 14);
  }
  function drawLegend(least, most) {
    if (!most) {
      clear(legend, "No transfers.");
      return;
    }
    const bar = el("i", {class: "ramp"});
    bar.style.background = "linear-gradient(to right," + [0.06, 0.25, 0.5, 0.75, 1].map(ramp).join(",") + ")";
    clear(legend, el("span", {}, most > least ? exactBytes(least) : "", bar, exactBytes(most), most > least ? ", logarithmic" : ""),
      el("span", {}, model.unit() + (view.n > geometry().n ? " Each square sums up to " + Math.ceil(view.n / geometry().n) + " × " + Math.ceil(view.n / geometry().n) + " of them: zoom in." : "")));
  }
  function cellAt(event) {
    if (!view) return null;
    const [px, py] = at(event, e), g = geometry(), i = Math.floor((py - top) / g.cell), k = Math.floor((px - left) / g.cell);
    return i < 0 || k < 0 || i >= g.n || k >= g.n ? null : [i, k];
  }
  function words(cell) {
    const n = geometry().n, at = cell[0] * n + cell[1], rows = range(view.r, cell[0], n), columns = range(view.c, cell[1], n);
    return [...model.lines(rows, columns), exactBytes(grid.bytes[at]), many(grid.count[at], "access", "accesses")];
  }
  function zoomTo(n, row, column, shareRow, shareColumn) {
    n = Math.max(Math.min(4, size()), Math.min(size(), Math.round(n)));
    const clamp = (v) => Math.max(model.origin, Math.min(model.size() - n, Math.round(v)));
    view = {n, r: clamp(row - shareRow * n), c: clamp(column - shareColumn * n)};
    cursor = null;
    surface.draw();
  }
  e.addEventListener("wheel", (event) => {
    const cell = cellAt(event);
    if (!cell || size() <= 4) return;
    event.preventDefault();
    const n = geometry().n, sr = (cell[0] + 0.5) / n, sc = (cell[1] + 0.5) / n;
    zoomTo(view.n * (event.deltaY > 0 ? 1.5 : 1 / 1.5), view.r + sr * view.n, view.c + sc * view.n, sr, sc);
  }, {passive: false});
  e.addEventListener("pointerdown", (event) => { drag = {x: event.clientX, y: event.clientY, view: Object.assign({}, view), moved: false}; e.setPointerCapture(event.pointerId); });
  e.addEventListener("pointermove", (event) => {
    if (drag && (drag.moved || Math.abs(event.clientX - drag.x) + Math.abs(event.clientY - drag.y) > 4)) {
      const per = drag.view.n / geometry().side;
      drag.moved = true;
      zoomTo(drag.view.n, drag.view.r - (event.clientY - drag.y) * per, drag.view.c - (event.clientX - drag.x) * per, 0, 0);
      hideTip();
      return;
    }
    const cell = cellAt(event);
    if (cell && grid && grid.bytes[cell[0] * geometry().n + cell[1]]) showTip(event.clientX, event.clientY, words(cell));
    else hideTip();
  });
  e.addEventListener("pointerup", (event) => {
    const cell = cellAt(event), still = drag && !drag.moved;
    drag = null;
    if (still && cell && choose) choose(range(view.r, cell[0], geometry().n)[0], range(view.c, cell[1], geometry().n)[0]);
  });
  e.addEventListener("pointerleave", hideTip);
  e.addEventListener("keydown", (event) => {
    const g = geometry(), step = {ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1]}[event.key];
    if (step) {
      cursor = cursor ? [0, 1].map((i) => Math.max(0, Math.min(g.n - 1, cursor[i] + step[i]))) : [0, 0];
      surface.draw();
      const box = e.getBoundingClientRect();
      showTip(box.left + left + cursor[1] * g.cell, box.top + top + cursor[0] * g.cell, words(cursor));
    } else if (event.key === "+" || event.key === "=" || event.key === "-") {
      const at = cursor || [g.n / 2, g.n / 2];
      zoomTo(view.n * (event.key === "-" ? 1.5 : 1 / 1.5), view.r + at[0] / g.n * view.n, view.c + at[1] / g.n * view.n, at[0] / g.n, at[1] / g.n);
    } else if (event.key === "0") { whole(); cursor = null; surface.draw(); }
    else if (event.key === "Enter" && cursor && choose) choose(range(view.r, cursor[0], g.n)[0], range(view.c, cursor[1], g.n)[0]);
    else if (event.key === "Escape") { cursor = null; hideTip(); surface.draw(); }
    else return;
    event.preventDefault();
  });
  e.addEventListener("blur", () => { if (cursor) { cursor = null; hideTip(); surface.draw(); } });
  return {element: box.element, legend, svg: surface.svg, size: surface.size, draw: surface.draw, whole() { whole(); surface.draw(); }, zoom(f) { zoomTo(view.n * f, view.r + view.n / 2, view.c + view.n / 2, 0.5, 0.5); },
          sums: () => grid, view: () => view};
}

// ---- kernel to kernel ----
// Rows without superstep, from very large traces, appear only in the sum over all launches.
const rowsTogether = transferRows.some((r) => r.targetStep === null);
function rowShown(r) { return state.superstep === null || rowsTogether || r.targetStep === state.superstep; }
function kernelModel() {
  const used = [...new Set(transferRows.flatMap((r) => [r.source, r.target]))].sort((a, b) => a - b), places = new Map(used.map((k, i) => [k, i]));
  return {used, origin: 0, left: 150, upright: true, size: () => used.length, unit: () => say("Select a cell to see its CTAs.", "Select a cell to see its threads.") + (used.length > mapSize.allNamed ? say(" Only some kernels are labelled: zoom in for others.", " Only some programs are labelled: zoom in for others.") : "") + (rowsTogether ? say(" All launches together: there are too many to show one alone.", " All runs together: there are too many to show one alone.") : ""), name: (i) => shortKernel(kernelNames[used[i]] || ""),
    sum(r0, r1, c0, c1, n) {
      const out = {bytes: new Float64Array(n * n), count: new Float64Array(n * n)};
      for (const r of transferRows) {
        const i = places.get(r.source), k = places.get(r.target);
        if (!rowShown(r) || i < r0 || i >= r1 || k < c0 || k >= c1) continue;
        const at = Math.floor((i - r0) * n / (r1 - r0)) * n + Math.floor((k - c0) * n / (c1 - c0));
        out.bytes[at] += r.size;
        out.count[at] += r.count;
      }
      return out;
    },
    lines: (rows, columns) => [kernelNames[used[rows[0]]] + " → " + kernelNames[used[columns[0]]], rows[1] - rows[0] > 1 ? "and " + count(rows[1] - rows[0] - 1) + say(" neighbouring kernels", " neighbouring programs") : null],
  };
}

// ---- CTA to CTA ----
const kernelBySuperstep = new Map(launches.map((l) => [l.superstep, l.kernel]));
function groupShown(g) {
  if (state.superstep !== null && Math.floor(state.superstep / cells.stepBin) !== g.step) return false;
  if (state.source !== null && state.source !== g.kernel) return false;
  return !state.target || cells.stepBin > 1 || kernelBySuperstep.get(g.step) === state.target;
}
// Returns the group's first cell in a row at or after `row`.
function firstInRow(g, row) {
  let lo = g.from, hi = g.to;
  while (lo < hi) {
    const mid = (lo + hi) >> 1;
    if (cells.row[mid] < row) lo = mid + 1;
    else hi = mid;
  }
  return lo;
}
function ctaName(place) {
  if (place === 0) return "host";
  return axisNames[(place - 1) * cells.bin] || "";
}
function ctaRange(range, bin) {
  if (range[0] === 0 && range[1] === 1) return "host";
  const first = axisNames[(Math.max(range[0], 1) - 1) * bin], last = axisNames[Math.min((range[1] - 1) * bin, axisNames.length) - 1];
  return (range[0] === 0 ? "host and " : "") + (first === last ? say("CTA ", "thread ") + first : say("CTAs ", "threads ") + first + " … " + last);
}
// Returns the places in [from, to) to label: the host, and the beginnings of the grid's rows, or round numbers about
// `apart` from one another if the grid has one row. null: too many rows, or several CTAs in a place.
const rowMarks = 300;
function ctaMarks(from, to, apart) {
  const out = from === 0 ? [0] : [];
  if (!axisNames.length || cells.bin > 1) return null;
  if (!axisNames[0].includes(",")) {
    const ten = 10 ** Math.floor(Math.log10(apart)), step = ten * [1, 2, 5, 10].find((k) => k * ten >= apart);
    for (let i = Math.ceil(Math.max(from - 1, 0) / step) * step + 1; i < to; i += step) out.push(i);
    return out;
  }
  for (let i = Math.max(from, 1); i < to && out.length <= rowMarks; i++)
    if (axisNames[i - 1].startsWith("0,")) out.push(i);
  return out.length > rowMarks ? null : out;
}
function ctaModel() {
  return {origin: cells.host ? 0 : 1, left: 72, size: () => cells.width, name: ctaName, marks: ctaMarks,
    unit: () => (cells.bin > 1 ? "Each cell sums at least " + cells.bin + " × " + cells.bin + say(" CTAs; --supersteps or --kernels show more. ", " threads; --supersteps or --programs show more. ") : "")
      + (cells.stepBin > 1 ? state.superstep === null ? say("Launches are grouped by ", "Runs are grouped by ") + cells.stepBin + "." : "Of " + partLaunches(cells) + "." : ""),
    sum(r0, r1, c0, c1, n) {
      const out = {bytes: new Float64Array(n * n), count: new Float64Array(n * n), work: 0}, rows = n / (r1 - r0), columns = n / (c1 - c0);
      for (const g of cells.groups) {
        if (!groupShown(g)) continue;
        const end = firstInRow(g, r1);
        for (let i = firstInRow(g, r0); i < end; i++) {
          const k = cells.column[i];
          out.work++;
          if (k < c0 || k >= c1 || (state.target !== null && (state.target === 0) !== (k === 0))) continue;
          const at = Math.floor((cells.row[i] - r0) * rows) * n + Math.floor((k - c0) * columns);
          out.bytes[at] += cells.size[i];
          out.count[at] += cells.count[i];
        }
      }
      return out;
    },
    lines: (rows, columns) => [ctaRange(rows, cells.bin) + " → " + ctaRange(columns, cells.bin)],
  };
}

// ---- tables ----
function pairColumns(what) {
  return [textColumn("from " + what, "from", true), textColumn("to " + what, "to", true), numberColumn("bytes", "bytes"), numberColumn("accesses", "accesses")];
}
function kernelPairRows() {
  const pairs = new Map();
  for (const r of transferRows) {
    if (!rowShown(r)) continue;
    const key = r.source + " " + r.target, p = pairs.get(key) || {from: kernelNames[r.source], to: kernelNames[r.target], bytes: 0, accesses: 0};
    p.bytes += r.size;
    p.accesses += r.count;
    pairs.set(key, p);
  }
  return [...pairs.values()];
}
// Returns all cells shown; a pair of CTAs in several launches has several rows.
function ctaPairRows() {
  const rows = [], last = (place) => ctaRange([place, place + 1], cells.bin);
  for (const g of cells.groups)
    for (let i = g.from; groupShown(g) && i < g.to; i++)
      rows.push({from: last(cells.row[i]), to: last(cells.column[i]), bytes: cells.size[i], accesses: cells.count[i]});
  return rows;
}

// ---- the panel ----
function superstepControl() {
  const steps = launches.map((l) => l.superstep);
  const slider = el("input", {type: "range", min: "0", max: String(steps.length), value: "0", id: "launch", "aria-label": "launch", on: {input() {
    setState({superstep: +this.value ? steps[this.value - 1] : null});
  }}});
  const words = el("output", {for: "launch", id: "launch-words"});
  function follow() {
    const i = state.superstep === null ? 0 : steps.indexOf(state.superstep) + 1;
    slider.value = i;
    words.textContent = i ? say("launch ", "run ") + count(steps[i - 1]) + ": " + kernelNames[launches[i - 1].kernel] : say("all launches", "all runs");
    slider.setAttribute("aria-valuetext", words.textContent);
  }
  onState(follow);
  follow();
  return el("label", {class: "launch"}, "launch", slider, words);
}

function drawTransfers(section) {
  if (!data.has.transfers) {
    section.append(nothing("The comm.json has no section “transfers”: memtrace extract --sections transfers writes it."));
    return null;
  }
  if (!transferRows.length) {
    section.append(nothing(say("No CTA reads bytes of another CTA or of the host.", "No thread reads bytes of another thread or of the host.")));
    return null;
  }
  section.append(lead(ofThreads ? "Row: last writer of the bytes; column: reader. Wheel or + and − zoom, dragging moves, arrow keys go from cell to cell." : say("Row: last writer of the bytes; column: reader. The launch is the reader’s. Wheel or + and − zoom, dragging moves, arrow keys go from cell to cell.", "Row: last writer of the bytes; column: reader. The run is the reader’s. Wheel or + and − zoom, dragging moves, arrow keys go from cell to cell.")));
  const kernels = heatMap(say("Transfers from kernel to kernel", "Transfers from program to program"), kernelModel(), (row, column) => {
    const same = state.source === model.used[row] && state.target === model.used[column];
    setState({source: same ? null : model.used[row], target: same ? null : model.used[column]});
  });
  const model = kernelModel();
  const ctas = heatMap(say("Transfers from CTA to CTA", "Transfers from thread to thread"), ctaModel(), null);
  const title = el("span"), reset = el("button", {type: "button", class: "quiet", on: {click() { setState({source: null, target: null}); ctas.whole(); }}}, "show all");
  function follow() {
    clear(title, say("CTA → CTA", "thread → thread"), state.source === null ? "" : ": " + kernelNames[state.source] + " → " + kernelNames[state.target]);
    reset.hidden = state.source === null;
    kernels.draw();
    ctas.draw();
  }
  onState(follow);
  section.append(ofThreads ? "" : el("div", {class: "bar"}, superstepControl()),
    el("div", {class: ofThreads ? "" : "two"}, ofThreads ? "" : el("div", {id: "kernel-map"}, el("h3", {}, say("Kernel → kernel", "Program → program")), figure(say("Transfers from kernel to kernel", "Transfers from program to program"), kernels, kernelPairRows, pairColumns("kernel")), kernels.legend),
      el("div", {id: "cta-map"}, el("h3", {}, title, " ", reset), figure(say("Transfers from CTA to CTA", "Transfers from thread to thread"), ctas, ctaPairRows, pairColumns(say("CTA", "thread"))), ctas.legend, el("div", {class: "bar"},
        el("button", {type: "button", on: {click() { ctas.zoom(0.5); }}}, "Zoom in"), el("button", {type: "button", on: {click() { ctas.zoom(2); }}}, "Zoom out"),
        el("button", {type: "button", on: {click() { ctas.whole(); }}}, "Whole matrix")))));
  follow();
  return {kernels, ctas};
}
