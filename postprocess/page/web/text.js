// Texts, numbers, elements, tooltip and canvas for all panels. Text is added to the page as text only.
const grouped = new Intl.NumberFormat("en-US");
function count(n) { return n === null || n === undefined ? "–" : grouped.format(n); }

const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
function bytesParts(n) {
  let u = 0, v = n;
  while (v >= 1024 && u < units.length - 1) { v /= 1024; u++; }
  return [u === 0 ? count(n) : v.toFixed(v < 10 ? 2 : v < 100 ? 1 : 0), units[u]];
}
function bytes(n) { return bytesParts(n).join(" "); }
function exactBytes(n) { return n < 1024 ? count(n) + " B" : count(n) + " B (" + bytes(n) + ")"; }

// Shortens numbers that would not fit a small place: [268, "million"].
function countParts(n) {
  const [scale, word] = n < 1e6 ? [1, ""] : n < 1e9 ? [1e6, "million"] : n < 1e12 ? [1e9, "billion"] : [1e12, "trillion"];
  return [scale === 1 ? count(n) : (n / scale).toPrecision(4).replace(/\.?0+$/, ""), word];
}

function duration(ns) {
  if (ns < 1e3) return count(Math.round(ns)) + "\u00a0ns";
  if (ns < 1e6) return (ns / 1e3).toFixed(ns < 1e4 ? 2 : 1) + "\u00a0µs";
  if (ns < 1e9) return (ns / 1e6).toFixed(ns < 1e7 ? 2 : 1) + "\u00a0ms";
  return (ns / 1e9).toFixed(2) + "\u00a0s";
}
function percent(part, all) {
  if (!all) return "–";
  const p = 100 * part / all; // only the whole is 100 %, and only nothing is 0 %
  return (part === all || !part ? p.toFixed(0) : p < 0.1 ? "< 0.1" : p > 99.9 ? "> 99.9" : p.toFixed(1)) + "\u00a0%";
}
function many(n, one, more) { return count(n) + " " + (n === 1 ? one : more || one + "s"); }
// Shortens solver::detail::axpy<a::b> to axpy<a::b>.
function shortKernel(name) {
  const end = name.indexOf("<") > 0 ? name.indexOf("<") : name.length, colons = name.lastIndexOf("::", end);
  return colons > 0 ? name.slice(colons + 2) : name;
}
// Shortens a long text in its middle: instances of a template differ at the ends.
function middle(text, most) {
  const head = Math.ceil((most - 1) * 0.45);
  return text.length <= most ? text : text.slice(0, head) + "…" + text.slice(text.length - (most - 1 - head));
}
// Returns such a text as an element whose middle part shrinks if there is too little room.
const midLong = 28, midEnd = 14;
function mid(text) {
  return text.length < midLong ? text : el("span", {class: "mid"}, el("span", {}, text.slice(0, -midEnd)), el("span", {}, text.slice(-midEnd)));
}
function baseName(path) { return path.slice(path.lastIndexOf("/") + 1); }
function place(file, line) { return file ? baseName(file) + (line ? ":" + line : "") : "–"; }

function el(tag, attributes, ...children) {
  const e = document.createElement(tag);
  for (const key in attributes) {
    const value = attributes[key];
    if (key === "on") for (const name in value) e.addEventListener(name, value[name]);
    else if (key === "style") e.style.cssText = value;
    else if (value === true) e.setAttribute(key, "");
    else if (value !== false && value !== null && value !== undefined) e.setAttribute(key, value);
  }
  e.append(...children.filter((c) => c !== null && c !== undefined));
  return e;
}
function clear(e, ...children) {
  e.replaceChildren(...children);
  return e;
}
function lead(text) { return el("p", {class: "lead"}, text); }
function nothing(text) { return el("p", {class: "none"}, text); }

// Returns a row of buttons, one of which is pressed. choices: [[value, text], …]
function segments(label, choices, value, change) {
  const box = el("span", {class: "seg", role: "group", "aria-label": label});
  const buttons = choices.map(([v, text]) => el("button", {type: "button", "data-value": String(v), "aria-pressed": String(v === value), on: {click() {
    for (const b of buttons) b.setAttribute("aria-pressed", String(b === this));
    change(v);
  }}}, text));
  box.append(...buttons);
  return box;
}

const tip = document.getElementById("tip");
// Shows a tooltip; the first of the lines is the heading.
function showTip(x, y, lines) {
  clear(tip, el("b", {}, lines[0]), ...lines.slice(1).filter(Boolean).map((l) => el("div", {}, l)));
  tip.hidden = false;
  const w = tip.offsetWidth, h = tip.offsetHeight;
  tip.style.left = Math.max(6, Math.min(x + 14, innerWidth - w - 8)) + "px";
  tip.style.top = Math.max(6, y + 18 + h > innerHeight ? y - h - 12 : y + 18) + "px";
}
function hideTip() { tip.hidden = true; }

// ---- colours ----
const theme = {};
function readTheme() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["bg", "card", "ink", "muted", "line", "soft", "accent", "load", "store", "load-pale", "load-mid", "load-deep", "store-pale", "node", "node-write", "warn", "good"])
    theme[name] = style.getPropertyValue("--" + name).trim();
  theme.dark = document.documentElement.classList.contains("dark");
}
// Okabe and Ito: distinguishable with any kind of colour blindness.
const palette = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c8c8c", "#b8a80c", "#7a5bc2", "#8a5a2b"];
function kernelColour(k) { return k === 0 ? theme.muted : palette[(k - 1) % palette.length]; }
// Viridis, starting near the background colour.
function ramp(t) { return d3.interpolateViridis(theme.dark ? 0.12 + 0.88 * t : 0.95 - 0.95 * t); }

const redraws = [];
let redrawAsked = false;
function drawAll() {
  redrawAsked = false;
  for (const f of redraws) f();
}
function askRedraw() {
  if (!redrawAsked) {
    redrawAsked = true;
    requestAnimationFrame(drawAll);
  }
}

const canvasFont = "12px system-ui, \"DejaVu Sans\", sans-serif";
// Returns a canvas as wide as its container, with a height in CSS pixels; calls draw(context, width, height).
function canvas(height, label, draw) {
  const e = el("canvas", {tabindex: "0", role: "application", "aria-roledescription": "chart", "aria-label": label});
  e.style.height = height + "px";
  const surface = {element: e, width: 0, height, size: () => surface, svg() {
    const v = vectorContext(surface.width, surface.height);
    draw(v, surface.width, surface.height);
    return v.text();
  }, draw() {
    const ratio = Math.min(devicePixelRatio || 1, 3), width = e.clientWidth;
    if (!width) return;
    surface.width = width;
    e.width = Math.round(width * ratio);
    e.height = Math.round(surface.height * ratio);
    const c = e.getContext("2d");
    c.setTransform(ratio, 0, 0, ratio, 0, 0);
    c.clearRect(0, 0, width, surface.height);
    c.font = canvasFont;
    c.textBaseline = "middle";
    draw(c, width, surface.height);
  }, setHeight(h) {
    surface.height = h;
    e.style.height = h + "px";
  }};
  redraws.push(surface.draw);
  return surface;
}
// Returns a canvas for figure(), in a box that scrolls if it is wider than the page.
function sideways(surface) { return Object.assign({}, surface, {element: el("div", {class: "sideways"}, surface.element)}); }
// Returns a picture with a pixel for each number that is not 0; shade(number): 0 to 1.
function gridImage(grid, columns, rows, shade) {
  const image = new ImageData(columns, rows), colours = d3.range(256).map((i) => d3.rgb(ramp(i / 255))), buffer = document.createElement("canvas");
  for (let i = 0; i < columns * rows; i++) {
    if (!grid[i]) continue;
    const p = colours[Math.round(255 * Math.min(1, shade(grid[i])))];
    image.data.set([p.r, p.g, p.b, 255], 4 * i);
  }
  buffer.width = columns;
  buffer.height = rows;
  buffer.getContext("2d").putImageData(image, 0, 0);
  return buffer;
}
// Returns the mouse position in a canvas, in CSS pixels.
function at(event, e) {
  const box = e.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}
function clipText(c, text, width) {
  if (c.measureText(text).width <= width) return text;
  let lo = 0, hi = Math.min(text.length, Math.ceil(width)); // no letter is narrower than a pixel
  while (lo < hi) {
    const n = (lo + hi + 1) >> 1;
    if (c.measureText(middle(text, n)).width <= width) lo = n;
    else hi = n - 1;
  }
  return lo > 1 ? middle(text, lo) : "";
}

// Returns the width of a text in the canvas's font.
const ruler = document.createElement("canvas").getContext("2d");
function textWidth(text) {
  ruler.font = canvasFont;
  return ruler.measureText(text).width;
}

// Shows the first `most` rows, and more on request. draw(rows) -> elements.
const moreRows = 100;
function openable(rows, most, holder, draw) {
  const button = el("button", {type: "button", class: "quiet", on: {click() { show(); }}});
  let next = 0;
  function show() {
    const to = Math.min(rows.length, next ? next + moreRows : most);
    holder.append(...draw(rows.slice(next, to)));
    next = to;
    button.hidden = next === rows.length;
    button.textContent = "show " + (rows.length - next > moreRows ? moreRows + " of the " : "") + many(rows.length - next, "other");
  }
  show();
  return button;
}
// Returns the function that openable() uses to draw rows of bars(): table rows. all: rows that share the scale.
function barRows(all) {
  const top = all.reduce((m, r) => Math.max(m, r.parts.reduce((s, p) => s + p[0], 0)), 0) || 1;
  return (shown) => shown.map((r) => el("tr", {},
    el("th", {scope: "row", title: r.title || r.name}, r.pick ? el("button", {type: "button", class: "link", on: {click: r.pick}}, mid(r.name)) : mid(r.name)),
    el("td", {class: "track"}, ...r.parts.filter((p) => p[0]).map((p) => el("i", {style: "width:" + (100 * p[0] / top) + "%;background:var(--" + p[1] + ")"}))),
    el("td", {class: "num"}, r.text)));
}
// Returns bars as elements: rows of {name, title, parts: [[value, colour name], …], text, pick}; all with one scale.
// heads: names of the parts. Shows `most` rows at first. pick: action of a click on the name; optional.
function bars(rows, label, most, heads) {
  const body = el("tbody"), more = openable(rows, most, body, barRows(rows));
  const columns = [{name: "name", text: (r) => r.full || r.name}, ...(heads || []).map((name, i) => ({name, num: true, get: (r) => r.parts[i][0]})), {name: "in words", text: (r) => r.text.replaceAll("\u00a0", " ")}];
  figures[label] = {rows: () => rows, columns, csv: () => csvOf(rows, columns)};
  return el("div", {class: "figure"}, el("table", {class: "bars", "aria-label": label}, body), el("div", {class: "tools", role: "group", "aria-label": label}, more, csvButton(label, () => rows, columns)));
}
function colourLegend(pairs) {
  return el("div", {class: "legend"}, ...pairs.map(([k, t]) => el("span", {}, el("i", {style: "background:var(--" + k + ")"}), t)));
}
