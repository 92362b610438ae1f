// Shared and local memory: bank conflicts and local memory by line, hazards. data.shared has the rows of the text's
// tables (memtrace extract -s shared); it exists only if the trace has records of such memory.
const shared = data.shared || null;
const sharedFigures = ["requests", "accesses", "bytes", "wavefronts", "ideal", "worst"];
// Adds `by` to each row: launch -> result of `of` for its cell; null: too many cells for the page.
function byLaunch(rows, list, of) {
  const cells = list && unpackWhole(list);
  for (const r of rows) r.by = cells ? new Map() : null;
  for (const g of cells ? cells.groups : []) for (let i = g.from; i < g.to; i++) rows[g.row].by.set(cells.superstep[i], of(cells, i));
  return rows;
}
// Unpacks the rows of banks and of local memory.
function unpackShared() {
  const of = (list) => list.rows.map((r) => Object.assign({at: r.file ? r.file + ":" + r.line : "?"}, r)), banks = of(shared.banks), local = of(shared.local);
  byLaunch([...banks, ...local], shared.shared_cells, (cells, i) => Object.fromEntries(sharedFigures.map((key) => [key, cells[key][i]])));
  return {banks, local};
}
let sharedKept = null;
function sharedRows() { return sharedKept = sharedKept || unpackShared(); }
// Returns the rows of the selected launch, or of all; rows without figures are left out.
function chosenRows(rows) {
  return state.superstep === null || !shared.shared_cells ? rows : rows.filter((r) => r.by.has(state.superstep)).map((r) => Object.assign({}, r, {launches: 1}, r.by.get(state.superstep)));
}
function bankConflicts(r) { return r.wavefronts - r.ideal; }
function ways(n) { return n + "-way"; }
function placeWords(r) { return r.file ? place(r.file, r.line) : r.at || "?"; }
// Includes the kernel in a name only where it distinguishes rows.
function rowName(rows) {
  const base = (r) => [placeWords(r), r.type, r.variable].filter(Boolean).join(" "), times = new Map();
  for (const r of rows) times.set(base(r), (times.get(base(r)) || 0) + 1);
  return (r) => base(r) + (times.get(base(r)) > 1 ? ", column " + r.column + " of " + shortKernel(r.kernel) : "");
}
function leftOut(list, what) { return list.left_out ? " The " + count(list.left_out) + " " + what + " with the smallest figures are left out." : ""; }

// Draws bars that follow the selected launch, with a table of all figures. of(rows): rows of bars() for them.
function sharedBars(label, rows, columns, of, empty) {
  const body = el("tbody"), picture = el("table", {class: "bars", "aria-label": label}, body), none = nothing(empty), more = el("span", {class: "quiet"});
  let shown = [];
  const follow = () => {
    shown = of(chosenRows(rows));
    none.hidden = shown.length > 0;
    box.hidden = !shown.length;
    clear(body);
    clear(more, openable(shown, 14, body, barRows(shown)));
  };
  const box = figure(label, barsPicture(picture, () => shown.slice(0, body.children.length)), () => chosenRows(rows), columns);
  box.querySelector(".tools").prepend(more);
  onState(follow);
  follow();
  return el("div", {}, none, box);
}
function requestWords(r) { return r.requests ? count(r.requests) : "not grouped"; }
function laneWords(r) { return r.requests ? many(r.requests, "request") + " of " + many(r.accesses, "lane") : many(r.accesses, "access", "accesses") + ", not grouped"; }
const sharedColumns = [Object.assign(placeColumn(), {get: (r) => r.at, text: placeWords, hint: (r) => r.at}), numberColumn("column", "column"), textColumn("variable", "variable", true), textColumn("kernel", "kernel", true), textColumn("type", "type"),
  numberColumn("launches", "launches"), {name: "requests", num: true, title: "accesses of a warp", get: (r) => r.requests, text: requestWords}, numberColumn("accesses", "accesses", "of threads"), numberColumn("bytes", "bytes")];
const bankColumns = sharedColumns.concat([numberColumn("wavefronts", "wavefronts"), numberColumn("without conflicts", "ideal", "wavefronts that the requests need at least"),
  {name: "conflicts", num: true, get: bankConflicts, text: (r) => count(bankConflicts(r))}, {name: "a request", num: true, title: "wavefronts", get: (r) => r.requests ? r.wavefronts / r.requests : null, text: (r) => r.requests ? (r.wavefronts / r.requests).toFixed(2) : ""},
  {name: "worst", num: true, get: (r) => r.worst, text: (r) => r.requests ? ways(r.worst) : ""}]);

function banksBlock() {
  const {banks} = sharedRows();
  if (!banks.length) return null;
  const picture = sharedBars("Bank conflicts by line", banks, bankColumns, (rows) => {
    const name = rowName(rows);
    return rows.slice().sort((a, b) => bankConflicts(b) - bankConflicts(a) || b.wavefronts - a.wavefronts).map((r) => ({name: name(r), full: [r.at, r.type, r.variable].filter(Boolean).join(" "), pick: lineLink(r.at),
      title: [r.kernel, r.at + (r.column ? ", column " + r.column : "") + ", " + r.type + (r.variable ? " of " + r.variable : ""), laneWords(r),
        many(r.wavefronts, "wavefront") + ", " + count(r.ideal) + " without conflicts", r.requests ? "worst request: " + ways(r.worst) : ""].join("\n"),
      parts: [[r.ideal, "load"], [bankConflicts(r), "store"]], text: r.requests ? count(r.wavefronts) + " for " + many(r.requests, "request") + ", " + (bankConflicts(r) ? "up to " + ways(r.worst) : "no conflict") : "not grouped"}));
  }, say("The selected launch does not access shared memory.", "The selected run does not access shared memory."));
  const sum = el("p", {id: "banks-sum"}), follow = () => {
    const rows = chosenRows(banks), all = d3.sum(rows, (r) => r.wavefronts), lost = d3.sum(rows, bankConflicts);
    sum.textContent = many(d3.sum(rows, (r) => r.requests), "request") + " in " + many(all, "wavefront") + ", " + (lost ? percent(lost, all) + " of them bank conflicts" : "no bank conflicts");
  };
  onState(follow);
  follow();
  const out = block("banks", "Bank conflicts", "Wavefronts of warps’ requests to shared memory: those needed without conflicts, and those that bank conflicts add. There are 32 banks of 4 bytes; each serves one word at a time."
    + (!shared.shared_cells && launches.length > 1 ? say(" All launches together: there are too many to show one alone.", " All runs together: there are too many to show one alone.") : "") + leftOut(shared.banks, "lines"), sum, picture, colourLegend([["load", "without conflicts"], ["store", "conflicts"]]),
    banks.some((r) => r.bytes === 8 * r.accesses && bankConflicts(r)) ? el("p", {class: "muted"}, data.words.halves) : null);
  out.className = "wide";
  return out;
}

function localBlock() {
  const {local} = sharedRows();
  if (!local.length) return null;
  return block("local", "Local memory", "Bytes of local arrays and of variables whose address is taken. Registers that ptxas spills are not in the trace." + leftOut(shared.local, "lines"),
    sharedBars("Local memory by line", local, sharedColumns, (rows) => {
      const name = rowName(rows);
      return rows.slice().sort((a, b) => b.bytes - a.bytes).map((r) => ({name: name(r), full: [r.at, r.type, r.variable].filter(Boolean).join(" "), pick: lineLink(r.at), title: [r.kernel, r.at, laneWords(r), exactBytes(r.bytes)].join("\n"),
        parts: [[r.type === "store" ? 0 : r.bytes, "load"], [r.type === "store" ? r.bytes : 0, "store"]], text: bytes(r.bytes) + " in " + many(r.accesses, "access", "accesses")}));
    }, say("The selected launch does not access local memory.", "The selected run does not access local memory.")), colourLegend([["load", "loaded"], ["store", "stored"]]));
}

// ---- hazards ----
const hazardWords = {RAW: "a load after a store", WAR: "a store after a load", WAW: "a store after a store"};
// Adds `by` to each hazard: launch -> words.
function hazardRows() {
  return byLaunch(shared.hazards.rows.map((r) => Object.assign({example: r.cta.join(",") + ": " + r.first.thread + ", " + r.second.thread + " at 0x" + r.address.toString(16)}, r)),
    shared.hazards.hazard_cells, (cells, i) => cells.words[i]);
}
// Returns the hazards of the selected launch, or of all. The example comes from one launch.
function chosenHazards(rows) {
  const step = state.superstep;
  return step === null || !shared.hazards.hazard_cells ? rows : rows.filter((r) => r.by.has(step)).map((r) => Object.assign({}, r, {words: r.by.get(step), launches: 1}, r.launch === step ? {} : {launch: null, example: ""}));
}
function sideColumn(name) {
  const words = (r) => r[name].type + " " + placeWords(r[name]), full = (r) => r[name].type + (r[name].file ? " " + r[name].file + ":" + r[name].line : "");
  return {name, get: words, text: words, csv: full, hint: full, pick: (r) => lineLink(r[name].file + ":" + r[name].line)};
}
function hazardNotes() {
  const out = shared.notes.map((note) => note[0].toUpperCase() + note.slice(1) + ".");
  if (data.totals.untraced) out.push("Accesses without a record may race, too.");
  return out.join(" ");
}
function hazardsBlock() {
  if (!shared.banks.rows.length) return null;
  const rows = hazardRows(), notes = hazardNotes(), holder = el("div");
  let drawn;
  const follow = () => { // filter and scroll position stay while the launch does
    if (drawn !== state.superstep) clear(holder, hazardTable(chosenHazards(rows), rows.length));
    drawn = state.superstep;
  };
  onState(follow);
  follow();
  const out = block("hazards", "Hazards", say("Accesses of two threads of a CTA to the same bytes of shared memory, at least one of them a write, with no barrier between them.", "Accesses of two threads to the same bytes of shared memory, at least one of them a write, with no barrier between them.")
    + (!shared.hazards.hazard_cells ? say(" All launches together: there are too many to show one alone.", " All runs together: there are too many to show one alone.") : "") + leftOut(shared.hazards, "pairs"), holder, notes ? el("p", {class: "muted"}, notes) : null);
  out.className = "wide";
  return out;
}
function hazardTable(rows, all) {
  if (!rows.length) return nothing(all ? say("The selected launch has no hazards.", "The selected run has no hazards.") : "No hazards were found.");
  return virtualTable(rows, [{name: "kind", get: (r) => r.kind, text: (r) => r.kind, hint: (r) => hazardWords[r.kind]}, sideColumn("first"), sideColumn("second"), textColumn("kernel", "kernel", true), textColumn("between", "between"),
      numberColumn("words", "words", "words of 4 bytes, counted each time; bytes where an access to the word is smaller"), numberColumn("launches", "launches"), Object.assign(launchColumn("launch", "launch of the example"), {name: say("in launch", "in run")}), textColumn(say("CTA: threads", "thread: threads"), "example")], "Hazards");
}

// Removes the panel if there are no records of shared or local memory.
function startShared() {
  if (!shared) document.getElementById("shared").remove();
  else if (!shared.banks.rows.length) document.getElementById("shared-title").textContent = "Local memory";
}
function drawShared(section) {
  section.append(el("div", {class: "blocks"}, ...[banksBlock(), hazardsBlock(), localBlock()].filter(Boolean)));
  return {rows: sharedRows};
}
