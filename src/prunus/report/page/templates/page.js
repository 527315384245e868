"use strict";

// notes at the pointer, or at a finger, instead of the browser's own, which come late and not on phones
const tip = document.createElement("div");
tip.id = "tip";
tip.hidden = true;
document.body.append(tip);
for (const part of document.querySelectorAll(".noted")) {
  const title = part.querySelector("title");
  part.dataset.note = title.textContent;
  part.querySelector("a")?.setAttribute("aria-label", title.textContent);
  title.remove();
}
document.addEventListener("pointerover", (event) => {
  const part = event.target.closest(".noted");
  tip.hidden = !part;
  if (!part) return;
  tip.textContent = part.dataset.note;
  const box = part.getBoundingClientRect(), width = document.documentElement.clientWidth;
  const below = Math.min(box.bottom, event.clientY + 14) + scrollY + 6;
  tip.style.top = `${below}px`;
  tip.style.left = `${Math.max(4, Math.min(event.clientX, width - tip.offsetWidth - 4))}px`;
});

function visit(anchor) {
  const place = document.getElementById(anchor);
  const run = place?.closest("details.run");
  if (!run) return;
  run.open = true;
  place.scrollIntoView({ behavior: "smooth" });
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

// a shadow shows that a table continues to the right
for (const wide of document.querySelectorAll(".wide")) {
  const mark = () => wide.classList.toggle("more", wide.scrollLeft + wide.clientWidth < wide.scrollWidth - 1);
  wide.addEventListener("scroll", mark, { passive: true });
  new ResizeObserver(mark).observe(wide); // also fires when its section is opened
}
// paper shows every run and every class
addEventListener("beforeprint", () => document.querySelectorAll("details.run, .domain details").forEach((run) => (run.open = true)));
for (const button of document.querySelectorAll(".sortable button")) button.addEventListener("click", () => sort(button));
addEventListener("hashchange", () => visit(location.hash.slice(1)));
visit(location.hash.slice(1));
