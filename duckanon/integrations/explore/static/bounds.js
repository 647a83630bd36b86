// The bounds of one design as a heat map, its shares, and the tables that could be published next.

import { el, grid, listed, note, num, several } from "./dom.js";
import { ask, cancel } from "./server.js";
import { choose, state } from "./state.js";
import { worked } from "./work.js";

const text = (values) => values.map((one) => (one === null ? "NULL" : one)).join(" · ");
let running = null;

export async function bounds(place) {
  const began = performance.now();
  const asked = { table: state.table, rows: state.rows, cols: state.cols };
  if (running) cancel(running).catch(() => {});
  const room = el("div", {});
  if (place.firstElementChild?.tagName === "SECTION") place.firstElementChild.after(room);
  else place.replaceChildren(room);
  const found = await worked(room, "Bounding every count", (told) => ask("bounds", asked, (job) => { running = job.job; told(job); }));
  running = null;
  if (!found || JSON.stringify(asked) !== JSON.stringify({ table: state.table, rows: state.rows, cols: state.cols })) return;
  const card = el("section", { class: "card", "aria-label": "Bounds of the chosen design" });
  heat(card, found);
  place.replaceChildren(card);
  requestAnimationFrame(() => { document.body.dataset.bounds = String(Math.round(performance.now() - began)); });
}

function heat(card, found) {
  const toggle = el("div", { class: "toggle", role: "group", "aria-label": "What cells show" }, ...[["bounds", "Bounds"], ["shares", "Shares"], ["counts", "Counts"]].map(([view, label]) =>
    el("button", { type: "button", "aria-pressed": String(state.view === view), onclick: () => { choose({ view }); heat(card, found); card.querySelector("[aria-pressed=true]").focus(); } }, label)));
  const cells = new Map(found.cells.map((cell) => [`${cell[0]} ${cell[1]}`, cell]));
  const widths = found.cells.filter((cell) => !cell[5]).map((cell) => cell[4] - cell[3]).sort((a, b) => a - b);
  const rank = (width) => Math.min(4, Math.floor((5 * widths.indexOf(width)) / widths.length));
  const head = el("tr", {}, el("th", { scope: "col" }, state.rows.join(" · ")), ...found.cols.map((one) => el("th", { scope: "col" }, text(one))));
  const rows = found.rows.map((one, r) => el("tr", {}, el("th", { scope: "row" }, text(one)), ...found.cols.map((_, c) => cell(cells.get(`${r} ${c}`), rank))));
  const part = found.row_count > found.rows.length || found.col_count > found.cols.length
    ? ` Shown are ${num(found.rows.length)} of ${several(found.row_count, "row")}, the most exposed first, and ${num(found.cols.length)} of ${several(found.col_count, "column")}.` : "";
  card.replaceChildren(
    el("div", { class: "row" }, el("h2", {}, `${listed(state.rows)} × ${listed(state.cols)}`), el("span", { class: "push" }, toggle)),
    el("p", {}, el("b", { class: found.disclosed ? "alarm" : "safe" }, found.disclosed ? `${num(found.disclosed)} of ${several(found.occupied, "count")} above zero follow exactly from the shares.` : `None of ${several(found.occupied, "count")} above zero follows exactly from the shares.`), part),
    el("p", { class: "legend" }, ...[["open", "follows exactly"], ["w0", "narrow bounds"], ["w4", "wide bounds"]].map(([kind, label]) => el("span", {}, el("i", { class: kind }), label))),
    el("div", { class: "scroll tall", tabindex: "0", role: "group", "aria-label": "Cells" }, el("table", { class: "heat" }, el("caption", {}, "What a reader of the shares, who knows the number of all records, can compute of each count."), el("thead", {}, head), el("tbody", {}, ...rows))));
}

function cell(found, rank) {
  if (!found) return el("td", { class: "none" }, state.view === "shares" ? "0 %" : "0");
  const [, , n, low, high, open, share] = found;
  const shown = { bounds: open ? `= ${num(n)}` : `${num(low)} to ${num(high)}`, shares: `${(100 * share).toFixed(1)} %`, counts: num(n) }[state.view] ?? num(n);
  return el("td", { class: open ? "open" : `w${rank(high - low)}`, title: `${several(n, "record")}; a reader knows: ${open ? "exactly" : `${num(low)} to ${num(high)}`}` }, shown);
}

/** What could be published beside what is published already; computed only when it is asked for. */
export function nextTables() {
  const place = el("div", {});
  const button = el("button", { type: "button", onclick: async () => {
    button.disabled = true;
    const found = await worked(place, "Auditing what could come next", (tell) => ask("next", { table: state.table }, tell));
    button.disabled = false;
    if (found) place.replaceChildren(candidates(found.candidates));
  } }, "What else could be published?");
  return el("section", { class: "card", "aria-label": "Beside what is published" }, el("div", { class: "row" }, el("h2", {}, "Beside what is published"), el("span", { class: "push" }, button)), place);
}

function candidates(found) {
  if (!found.length) return note("Nothing new could be published: all tables of up to three public columns follow from what is.");
  return grid("Tables of counts, each audited together with what is published now", [["Variables", ""], ["Decision", ""], ["Cells", "number"], ["Bits added", "number"], ["Why not", ""]],
    found.map((one) => [one.variables.join(" × "), el("span", { class: `tag ${one.publishable ? "good" : "warn"}` }, one.publishable ? "safe" : "refused"), num(one.cells), num(one.information), one.reason ?? ""]));
}
