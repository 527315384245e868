"use strict";
const figures = JSON.parse(document.getElementById("figures").textContent);
const dark = matchMedia("(prefers-color-scheme: dark)");
const touch = matchMedia("(pointer: coarse)").matches;

// replace "$ink" and the other colour names by the colours of the theme
function coloured(value) {
  if (Array.isArray(value)) return value.map(coloured);
  if (value && typeof value === "object")
    return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, coloured(item)]));
  if (typeof value === "string" && /^\$[a-z]+\d?$/.test(value))
    return getComputedStyle(document.documentElement).getPropertyValue("--" + value.slice(1)).trim() || value;
  return value;
}

function draw(chart) {
  const { data, layout } = coloured(figures[chart.id]);
  const narrow = chart.clientWidth < 480; // two columns of the legend fit
  const [ink, rule, card] = coloured(["$ink", "$rule", "$card"]);
  for (const axis of ["xaxis", "yaxis"]) {
    layout[axis] = { gridcolor: rule, linecolor: rule, zeroline: false, fixedrange: touch, ...layout[axis] };
    if (layout[axis].title) layout[axis].title.font = { size: 13 };
  }
  const base = {
    paper_bgcolor: "transparent",
    plot_bgcolor: "transparent",
    font: { color: ink, family: "system-ui, sans-serif", size: 13 },
    margin: { l: 56, r: 12, t: 12, b: 48 },
    legend: { orientation: "h", y: 1.02, yanchor: "bottom", x: 0, ...(narrow ? { entrywidth: 86, font: { size: 10 } } : { font: { size: 12 } }) },
    hoverlabel: { bgcolor: card, bordercolor: rule, font: { color: ink }, align: "left", namelength: -1 },
    dragmode: touch ? false : "zoom", // a finger scrolls the page
  };
  Plotly.react(chart, data, { ...base, ...layout }, { responsive: true, displayModeBar: false });
  if (!chart.dataset.drawn) chart.on("plotly_click", (event) => visit(event.points[0].customdata?.[0]));
  chart.dataset.drawn = "yes";
}

function visit(anchor) {
  const run = typeof anchor === "string" && document.getElementById(anchor);
  if (!run) return;
  run.open = true;
  run.scrollIntoView({ behavior: "smooth" });
}

function sort(button) {
  const head = button.closest("th"), table = head.closest("table"), body = table.tBodies[0];
  const up = head.getAttribute("aria-sort") === "descending";
  const column = head.cellIndex;
  const key = (row) => {
    const text = row.cells[column].textContent.trim();
    const number = parseFloat(text.replaceAll(",", ""));
    return column === 0 ? text : text === "-" ? -Infinity : number;
  };
  const order = (a, b) => (a < b ? -1 : a > b ? 1 : 0) * (up ? 1 : -1);
  body.append(...[...body.rows].sort((a, b) => order(key(a), key(b))));
  for (const cell of head.parentElement.cells) cell.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", up ? "ascending" : "descending");
}

// charts are drawn when they come into view
const seen = new IntersectionObserver(
  (changes) => changes.forEach(({ isIntersecting, target }) => isIntersecting && !target.dataset.drawn && draw(target)),
  { rootMargin: "300px" },
);
for (const chart of document.querySelectorAll(".chart")) {
  chart.style.minHeight = figures[chart.id].layout.height + "px";
  seen.observe(chart);
}
// a shadow shows that a table continues to the right
for (const wide of document.querySelectorAll(".wide")) {
  const mark = () => wide.classList.toggle("more", wide.scrollLeft + wide.clientWidth < wide.scrollWidth - 1);
  wide.addEventListener("scroll", mark, { passive: true });
  new ResizeObserver(mark).observe(wide); // also fires when its section is opened
}
dark.addEventListener("change", () => document.querySelectorAll(".chart[data-drawn]").forEach(draw));
for (const button of document.querySelectorAll(".sortable button")) button.addEventListener("click", () => sort(button));
addEventListener("hashchange", () => visit(location.hash.slice(1)));
visit(location.hash.slice(1));
