// Panels of analyses that need more than a raw trace has.
function drawPlots(section) {
  const panels = [];
  if (!panels.length) {
    section.append(nothing("Coalescing needs to know which lanes access memory together, and reuse distances the order within a warp. A raw trace has neither; a compact trace (MEMTRACE_FORMAT=compact) has both."));
    return;
  }
  section.append(...panels);
}
