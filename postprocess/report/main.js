// Puts the panels into the page.
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

startTheme();
const panels = {};
for (const [id, draw] of [["overview", drawOverview], ["timeline", drawTimeline], ["transfers", drawTransfers], ["volumes", drawVolumes],
                          ["strides", drawStrides], ["lines", drawLines], ["plots", drawPlots], ["tables", drawTables]])
  panels[id] = draw(document.getElementById(id));
drawNav();
document.getElementById("made").textContent = "Made by mt-report (memtrace " + data.tool + ") from " + data.inputs.join(", ") + ".";
drawAll();
new ResizeObserver(askRedraw).observe(document.getElementById("main"));
addEventListener("scroll", hideTip, {passive: true});
// For scripts and tests: what is drawn, as numbers.
window.memtraceReport = {data, state, setState, panels, launches, kernelSums, totals, missCurve, chosenLaunches};
