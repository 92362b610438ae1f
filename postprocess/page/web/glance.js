// At a glance: the sentences of memtrace summary, each with the panel that shows its subject.
function code(text, title) { return el("b", {class: "mono", title: title && title !== text ? title : null}, text); }
function largest(list, of) { return list.reduce((m, r) => m === null || of(r) > of(m) ? r : m, null); }
// Splits a sentence at names, which are encoded as U+0001, short form, U+0002, full form, U+0003.
function glanceParts(text) {
  return text.replaceAll(" %", "\u00a0%").split(/\u0001(.*?)\u0002(.*?)\u0003/s).map((part, i, all) => i % 3 === 0 ? part : i % 3 === 1 ? code(part, all[i + 1]) : "").filter((p) => p !== "");
}
function glanceLink(panel) {
  const [name, line] = panel.split("&line=");
  return el("a", {href: "#" + name + (line ? "&line=" + encodeURIComponent(line) : ""), "aria-label": "see " + name}, "see");
}
function drawGlance() {
  const items = data.glance.map(([id, panel, look, text]) => el("li", {class: look ? "look" : "", "data-glance": id}, ...glanceParts(text), ...(panel ? [" ", glanceLink(panel)] : [])));
  return items.length ? el("div", {class: "glance", id: "glance"}, el("h2", {}, "At a glance"), el("ul", {}, ...items)) : null;
}
