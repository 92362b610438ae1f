// Adds the panels to the page.
function applyTheme(dark) {
  document.documentElement.classList.toggle("dark", dark);
  document.getElementById("theme").textContent = dark ? "☀ light" : "☾ dark";
  readTheme();
}
function startTheme() {
  const media = matchMedia("(prefers-color-scheme: dark)");
  let chosen = null;
  const follow = () => { applyTheme(chosen === null ? media.matches : chosen); drawAll(); };
  media.addEventListener("change", follow);
  document.getElementById("theme").addEventListener("click", () => { chosen = !theme.dark; follow(); });
  applyTheme(media.matches);
}
function drawNav() {
  const nav = document.getElementById("nav"), links = new Map();
  for (const section of document.querySelectorAll("main > section")) {
    const name = section.id === "overview" ? "Overview" : section.querySelector("h2").textContent;
    const a = el("a", {href: "#" + section.id}, name);
    links.set(section, a);
    nav.append(a);
  }
  const seen = new IntersectionObserver((entries) => {
    for (const e of entries) links.get(e.target).classList.toggle("here", e.isIntersecting);
  }, {rootMargin: "-40% 0px -59% 0px"});
  for (const section of links.keys()) seen.observe(section);
}

// Waits for a turn of the event loop, so that the page responds between two panels.
const loop = new MessageChannel(), waiting = [];
let turns = 0;
loop.port1.onmessage = () => waiting.shift()();
function turn() {
  turns++;
  return new Promise((done) => {
    waiting.push(done);
    loop.port2.postMessage(0);
  });
}

const panels = {};
// Hides panels that do not apply to a host program, and adapts the page's texts.
function fitThreads() {
  if (!ofThreads) return;
  document.getElementById("plots-title").textContent = "Caches";
  document.getElementById("timeline").remove();
  document.querySelector("dl.terms").remove();
  document.querySelector("footer details").remove();
}
async function drawPage() {
  startShared();
  startDevices();
  fitThreads();
  const draws = {overview: drawOverview, timeline: drawTimeline, transfers: drawTransfers, devices: drawDevices, volumes: drawVolumes, buffers: drawBuffers, strides: drawStrides, lines: drawLines,
                 plots: drawPlots, shared: drawShared, tables: drawTables};
  const panel = async (id) => {
    const before = redraws.length, heard = state.listeners.length;
    const section = document.getElementById(id);
    if (!section) return;
    try {
      panels[id] = draws[id](section);
      for (const f of redraws.slice(before)) f();
    } catch (e) { // data not written by memtrace extract; the other panels are drawn
      redraws.length = before;
      state.listeners.length = heard;
      console.error(e);
      section.append(nothing("This panel cannot be drawn: its data does not have the format of memtrace extract (" + e.message + ")."));
    }
    await turn();
  };
  drawNav();
  await panel("overview");
  await panel("timeline");
  let until = performance.now() + 30;
  for (const lists = unpackLists(); !lists.next().done;)
    if (performance.now() > until) {
      await turn();
      until = performance.now() + 30;
    }
  for (const id of Object.keys(draws).slice(2)) await panel(id);
  document.getElementById("made").textContent = "Made by memtrace report (memtrace " + data.tool + ") from " + data.inputs.join(", ") + ".";
  new ResizeObserver(askRedraw).observe(document.getElementById("main"));
  startSearch();
  startAddress(); // the target of the address has moved meanwhile
}

startTheme();
addEventListener("scroll", hideTip, {passive: true});
// Interface for scripts and tests: the data drawn, as numbers, valid after `ready`.
window.memtraceReport = {data, state, setState, panels, launches, totals, missCurve, chosenLaunches, unpackLists, figures, find, searchEntries, footprint, turns: () => turns, ready: drawPage()};
