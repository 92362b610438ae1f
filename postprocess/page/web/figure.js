// Export of figures: pictures and tables as files, and pictures as tables.

// ---- files ----
function save(name, blob) {
  const a = el("a", {download: name, href: URL.createObjectURL(blob)});
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 10000);
}
function fileName(label, kind) { return ((document.title.split(" – ")[0] + "-" + label).replace(/[^A-Za-z0-9._-]+/g, "-").slice(0, 80) || "memtrace") + "." + kind; }

// Returns numbers with all digits and text unchanged; a text that looks like a formula gets a leading quote.
function csvCell(column, row) {
  const v = column.csv ? column.csv(row) : column.num ? column.get(row) : column.text(row);
  if (v === null || v === undefined || v === "–") return "";
  const text = typeof v === "number" ? String(v) : /^[=+\-@\t\r]/.test(v) ? "'" + v : String(v);
  return /[",\r\n]/.test(text) ? "\"" + text.replaceAll("\"", "\"\"") + "\"" : text;
}
function csvOf(rows, columns) {
  return [columns.map((c) => csvCell({text: () => c.name}, null)), ...rows.map((r) => columns.map((c) => csvCell(c, r)))].map((r) => r.join(",") + "\r\n").join("");
}
function csvButton(label, rows, columns) {
  return el("button", {type: "button", class: "tool", "aria-label": "Save " + label + " as CSV", on: {click() { save(fileName(label, "csv"), new Blob([csvOf(rows(), columns)], {type: "text/csv"})); }}}, "CSV");
}

// ---- a canvas context that writes SVG, with the functions used on this page ----
function markup(text) { return String(text).replace(/[<>&"\u0000-\u0008\u000b\u000c\u000e-\u001f]/g, (c) => ({"<": "&lt;", ">": "&gt;", "&": "&amp;", "\"": "&quot;"}[c] || "\ufffd")); }
function vectorContext(width, height) {
  const out = [], stack = [], probe = document.createElement("canvas").getContext("2d"), n = (v) => +v.toFixed(2);
  let path = "", clip = "", clips = 0, turn = "";
  const put = (text, how) => out.push(text + (c.globalAlpha < 1 ? ` opacity="${n(c.globalAlpha)}"` : "") + clip + how);
  const filled = () => ` fill="${c.fillStyle}"`, stroked = () => ` fill="none" stroke="${c.strokeStyle}" stroke-width="${c.lineWidth}"`;
  const box = (x, y, w, h) => `<rect x="${n(Math.min(x, x + w))}" y="${n(Math.min(y, y + h))}" width="${n(Math.abs(w))}" height="${n(Math.abs(h))}"`;
  const c = {fillStyle: "#000", strokeStyle: "#000", lineWidth: 1, globalAlpha: 1, textAlign: "left", font: canvasFont,
    measureText(t) { probe.font = c.font; return probe.measureText(t); },
    fillRect(x, y, w, h) { if (w && h) put(box(x, y, w, h) + filled(), "/>"); },
    strokeRect(x, y, w, h) { put(box(x, y, w, h) + stroked(), "/>"); },
    beginPath() { path = ""; }, moveTo(x, y) { path += `M${n(x)} ${n(y)}`; }, lineTo(x, y) { path += `L${n(x)} ${n(y)}`; },
    rect(x, y, w, h) { path += `M${n(x)} ${n(y)}h${n(w)}v${n(h)}h${n(-w)}z`; }, roundRect(x, y, w, h) { c.rect(x, y, w, h); },
    fill() { put(`<path d="${path}"` + filled(), "/>"); }, stroke() { put(`<path d="${path}"` + stroked(), "/>"); },
    save() { stack.push([clip, turn]); }, restore() { [clip, turn] = stack.pop(); },
    translate(x, y) { turn += `translate(${n(x)} ${n(y)})`; }, rotate(a) { turn += `rotate(${n(180 * a / Math.PI)})`; }, // only used for texts
    clip() { out.push(`<clipPath id="clip${++clips}"><path d="${path}"/></clipPath>`); clip = ` clip-path="url(#clip${clips})"`; },
    fillText(t, x, y) { put(`<text x="${n(x)}" y="${n(y)}" dominant-baseline="central" text-anchor="${{right: "end", center: "middle"}[c.textAlign] || "start"}"` + (turn && ` transform="${turn}"`) + filled(), ">" + markup(t) + "</text>"); },
    drawImage(e, x, y, w, h) { put(`<image x="${n(x)}" y="${n(y)}" width="${n(w)}" height="${n(h)}" preserveAspectRatio="none" style="image-rendering:pixelated" href="${e.toDataURL()}"`, "/>"); },
    text: () => `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}" viewBox="0 0 ${width} ${height}" font-family="system-ui, DejaVu Sans, sans-serif" font-size="12"><rect width="100%" height="100%" fill="${theme.card}"/>` + out.join("") + "</svg>"};
  return c;
}
// Returns a table of bars as a picture for figure(); rows(): the rows of bars() that it shows.
function barsPicture(element, rows) {
  const size = () => ({width: Math.max(640, element.clientWidth), height: Math.max(1, rows().length) * barHeight});
  return {element, size, svg: () => barsSvg(rows(), size().width)};
}
const barHeight = 24;
function barsSvg(rows, width) {
  const height = barHeight, c = vectorContext(width, Math.max(1, rows.length) * height), top = d3.max(rows, (r) => d3.sum(r.parts, (p) => p[0])) || 1, left = width * 0.28, right = width * 0.3;
  const colours = getComputedStyle(document.documentElement);
  rows.forEach((r, i) => {
    let x = left;
    c.fillStyle = theme.ink;
    c.fillText(clipText(c, r.name, left - 10), 2, (i + 0.5) * height);
    for (const [v, colour] of r.parts) {
      c.fillStyle = colours.getPropertyValue("--" + colour).trim();
      c.fillRect(x, i * height + 4, v / top * (width - left - right), height - 8);
      x += v / top * (width - left - right);
    }
    c.fillStyle = theme.muted;
    c.textAlign = "right";
    c.fillText(clipText(c, r.text, right - 10), width - 2, (i + 0.5) * height);
    c.textAlign = "left";
  });
  return c.text();
}
// Returns an SVG element of the page as text, including its computed styles.
const svgStyles = ["fill", "stroke", "stroke-width", "stroke-opacity", "stroke-dasharray", "font-size", "font-family", "text-anchor"];
function svgText(e) {
  const copy = e.cloneNode(true), from = e.querySelectorAll("*"), to = copy.querySelectorAll("*"), box = e.getBoundingClientRect();
  from.forEach((node, i) => {
    const style = getComputedStyle(node);
    to[i].setAttribute("style", svgStyles.map((k) => k + ":" + style.getPropertyValue(k)).join(";"));
  });
  copy.setAttribute("width", Math.round(box.width));
  copy.setAttribute("height", Math.round(box.height));
  copy.setAttribute("style", "background:" + theme.card);
  return new XMLSerializer().serializeToString(copy);
}
function pngOf(svg, width, height) {
  return new Promise((done, fail) => {
    const image = new Image();
    image.onload = () => {
      const e = document.createElement("canvas"), c = e.getContext("2d");
      e.width = 2 * width;
      e.height = 2 * height;
      c.fillStyle = theme.card;
      c.fillRect(0, 0, e.width, e.height);
      c.drawImage(image, 0, 0, e.width, e.height);
      e.toBlob(done, "image/png");
    };
    image.onerror = fail;
    image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(svg);
  });
}

// ---- figures ----
const figures = {}; // by label, for scripts and tests: {svg(), png(), rows(), columns}
// Adds export of files and a table to a picture (an element of the page, or a result of canvas() or sideways()).
// rows(): the values shown now.
function figure(label, picture, rows, columns) {
  const element = picture.element || picture, svg = picture.svg || (() => svgText(element));
  const png = () => { const b = picture.size ? picture.size() : element.getBoundingClientRect(); return pngOf(svg(), b.width, b.height); };
  const holder = el("div", {class: "astable"});
  const shown = () => table.getAttribute("aria-expanded") === "true";
  const fill = () => clear(holder, shown() ? virtualTable(rows(), columns, label) : "");
  const table = el("button", {type: "button", class: "tool", "aria-expanded": "false", "aria-label": label + " as a table", on: {click() { table.setAttribute("aria-expanded", String(!shown())); fill(); }}}, "Table");
  const button = (kind, make) => el("button", {type: "button", class: "tool", "aria-label": "Save " + label + " as " + kind, on: {click() { make(); }}}, kind);
  onState(() => { if (shown()) fill(); });
  figures[label] = {svg, png, rows, columns, csv: () => csvOf(rows(), columns)};
  return el("div", {class: "figure"}, element, el("div", {class: "tools", role: "group", "aria-label": label}, table,
    button("SVG", () => save(fileName(label, "svg"), new Blob([svg()], {type: "image/svg+xml"}))), button("PNG", () => png().then((b) => save(fileName(label, "png"), b))),
    csvButton(label, rows, columns)), holder);
}
