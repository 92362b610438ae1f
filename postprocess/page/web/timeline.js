// Launches by stream, and copies, by time or in order. A click on a launch selects its superstep in all panels.
const lane = {height: 26, gap: 8, left: 92, top: 8, axis: 26};

const rangeLanes = 6; // ranges that are nested deeper, or overlap more, are left out and counted

// Returns items and the names of their lanes: copies, NVTX ranges (by time only), streams.
function timelineItems(order) {
  const all = launches.concat(untracedLaunches), items = [], names = [], known = launches.filter((l) => l.known);
  let most = order ? all.length : all.reduce((m, l) => Math.max(m, l.end), 1), left = 0;
  const ends = [0]; // ends of the launches so far, for copies without times
  for (const l of known) ends.push(Math.max(ends[ends.length - 1], l.end));
  for (const mark of copyMarks) { // one lane per direction, so that none hides another
    const list = copies.filter((c) => mark.kinds.includes(c.kind));
    if (!list.length) continue;
    names.push(mark.lane);
    for (const c of list) {
      const from = order ? c.after : c.begin !== null ? c.begin : ends[Math.min(c.after, ends.length - 1)];
      items.push({lane: names.length - 1, from, copy: c, mark});
      if (!order) most = Math.max(most, from);
    }
  }
  if (!order) {
    const open = [], first = names.length;
    for (const r of ranges.slice().sort((a, b) => a.begin - b.begin || b.end - a.end)) {
      let at = open.findIndex((end) => end <= r.begin);
      if (at < 0) at = open.length;
      if (at >= rangeLanes) { left++; continue; }
      if (at === open.length) names.push(at ? "" : "ranges");
      open[at] = Math.max(r.end, r.begin + 1);
      items.push({lane: first + at, from: r.begin, to: r.end, range: r});
      most = Math.max(most, r.end);
    }
  }
  const streams = [...new Set(all.map((l) => l.stream))].sort((a, b) => a - b), first = names.length;
  names.push(...streams.map((s) => s === null ? "launches" : s < 0 ? "no stream" : "stream " + s));
  all.forEach((l, i) => items.push({lane: first + streams.indexOf(l.stream), launch: l, from: order ? i + 0.06 : l.begin, to: order ? i + 0.94 : Math.max(l.end, l.begin)}));
  const copyLanes = names.map((_, i) => items.filter((item) => item.copy && item.lane === i).sort((a, b) => a.from - b.from)).filter((list) => list.length);
  return {items, copyLanes, names, most: most || 1, left};
}

const copyMarks = [{kinds: ["h2d"], lane: "to device", up: false, colour: "load", words: "copies host → device"}, {kinds: ["d2h"], lane: "to host", up: true, colour: "store", words: "copies device → host"},
  {kinds: ["d2d", "h2h", "set", "new"], lane: "other copies", up: false, colour: "muted", words: "other copies and fills"}];
const timelineColumns = [textColumn("what", "what"), textColumn("name", "name", true), launchColumn("superstep"), numberColumn("stream", "stream"), numberColumn("begin (ns)", "begin"), numberColumn("time (ns)", "ns"), numberColumn("bytes", "bytes")];
function timelineRows() {
  const row = (l) => ({what: "launch" + (l.superstep === null ? ", not traced" : "") + (l.status ? ", failed" : ""), name: kernelNames[l.kernel], superstep: l.superstep, stream: l.stream, begin: l.begin, ns: l.ns, bytes: l.load + l.store});
  return launches.concat(untracedLaunches).map(row).concat(copies.map((c) => ({what: "copy " + c.kind, name: "", superstep: null, stream: null, begin: c.begin, ns: null, bytes: c.bytes})),
    ranges.map((r) => ({what: "range", name: r.name, superstep: null, stream: null, begin: r.begin, ns: r.end - r.begin, bytes: null})));
}
function copySummary(list) {
  const kinds = {};
  for (const c of list) {
    const k = kinds[c.kind] = kinds[c.kind] || {bytes: 0, count: 0};
    k.bytes += c.bytes;
    k.count += c.count;
  }
  const words = {h2d: "host → device", d2h: "device → host", d2d: "device → device", h2h: "host → host", set: "fill"};
  return Object.keys(kinds).map((k) => many(kinds[k].count, words[k] || k, (words[k] || k)) + ": " + exactBytes(kinds[k].bytes));
}

// Texts of a tooltip.
function communicationLines(v, told) {
  return ["communication: loaded " + exactBytes(v.commLoad) + ", stored " + exactBytes(v.commStore),
    told && v.commLoad ? "last written: " + senderKinds.map(([words, of]) => exactBytes(of(v)) + " by " + words).join(", ") : null];
}
function failedWords(l) { return "failed with error " + l.status; }
function launchLines(l) {
  return [kernelNames[l.kernel], l.superstep === null ? "not traced" : say("launch ", "run ") + l.superstep + (l.count > 1 ? " and " + many(l.count - 1, "later one", "later ones") + " of this kernel" : "") + ", stream " + (l.stream === null ? "not known" : l.stream),
    l.status ? failedWords(l) : null,
    l.grid ? "grid " + dimText(l.grid) + ", block " + dimText(l.block) + (l.shared ? ", " + count(l.shared) + " B of dynamic shared memory" : "") : null,
    l.known && l.ns ? "took " + duration(l.ns) + (l.count > 1 ? " in sum" : "") + ", started at " + duration(l.begin) : null,
    l.superstep === null ? null : "loaded " + exactBytes(l.load) + ", stored " + exactBytes(l.store),
    ...l.superstep === null ? [] : communicationLines(l, data.has.senders),
    l.file ? say("launched at ", "started at ") + place(l.file, l.line) : null];
}

function rangeLines(r) {
  return [r.name || "(no name)", "range" + (r.domain ? " of " + r.domain : "") + ", thread " + r.thread, "took " + duration(r.end - r.begin) + ", started at " + duration(r.begin) + (r.open ? ", still open at the end" : "")];
}

// Returns true if one long launch (often the first one, which loads code) would make most others invisible.
function hidden() {
  const known = launches.filter((l) => l.known), times = known.map((l) => l.end - l.begin).sort((a, b) => a - b);
  return launches.length <= 300 && times[times.length >> 1] < 0.003 * known.reduce((m, l) => Math.max(m, l.end), 1);
}

function drawTimeline(section) {
  const timed = launches.some((l) => l.known && l.end > l.begin);
  if (!launches.length && !copies.length) {
    section.append(nothing(say("No launches.", "No runs.")));
    return;
  }
  let order = !timed || hidden(), model = timelineItems(order), view = [0, model.most], boxes = [];
  section.append(lead(say("Kernel launches by stream. The first launch includes one-time work: loading code and starting the device. Select a launch to see its transfers and volumes below. Wheel or + and − zoom, dragging or arrow keys move.", "Program runs by stream. The first run includes one-time work: loading code and starting the device. Select a run to see its transfers and volumes below. Wheel or + and − zoom, dragging or arrow keys move.")
    + (timed ? " Times are those of the traced run, which is slower than without tracing." : "")
    + (copies.some((c) => c.begin === null) ? say(" Copies without times are shown between the launches before and after them.", " Copies without times are shown between the runs before and after them.") : "")
    + (filtered ? say(" Copies, ranges and untraced launches of the whole run are shown.", " Copies, ranges and untraced runs of the whole run are shown.") : "")
    + (copies.length ? " A number beside a mark is how many copies it stands for." : "")
    + (model.left ? " " + many(model.left, "range is", "ranges are") + " nested too deeply to be shown." : "")));
  const surface = canvas(10, say("Timeline of launches and copies", "Timeline of runs and copies"), draw), e = surface.element;
  function fit() { surface.setHeight(lane.top + model.names.length * (lane.height + lane.gap) + lane.axis); }
  function x(v, width) { return lane.left + (v - view[0]) / (view[1] - view[0]) * (width - lane.left - 8); }
  function row(i) { return lane.top + i * (lane.height + lane.gap); }

  function drawLaunch(c, item, x0, x1, y) {
    const l = item.launch, w = Math.max(x1 - x0, 1.5), chosen = state.superstep !== null && l.superstep === state.superstep;
    c.fillStyle = kernelColour(l.kernel);
    c.globalAlpha = l.superstep === null ? 0.35 : state.superstep === null || chosen ? 1 : 0.45;
    c.beginPath();
    c.roundRect(x0, y, w, lane.height, Math.min(5, w / 2));
    c.fill();
    c.globalAlpha = 1;
    if (chosen || l.status) {
      c.strokeStyle = l.status ? theme.warn : theme.ink;
      c.lineWidth = 2;
      c.stroke();
    }
    if (w > 40) {
      c.fillStyle = l.superstep === null ? theme.ink : d3.lab(kernelColour(l.kernel)).l > 62 ? "#14181c" : "#ffffff";
      c.textAlign = "left";
      c.fillText(clipText(c, (l.status ? "✗ " : "") + (l.superstep === null ? "" : l.superstep + "  ") + shortKernel(kernelNames[l.kernel]), w - 12), x0 + 6, y + lane.height / 2 + 1);
    }
  }
  function drawRange(c, r, x0, x1, y) {
    const w = Math.max(x1 - x0, 1.5);
    c.fillStyle = theme.card;
    c.strokeStyle = theme.accent;
    c.lineWidth = 1;
    c.fillRect(x0, y + 3, w, lane.height - 6);
    c.strokeRect(x0 + 0.5, y + 3.5, Math.max(w - 1, 0.5), lane.height - 7);
    if (w > 30) {
      c.fillStyle = theme.ink;
      c.textAlign = "left";
      c.fillText(clipText(c, r.name, w - 12), x0 + 6, y + lane.height / 2 + 1);
    }
  }
  // Draws the copies of a lane, from left to right: overlapping ones are one mark, with their number.
  function drawCopies(c, list, width) {
    let group = null;
    const y = row(list[0].lane), put = () => {
      if (group) drawCopy(c, group, y);
    };
    for (const item of list) {
      const px = x(item.from, width);
      if (px < lane.left - 8 || px > width + 8) continue;
      if (group && px < group.x0 + 15 + (group.n > 1 ? c.measureText(count(group.n)).width + 2 : 0)) {
        group.copies.push(item.copy);
        group.n += item.copy.count;
        continue;
      }
      put();
      group = {x0: px, copies: [item.copy], n: item.copy.count, mark: item.mark};
    }
    put();
  }
  function drawCopy(c, {x0, copies, n, mark}, y) {
    const mid = y + lane.height / 2, up = mark.up ? -1 : 1;
    c.fillStyle = theme[mark.colour];
    c.beginPath(); // a drop: down to the device, up to the host
    c.moveTo(x0 - 6, mid - 6 * up);
    c.lineTo(x0 + 6, mid - 6 * up);
    c.lineTo(x0, mid + 7 * up);
    c.fill();
    if (n > 1) {
      c.fillStyle = theme.ink;
      c.textAlign = "left";
      c.fillText(count(n), x0 + 8, mid + 1);
    }
    boxes.push({item: {copies}, x0: x0 - 6, x1: x0 + 6, y});
  }
  function drawAxis(c, width, height) {
    const scale = d3.scaleLinear().domain(view).range([lane.left, width - 8]);
    c.fillStyle = theme.muted;
    c.textAlign = "center";
    const ticks = order ? scale.ticks(Math.min(10, width / 90)).filter((t) => t === Math.floor(t)) : scale.ticks(Math.min(9, width / 110));
    let clear = -Infinity;
    for (const t of ticks) {
      const px = order ? scale(t + 0.5) : scale(t), text = order ? String(t < launches.length ? launches[t].superstep : "") : t === 0 ? "0" : duration(Math.round(t)).replace(/\.0+\u00a0/, "\u00a0");
      if (px > width || px < lane.left) continue;
      c.fillRect(px, height - lane.axis + 2, 1, 4);
      if (px - clear < 50) continue;
      c.fillText(text, Math.min(px, width - c.measureText(text).width / 2 - 2), height - lane.axis + 15);
      clear = px;
    }
  }
  function draw(c, width, height) {
    boxes = [];
    model.names.forEach((name, i) => {
      const y = lane.top + i * (lane.height + lane.gap);
      c.fillStyle = theme.soft;
      c.fillRect(lane.left, y - 2, width - lane.left, lane.height + 4);
      c.fillStyle = theme.muted;
      c.textAlign = "left";
      c.fillText(name, 0, y + lane.height / 2 + 1);
    });
    const filled = new Map(); // draws one of several launches in a pixel; its tooltip counts the others
    c.save();
    c.beginPath();
    c.rect(lane.left - 7, 0, width - lane.left + 7, height);
    c.clip();
    for (const item of model.items) {
      if (item.copy) continue;
      const x0 = x(item.from, width), x1 = x(item.to, width), y = row(item.lane);
      if (x1 < lane.left - 8 || x0 > width + 8) continue;
      const box = {item, x0: x0 - 1, x1: Math.max(x1, x0 + 1.5) + 1, y, others: 0};
      if (x1 - x0 < 1.5) {
        const key = item.lane * 1e5 + Math.round(x0);
        if (filled.has(key)) {
          filled.get(key).others++;
          continue;
        }
        filled.set(key, box);
      }
      if (item.launch) drawLaunch(c, item, x0, x1, y);
      else drawRange(c, item.range, x0, x1, y);
      boxes.push(box);
    }
    for (const list of model.copyLanes) drawCopies(c, list, width);
    c.restore();
    drawAxis(c, width, height);
  }
  function hit(event) {
    const [px, py] = at(event, e);
    for (let i = boxes.length - 1; i >= 0; i--)
      if (px >= boxes[i].x0 && px <= boxes[i].x1 && py >= boxes[i].y && py <= boxes[i].y + lane.height) return boxes[i];
    return null;
  }
  function zoom(factor, centre) {
    const full = model.most, size = Math.min(full, Math.max((view[1] - view[0]) * factor, order ? 1 : Math.max(1, full * 1e-6)));
    const share = (centre - view[0]) / (view[1] - view[0]), from = Math.max(0, Math.min(full - size, centre - share * size));
    view = [from, from + size];
    surface.draw();
  }
  function move(by) {
    const size = view[1] - view[0], from = Math.max(0, Math.min(model.most - size, view[0] + by * size));
    view = [from, from + size];
    surface.draw();
  }
  let drag = null;
  const centreOf = (event) => view[0] + (at(event, e)[0] - lane.left) / (surface.width - lane.left - 8) * (view[1] - view[0]);
  e.addEventListener("wheel", (event) => { event.preventDefault(); zoom(event.deltaY > 0 ? 1.25 : 0.8, centreOf(event)); }, {passive: false});
  e.addEventListener("pointerdown", (event) => { drag = {x: event.clientX, moved: false}; e.setPointerCapture(event.pointerId); });
  e.addEventListener("pointerup", (event) => {
    if (drag && !drag.moved) {
      const item = (hit(event) || {}).item;
      if (item && item.launch && item.launch.superstep !== null)
        setState({superstep: state.superstep === item.launch.superstep ? null : item.launch.superstep});
      else if (!item) setState({superstep: null});
    }
    drag = null;
  });
  e.addEventListener("pointermove", (event) => {
    if (drag && Math.abs(event.clientX - drag.x) > 3) {
      move((drag.x - event.clientX) / (surface.width - lane.left - 8));
      drag = {x: event.clientX, moved: true};
      hideTip();
      return;
    }
    const box = hit(event), item = box && box.item;
    e.style.cursor = item && item.launch ? "pointer" : "default";
    if (!item) hideTip();
    else showTip(event.clientX, event.clientY, [...item.launch ? launchLines(item.launch) : item.range ? rangeLines(item.range) : ["Host copies" + ofRun, ...copySummary(item.copies)],
      box.others ? "and " + many(box.others, "other") + " in the same place: zoom in" : null]);
  });
  e.addEventListener("pointerleave", hideTip);
  e.addEventListener("keydown", (event) => {
    const middle = (view[0] + view[1]) / 2, i = launches.findIndex((l) => l.superstep === state.superstep);
    if (event.key === "+" || event.key === "=") zoom(0.8, middle);
    else if (event.key === "-") zoom(1.25, middle);
    else if (event.key === "0") { view = [0, model.most]; surface.draw(); }
    else if (event.shiftKey && event.key === "ArrowLeft") move(-0.2);
    else if (event.shiftKey && event.key === "ArrowRight") move(0.2);
    else if (event.key === "ArrowLeft" || event.key === "ArrowRight") {
      const next = launches[Math.max(0, Math.min(launches.length - 1, i + (event.key === "ArrowRight" ? 1 : -1)))];
      const box = e.getBoundingClientRect();
      if (next) {
        setState({superstep: next.superstep});
        showTip(box.left + lane.left, box.bottom, launchLines(next));
      }
    } else if (event.key === "Escape") { setState({superstep: null}); hideTip(); }
    else return;
    event.preventDefault();
  });
  const bar = el("div", {class: "bar"});
  if (timed)
    bar.append(segments("Scale", [[false, "Time"], [true, "Order"]], order, (v) => {
      order = v;
      model = timelineItems(order);
      view = [0, model.most];
      fit();
      surface.draw();
    }));
  bar.append(el("button", {type: "button", on: {click() { view = [0, model.most]; surface.draw(); }}}, filtered ? "All shown launches" : "Whole run"));
  fit();
  const used = [...new Set(launches.concat(untracedLaunches).map((l) => l.kernel))], kinds = new Set(copies.map((k) => k.kind)), legend = el("div", {class: "legend"});
  const names = el("span", {class: "names"}), more = openable(used, 12, names, (shown) => shown.map((k) => el("span", {class: "name", title: kernelNames[k]},
    el("i", {style: "background:" + (k ? kernelColour(k) : "var(--muted)")}), mid(shortKernel(kernelNames[k])))));
  legend.append(...copyMarks.filter((m) => m.kinds.some((kind) => kinds.has(kind))).map(({up, colour, words}) => el("span", {}, el("i", {class: up ? "up" : "down", style: "background:var(--" + colour + ")"}), words)),
    names, used.length > palette.length ? el("span", {}, "(colours repeat)") : "", more);
  section.append(bar, figure("Timeline", surface, timelineRows, timelineColumns), legend);
  onState(surface.draw);
  // Numbers of copies that the marks stand for, by kind.
  return {copies: () => boxes.filter((b) => b.item.copies).map((b) => b.item.copies.reduce((all, c) => Object.assign(all, {[c.kind]: (all[c.kind] || 0) + c.count}), {}))};
}
