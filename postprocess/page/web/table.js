// Table that sorts, filters, and keeps only the visible rows in the page. columns: [{name, get(row), text(row), num,
// mono, title}]; text is shown and used by the filter.
const rowHeight = 30;

function virtualTable(rows, columns, label, filter) {
  let shown = rows, sorted = null, descending = false, needle = (filter || "").toLowerCase(), first = -1;
  const search = el("input", {type: "search", placeholder: "Filter…", value: filter, "aria-label": "Filter " + label, on: {input() {
    needle = this.value.toLowerCase();
    choose();
  }}});
  const info = el("span", {class: "muted", role: "status"});
  const heads = columns.map((c, i) => el("th", {class: c.num ? "num" : "", scope: "col", title: c.title, "aria-sort": "none"},
    el("button", {type: "button", on: {click() { sort(i); }}}, c.name)));
  const body = el("tbody");
  const scroll = el("div", {class: "scroll", tabindex: "0", role: "region", "aria-label": label, on: {scroll: render}},
    el("table", {"aria-rowcount": rows.length}, el("thead", {}, el("tr", {}, ...heads)), body));

  function sort(i) {
    descending = sorted === i ? !descending : !!columns[i].num; // numbers start with the largest
    sorted = i;
    heads.forEach((h, k) => h.setAttribute("aria-sort", k !== i ? "none" : descending ? "descending" : "ascending"));
    choose();
  }
  function choose() {
    shown = needle ? rows.filter((r) => columns.some((c) => String(c.text(r)).toLowerCase().includes(needle))) : rows.slice();
    if (sorted !== null) {
      const get = columns[sorted].get, sign = descending ? -1 : 1;
      shown.sort((a, b) => {
        const x = get(a), y = get(b);
        if (x === null || y === null) return (x === null) - (y === null); // unknown values come last
        return x < y ? -sign : x > y ? sign : 0;
      });
    }
    info.textContent = (shown.length === rows.length ? "" : count(shown.length) + " of ") + many(rows.length, "row");
    scroll.scrollTop = 0;
    first = -1;
    render();
  }
  function pad(n) {
    const td = el("td", {colspan: columns.length});
    td.style.height = n * rowHeight + "px";
    return el("tr", {class: "pad", "aria-hidden": "true"}, td);
  }
  function render() {
    const visible = Math.ceil((scroll.clientHeight || 480) / rowHeight) + 1;
    const from = Math.max(0, Math.min(Math.floor(scroll.scrollTop / rowHeight) - 8, shown.length - visible));
    if (from === first) return;
    first = from;
    const to = Math.min(shown.length, from + visible + 16);
    const trs = [];
    if (from) trs.push(pad(from));
    for (let i = from; i < to; i++)
      trs.push(el("tr", {"aria-rowindex": i + 1}, ...columns.map((c) => {
        const row = shown[i], text = String(c.text(row)), pick = c.pick && c.pick(row);
        return el("td", {class: (c.num ? "num " : "") + (c.mono ? "mono" : ""), title: c.hint ? c.hint(row) : text.length > midLong ? text : null},
          pick ? el("button", {type: "button", class: "link", on: {click: pick}}, mid(text)) : mid(text));
      })));
    if (to < shown.length) trs.push(pad(shown.length - to));
    clear(body, ...trs);
  }
  choose();
  return el("div", {}, el("div", {class: "bar"}, search, info, csvButton(label, () => shown, columns)), scroll);
}

// ---- the tables ----
function numberColumn(name, key, title) {
  return {name: nameWord(name), num: true, title, get: (r) => r[key], text: (r) => count(r[key])};
}
function textColumn(name, key, mono) {
  return {name: nameWord(name), mono, get: (r) => r[key], text: (r) => r[key] === "" || r[key] === null ? "–" : r[key]};
}
function placeColumn() {
  return {name: "source", csv: (r) => r.file ? r.file + ":" + r.line : "", pick: (r) => lineLink(r.file + ":" + r.line), get: (r) => r.file ? r.file + ":" + String(r.line).padStart(8) : null, text: (r) => place(r.file, r.line),
          hint: (r) => r.file ? r.file + ":" + r.line : null};
}
function launchColumn(key, title) {
  return Object.assign(numberColumn("launch", key, title), {pick: (r) => r[key] === null || !kernelBySuperstep.has(r[key]) ? null : () => setState({superstep: r[key]})});
}
function dimText(d) { return d ? d.join("×") : "–"; }

function kernelRows() {
  const rows = kernelNames.map((name) => ({name, launches: 0, ctas: 0, load: 0, store: 0, commLoad: 0, commStore: 0, sameLaunch: 0, sameCta: 0, ns: 0, timed: false, library: null}));
  for (const l of launches) {
    const r = rows[l.kernel];
    r.launches += l.count;
    r.ctas += l.ctas;
    for (const k of volumeKeys) r[k] += l[k];
    r.library = r.library || l.library;
    if (l.known) { r.ns += l.ns; r.timed = true; }
  }
  for (const r of rows) if (!r.timed) r.ns = null;
  return rows.filter((r) => r.launches);
}
const volumeColumns = [numberColumn("loaded (B)", "load", "data volume: bytes of all loads"), numberColumn("stored (B)", "store", "data volume: bytes of all stores"),
  numberColumn("comm. load (B)", "commLoad", communicationWords), numberColumn("comm. store (B)", "commStore", "stored bytes that are later loaded as communication; each counts once")];
// Returns columns of the senders of communication; some pages and some parts lack them.
function senderColumns(has) {
  return has ? senderKinds.map(([words, of, short]) => ({name: short + " (B)", num: true, title: "communication last written by " + words, get: (r) => r.told === false ? null : of(r), text: (r) => r.told === false ? "–" : count(of(r))})) : [];
}

function transferTableRows() {
  return transferRows.map((r) => Object.assign({}, r, {source: kernelNames[r.source], target: kernelNames[r.target]}));
}

// Returns host code by location, from a host trace.
function hostRows() {
  const rows = new Map();
  for (const [section, load, store] of [["HDV", "load", "store"], ["HCV", "commLoad", "commStore"]])
    for (const name in data[section] || {})
      for (const step in data[section][name]) {
        const key = step + " " + name;
        if (!rows.has(key)) rows.set(key, {name, superstep: +step, load: 0, store: 0, commLoad: 0, commStore: 0});
        rows.get(key)[load] += data[section][name][step].Load;
        rows.get(key)[store] += data[section][name][step].Store;
      }
  return [...rows.values()];
}
// Returns the estimates for the whole run from a sampled trace.
function estimateRows() {
  const row = (name, superstep, e) => ({name, superstep, ctas: e.ctas, traced: e.traced_ctas, load: e.counted.Load, store: e.counted.Store,
    loadAll: e.estimate ? e.estimate.Load : null, storeAll: e.estimate ? e.estimate.Store : null});
  return Object.keys(data.estimates).flatMap((k) => [row(k, null, data.estimates[k]), ...Object.keys(data.estimates[k].supersteps).map((s) => row(k, +s, data.estimates[k].supersteps[s]))]);
}

// Calls of libraries (cublasSgemm) are launches as well; their accesses are derived from their arguments.
function libraryColumn() {
  return launches.some((l) => l.library) ? [textColumn("library", "library")] : [];
}

// Returns a column of errors, if a launch failed.
function failedColumn() {
  return launches.concat(untracedLaunches).some((l) => l.status) ? [{name: "failed", get: (r) => r.status || null, text: (r) => r.status ? failedWords(r) : "", csv: (r) => r.status || ""}] : [];
}

function tableList() {
  const list = [];
  if (!ofThreads) list.push(["Kernels", kernelRows(), [textColumn("kernel", "name", true), ...libraryColumn(), numberColumn("launches", "launches"),
    numberColumn(say("CTA instances", "threads"), "ctas"), ...volumeColumns, ...senderColumns(data.has.senders), numberColumn("time (ns)", "ns")]]);
  if (!ofThreads) list.push(["Launches", launches.concat(untracedLaunches).map((l) => Object.assign({name: kernelNames[l.kernel]}, l)), [
    launchColumn("superstep", "– : not traced"), textColumn("kernel", "name", true), ...(launchCount > launches.length ? [numberColumn("launches", "count")] : []), ...failedColumn(), ...libraryColumn(), numberColumn("stream", "stream"),
    {name: "grid", get: (r) => r.grid && r.grid[0] * r.grid[1] * r.grid[2], text: (r) => dimText(r.grid), csv: (r) => dimText(r.grid), num: true},
    {name: "block", get: (r) => r.block && r.block[0] * r.block[1] * r.block[2], text: (r) => dimText(r.block), csv: (r) => dimText(r.block), num: true},
    ...volumeColumns, ...senderColumns(data.has.senders), numberColumn("records", "records"), numberColumn("untraced", "untraced", "accesses that have no record"),
    numberColumn("begin (ns)", "begin"), numberColumn("time (ns)", "ns"), placeColumn()]]);
  if (data.has.transfers && !ofThreads)
    list.push(["Transfers", transferTableRows(), [textColumn("from", "source", true), launchColumn("sourceStep"),
      textColumn("to", "target", true), launchColumn("targetStep"), numberColumn("bytes", "size"),
      numberColumn("accesses", "count"), numberColumn("unordered (B)", "unordered", say("bytes whose writer and reader are in the same launch", "bytes whose writer and reader are in the same run"))]]);
  if (data.HDV)
    list.push(["Host code", hostRows(), [textColumn("place", "name", true), ...(ofThreads ? [] : [numberColumn("launches before", "superstep")]), ...volumeColumns.slice(0, 2), ...(ofThreads ? [] : [
      numberColumn(say("from CTAs (B)", "from threads (B)"), "commLoad", say("loaded bytes that a CTA wrote last", "loaded bytes that a thread wrote last")), numberColumn(say("for CTAs (B)", "for threads (B)"), "commStore", say("stored bytes that a CTA loads", "stored bytes that a thread loads"))])]]);
  if (data.estimates)
    list.push(["Estimates", estimateRows(), [textColumn("kernel", "name", true), launchColumn("superstep", "– : all launches"), numberColumn(say("CTAs", "threads"), "ctas"), numberColumn("traced", "traced"),
      numberColumn("loaded, counted (B)", "load"), numberColumn("estimated (B)", "loadAll"), numberColumn("stored, counted (B)", "store"), numberColumn("estimated (B)", "storeAll")]]);
  list.push(["Sites", sites, [numberColumn("id", "id"), placeColumn(), numberColumn("column", "column"), textColumn("op", "op"),
    {name: "bytes", num: true, get: (r) => r.size, text: (r) => r.size ? count(r.size) : "run time"}, textColumn("variable", "name", true), textColumn("function", "function", true)]]);
  list.push(["Allocations", allocations, [numberColumn("id", "id"), textColumn("kind", "kind"), textColumn("name", "name", true),
    ...(ofThreads ? [numberColumn("times", "like")] : [textColumn("base", "base", true)]), numberColumn("bytes", "bytes"), placeColumn(),
    ...(ofThreads ? [] : [numberColumn("allocated before", "from", say("first launch after the allocation, counted among the launches shown", "first run after the allocation, counted among the runs shown")), numberColumn("freed before", "to", "– : never, or at the end")])]]);
  if (!ofThreads) list.push(["Copies", copies, [numberColumn(say("after launches", "after runs"), "after"), textColumn("kind", "kind"), textColumn("to", "dst", true),
    textColumn("from", "src", true), numberColumn("bytes", "bytes"), numberColumn("copies", "count")]]);
  return list;
}

const tablesOfRun = ["Sites", "Allocations", "Copies", "Estimates"]; // regardless of the filters
const emptyTables = {
  Sites: "Sites are in the companion file (MemTrace-pipe-N.meta), which was not read.",
  Allocations: "No allocations: they are in the companion file (MemTrace-pipe-N.meta).",
  Copies: "No copies or fills: they are in the companion file (MemTrace-pipe-N.meta).",
};

function drawTables(section) {
  const list = tableList(), holder = el("div", {role: "tabpanel"});
  const tabs = list.map(([name, rows], i) => el("button", {type: "button", role: "tab", "data-table": name, on: {click() { show(i); }}},
    name + (tablesOfRun.includes(name) ? ofRun : "") + " ", el("span", {class: "muted"}, count(rows.length))));
  function show(i, filter) {
    tabs.forEach((t, k) => { t.setAttribute("aria-selected", String(k === i)); t.tabIndex = k === i ? 0 : -1; t.firstElementChild.className = k === i ? "" : "muted"; });
    const [name, rows, columns] = list[i];
    holder.setAttribute("data-table", name);
    clear(holder, rows.length ? virtualTable(rows, columns, name, filter) : nothing(emptyTables[name] || "No rows."));
  }
  const bar = el("div", {class: "tabs", role: "tablist", on: {keydown(event) {
    const step = {ArrowLeft: -1, ArrowRight: 1}[event.key], i = tabs.indexOf(document.activeElement);
    if (!step || i < 0) return;
    event.preventDefault();
    tabs[(i + step + tabs.length) % tabs.length].focus();
  }}}, ...tabs);
  section.append(bar, holder);
  show(0);
  return {show(name, filter) { show(list.findIndex((l) => l[0] === name), filter); }};
}
