// The stride graph: a node is a kind of access (buffer, stride, type), an edge shows how often one followed another.
const typeNames = ["load", "store", typeWord("atomic"), "unknown"];

function graphModel(g, most) {
  const nodes = rowsOf(g.nodes).slice(0, most).map((r, i) => Object.assign(r, {id: i, all: g.accesses}));
  const links = rowsOf(g.edges).filter((r) => r.from < nodes.length && r.to < nodes.length).map((r) => ({source: nodes[r.from], target: nodes[r.to], count: r.count}));
  const top = Math.max(1, nodes.length ? nodes[0].count : 1);
  for (const n of nodes) n.r = 20 + 18 * Math.sqrt(n.count / top);
  return {nodes, links};
}
// Computes positions deterministically: d3's forces start from a spiral and use no random numbers.
function layout(model, width, height) {
  const links = model.links.filter((l) => l.source !== l.target), top = d3.max(links, (l) => l.count) || 1;
  d3.forceSimulation(model.nodes)
    .force("links", d3.forceLink(links).distance((l) => 46 + l.source.r + l.target.r).strength((l) => 0.08 + 0.35 * Math.sqrt(l.count / top)))
    .force("charge", d3.forceManyBody().strength(-520))
    .force("collide", d3.forceCollide((n) => n.r + 12))
    .force("x", d3.forceX(width / 2).strength(0.035 * Math.min(1, height / width)))
    .force("y", d3.forceY(height / 2).strength(0.09))
    .stop().tick(260);
  // Scales to the frame, as large as possible; loops are above their circles.
  const x = d3.extent(model.nodes, (n) => n.x), y = d3.extent(model.nodes, (n) => n.y), edge = 62;
  const fx = (width - 2 * edge) / Math.max(1, x[1] - x[0]), fy = (height - 2 * edge - 16) / Math.max(1, y[1] - y[0]), f = Math.min(fx, fy, 1.5);
  for (const n of model.nodes) {
    n.x = width / 2 + (n.x - (x[0] + x[1]) / 2) * Math.min(fx, f * 1.25);
    n.y = height / 2 + 8 + (n.y - (y[0] + y[1]) / 2) * Math.min(fy, f * 1.25);
  }
  d3.forceSimulation(model.nodes).velocityDecay(0.7).force("collide", d3.forceCollide((n) => n.r + 5).iterations(3)).stop().tick(60);
  for (const n of model.nodes) {
    n.x = Math.max(n.r + 6, Math.min(width - n.r - 6, n.x));
    n.y = Math.max(n.r + 30, Math.min(height - n.r - 6, n.y));
  }
}
function signed(n) { return n > 0 ? "+" + count(n) : n < 0 ? "−" + count(-n) : "0"; }
// Label inside the circle: +45.1k for +45,056; the tooltip has all digits.
function strideLabel(n) { return Math.abs(n.stride) < 10000 ? signed(n.stride) : (n.stride > 0 ? "+" : "−") + d3.format(".3s")(Math.abs(n.stride)); }
function bufferName(n) {
  if (n.buffer === null) return "in no allocation";
  const a = allocations.find((k) => k.id === n.buffer);
  return "buffer #" + n.buffer + (a && a.name ? " (" + a.name + ")" : "") + (n.size ? ", " + bytes(n.size) : "");
}
const strideColumns = [{name: "buffer", text: bufferName, get: bufferName}, numberColumn("stride (B)", "stride"), {name: "access", text: (n) => typeNames[n.type], get: (n) => n.type},
  textColumn("kernel", "kernel", true), numberColumn("times", "count")];
function nodeLines(n) {
  return [signed(n.stride) + " B, " + typeNames[n.type], bufferName(n), many(n.count, "time") + ", " + percent(n.count, n.all) + " of all accesses",
          n.kernel + (n.kernels > 1 ? " and " + many(n.kernels - 1, say("other kernel", "other program")) : "")];
}
// Draws from rim to rim, slightly bent, so that both directions are visible.
function edgePath(l) {
  const a = l.source, b = l.target;
  if (a === b) return `M${a.x - a.r * 0.5},${a.y - a.r * 0.86} C${a.x - a.r * 1.3},${a.y - a.r - 38} ${a.x + a.r * 1.3},${a.y - a.r - 38} ${a.x + a.r * 0.5},${a.y - a.r * 0.86 - 4}`;
  const dx = b.x - a.x, dy = b.y - a.y, d = Math.hypot(dx, dy) || 1, bend = 0.12 * d, mx = (a.x + b.x) / 2 - dy / d * bend, my = (a.y + b.y) / 2 + dx / d * bend;
  const from = Math.hypot(mx - a.x, my - a.y) || 1, to = Math.hypot(b.x - mx, b.y - my) || 1;
  return `M${a.x + (mx - a.x) / from * a.r},${a.y + (my - a.y) / from * a.r} Q${mx},${my} ${b.x - (b.x - mx) / to * (b.r + 6)},${b.y - (b.y - my) / to * (b.r + 6)}`;
}

function drawStrides(section) {
  if (!data.graph) {
    section.append(nothing(data.from_json ? "A comm.json has no strides: make the page from traces to get this graph." : "The stride graph was left out (--quick)."));
    return;
  }
  let g = data.graph, most = Math.min(24, g.nodes.rows.length);
  if (!g.nodes.rows.length) {
    section.append(nothing("No address was accessed after another one in the same buffer."));
    return;
  }
  const stride = el("span", {});
  section.append(el("p", {class: "lead"}, "Each circle is a kind of access: a stride, a buffer, and load or store. Arrows go from an access to the next one; wider arrows are more frequent. ", stride));
  const words = el("output", {}), svg = d3.create("svg").attr("id", "graph").attr("role", "group").attr("aria-label", "Stride graph").style("display", "block");
  const slider = el("input", {type: "range", id: "graph-size", min: String(Math.min(3, g.nodes.rows.length)), max: String(g.nodes.rows.length), value: String(most), "aria-label": "kinds of access shown", on: {input() { most = +this.value; draw(); }}});
  let drawn = "";
  function draw() {
    const width = svg.node().clientWidth || 900, height = svg.node().clientHeight || 540, key = [most, width, theme.dark, g === data.graph].join();
    if (key === drawn) return;
    drawn = key;
    const model = graphModel(g, most);
    layout(model, width, height);
    const without = g.accesses - g.strides - g.left_out;
    stride.textContent = "S" + g.stride.slice(1) + "." + (without ? " First accesses have no stride: " + count(without) + " of " + many(g.accesses, "access", "accesses") + "." : "") + (g.left_out ? " Left out, as there are too many: " + many(g.left_out, "access", "accesses")
      + " of rarer kinds, or of warps after the first 16,384 of a launch." : "");
    const shown = d3.sum(model.nodes, (n) => n.count);
    words.textContent = many(model.nodes.length, "kind") + " of " + count(g.nodes_in_all) + ", " + percent(shown, g.accesses) + " of all accesses";
    svg.selectAll("*").remove();
    svg.append("defs").append("marker").attr("id", "arrow").attr("viewBox", "0 0 8 8").attr("refX", 6).attr("refY", 4).attr("markerWidth", 9).attr("markerHeight", 9)
      .attr("markerUnits", "userSpaceOnUse").attr("orient", "auto").append("path").attr("d", "M0,0 L8,4 L0,8 Z").attr("fill", theme.muted);
    const top = d3.max(model.links, (l) => l.count) || 1;
    const edges = svg.append("g").selectAll("path").data(model.links).join("path").attr("class", "edge").attr("marker-end", "url(#arrow)")
      .attr("stroke-width", (l) => 0.8 + 4 * Math.sqrt(l.count / top)).attr("stroke-opacity", (l) => 0.25 + 0.55 * Math.sqrt(l.count / top)).attr("d", edgePath)
      .on("mousemove", (l) => showTip(d3.event.clientX, d3.event.clientY, [signed(l.source.stride) + " B → " + signed(l.target.stride) + " B", many(l.count, "time")])).on("mouseleave", hideTip);
    const buffers = [...new Set(model.nodes.map((n) => n.buffer).filter((b) => b !== null))], lap = (n) => n.buffer === null ? 0 : Math.floor(buffers.indexOf(n.buffer) / palette.length);
    const nodes = svg.append("g").selectAll("g").data(model.nodes).join("g").attr("class", "node").attr("tabindex", 0).attr("role", "img")
      .attr("aria-label", (n) => nodeLines(n).join(", ")).attr("transform", (n) => `translate(${n.x},${n.y})`)
      .on("mousemove", (n) => showTip(d3.event.clientX, d3.event.clientY, nodeLines(n))).on("mouseleave", hideTip)
      .on("focus", function (n) { const b = this.getBoundingClientRect(); showTip(b.right, b.top, nodeLines(n)); }).on("blur", hideTip)
      .call(d3.drag().on("drag", function (n) {
        n.x = d3.event.x;
        n.y = d3.event.y;
        d3.select(this).attr("transform", `translate(${n.x},${n.y})`);
        edges.attr("d", edgePath);
        hideTip();
      }));
    const colour = (n) => n.buffer === null ? theme.muted : palette[buffers.indexOf(n.buffer) % palette.length];
    nodes.filter((n) => n.type === 2).append("circle").attr("r", (n) => n.r + 4).attr("fill", "none").attr("stroke", colour).attr("stroke-width", 1.5);
    nodes.append("circle").attr("r", (n) => n.r).attr("fill", (n) => n.type === 0 ? theme.node : theme["node-write"]).attr("stroke", colour).attr("stroke-width", 3)
      .attr("stroke-dasharray", (n) => n.type === 3 ? "1 3" : lap(n) ? 14 - 2 * lap(n) + " 3" : null);
    nodes.append("text").text(strideLabel).style("font-size", (n) => Math.min(12, 12 * (2 * n.r - 12) / textWidth(strideLabel(n))) + "px");
    nodes.append("text").attr("class", "small").attr("y", 11).text((n) => n.buffer === null ? "–" : "#" + n.buffer);
    // Dashed rims mark buffers beyond the number of colours.
    const key2 = buffers.map((b) => model.nodes.find((n) => n.buffer === b)).map((n) => el("span", {}, el("i", {style: "border:3px " + (lap(n) ? "dashed " : "solid ") + colour(n)}), bufferName(n)));
    clear(legend, el("span", {}, "open: loads, filled: stores, double ring: atomics; number: stride in bytes; rim and #: buffer"), ...key2);
  }
  const legend = el("div", {class: "legend"});
  const choice = data.lane_graph ? segments("Strides", [["graph", "From access to access"], ["lane_graph", "From lane to lane"]], "graph", (v) => {
    g = data[v];
    most = Math.min(24, g.nodes.rows.length);
    slider.min = Math.min(3, g.nodes.rows.length);
    slider.max = g.nodes.rows.length;
    slider.value = most;
    draw();
  }) : "";
  section.append(el("div", {class: "bar"}, choice, el("label", {}, "kinds of access", slider, words)),
    figure("Stride graph", svg.node(), () => graphModel(g, g.nodes.rows.length).nodes, strideColumns), legend);
  redraws.push(draw);
}
