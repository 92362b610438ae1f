// One search over everything that has a name: kernels, launches, lines, variables, buffers.
const mostFound = 40;
function* searchEntries() {
  for (const r of kernelRows()) yield {kind: "kernel", text: r.name, more: many(r.launches, "launch", "launches"), go: () => { panels.tables.show("Kernels", r.name); document.getElementById("tables").scrollIntoView(); }};
  for (const b of buffers) yield {kind: "buffer", text: b.label, more: bytes(b.all), go: bufferLink(b.label)};
  for (const [file, lines] of lineFiles()) for (const [line, at] of lines) yield {kind: "line", text: file + ":" + line, more: at.bytes ? bytes(at.bytes) : "", go: lineLink(file + ":" + line)};
  for (const name in (data.lines && data.lines.variables) || {}) if (variableLink(name)) yield {kind: "variable", text: name, more: "", go: variableLink(name)};
  for (const l of launches) yield {kind: "launch", text: l.superstep + " " + kernelNames[l.kernel], more: bytes(l.load + l.store), go: () => { setState({superstep: l.superstep}); document.getElementById("timeline").scrollIntoView(); }};
}
// Finds the entries with all words of the needle. Returns at most mostFound of each kind, and their total number.
function find(entries, needle) {
  const words = needle.toLowerCase().split(/\s+/).filter(Boolean), found = [], kinds = new Map();
  if (!words.length) return {found, all: 0};
  let all = 0;
  for (const e of entries) {
    const text = e.low || (e.low = (e.kind + " " + e.text).toLowerCase());
    if (!words.every((w) => text.includes(w))) continue;
    all++;
    kinds.set(e.kind, (kinds.get(e.kind) || 0) + 1);
    if (kinds.get(e.kind) <= mostFound / 4 || found.length < mostFound) found.push(e);
  }
  return {found: found.slice(0, 2 * mostFound), all};
}
function startSearch() {
  let entries = null;
  const list = el("ul", {id: "found", hidden: true, "aria-label": "Found"}), info = el("li", {class: "muted", role: "status"});
  const input = el("input", {type: "search", id: "search", placeholder: "Search (/)", "aria-label": say("Search kernels, launches, lines, variables, buffers", "Search programs, runs, lines, variables, buffers"), "aria-controls": "found", "aria-keyshortcuts": "/", on: {input() {
    entries = entries || [...searchEntries()];
    const {found, all} = find(entries, this.value);
    info.textContent = all > found.length ? "the first " + found.length + " of " + count(all) : many(all, "match", "matches");
    clear(list, ...found.map((e) => el("li", {}, el("button", {type: "button", title: e.text, on: {click() { close(); e.go(); }}}, el("span", {class: "muted"}, e.kind + " "), mid(e.text), el("span", {class: "muted"}, " " + e.more)))), info);
    list.hidden = !this.value;
  }}});
  const close = () => { list.hidden = true; };
  const box = el("div", {class: "search", role: "search", on: {keydown(event) {
    const all = [input, ...list.querySelectorAll("button")], step = {ArrowDown: 1, ArrowUp: -1}[event.key], i = all.indexOf(document.activeElement);
    if (event.key === "Escape") { close(); input.focus(); }
    else if (event.key === "Enter" && i === 0 && all[1]) all[1].click();
    else if (step) all[Math.max(0, Math.min(all.length - 1, i + step))].focus();
    else return;
    event.preventDefault();
  }, focusout(event) { if (!box.contains(event.relatedTarget)) close(); }, focusin() { if (input.value) list.hidden = false; }}}, input, list);
  document.querySelector(".top").insertBefore(box, document.getElementById("theme"));
  addEventListener("keydown", (event) => {
    if (event.key !== "/" || event.target.matches("input, select, textarea")) return;
    event.preventDefault();
    input.focus();
  });
}
