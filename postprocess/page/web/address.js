// The page's address holds the current selection, so that a link shows it again:
// #panel&launch=3&from=1&to=2&line=a.cu:7&buffer=…
const addressKeys = [["launch", "superstep"], ["from", "source"], ["to", "target"], ["line", "line"], ["buffer", "buffer"]];
let addressPanel = "";

// Validates the values: an address may come from another page, or from anybody.
const addressKnown = {superstep: (v) => kernelBySuperstep.has(+v) ? +v : null, source: (v) => kernelNames[v] === undefined ? null : +v, target: (v) => kernelNames[v] === undefined ? null : +v,
  line: (v) => lineLink(v) ? v : null, buffer: (v) => bufferLink(v) ? v : null};
function readAddress() {
  const [panel, ...rest] = location.hash.slice(1).split("&"), change = {};
  for (const part of rest) {
    const [key, value] = part.split("="), known = addressKeys.find(([k]) => k === key);
    let text = "";
    try { text = decodeURIComponent(value || ""); } catch (e) { continue; } // not one of our addresses
    if (known) change[known[1]] = addressKnown[known[1]](text);
  }
  addressPanel = document.getElementById(panel) ? panel : "";
  return change;
}
function writeAddress() {
  const parts = addressKeys.filter(([, of]) => state[of] !== null).map(([key, of]) => key + "=" + encodeURIComponent(state[of]));
  const hash = addressPanel || parts.length ? "#" + [addressPanel, ...parts].join("&") : location.pathname;
  if (hash !== location.hash) history.replaceState(null, "", hash);
}
let addressTimer = 0;
// Writes the address with a delay: a slider changes the state faster than a browser allows.
function askAddress() {
  clearTimeout(addressTimer);
  addressTimer = setTimeout(writeAddress, 150);
}
function followAddress() {
  const change = readAddress();
  if (Object.keys(change).length) setState(change);
  const there = addressPanel && document.getElementById(addressPanel);
  if (there) there.scrollIntoView();
}
// Shows the panel of a line or buffer that was chosen elsewhere.
function showChosen() {
  let line = state.line, buffer = state.buffer;
  onState(() => {
    const panel = state.line !== line && state.line !== null ? "lines" : state.buffer !== buffer && state.buffer !== null ? "buffers" : null;
    line = state.line;
    buffer = state.buffer;
    const e = panel && document.getElementById(panel);
    if (!e) return;
    const box = e.getBoundingClientRect();
    if (box.bottom < 120 || box.top > innerHeight - 160) e.scrollIntoView();
  });
}
function startAddress() {
  onState(askAddress);
  followAddress();
  showChosen();
  addEventListener("hashchange", followAddress);
}
