// 7. Before and after: rows side by side, and what the release still tells.

import { bar, el, grid, listed, note, num, pct, several } from "./dom.js";
import { ask } from "./server.js";
import { generalised, known, state } from "./state.js";
import { worked } from "./work.js";

export const lead = "Rows of the table and the same rows of the copy. What changes is marked.";

const SMALL = 20_000;
const computed = new Map();
const asked = () => ({ ...generalised(), k: Number(state.k) });
const key = () => JSON.stringify([known.session.version, asked()]);

export function show(body) {
  if (!state.quasi?.length) {
    body.replaceChildren(note("Choose a quasi-identifier among the variables first."));
    return;
  }
  const place = el("div", {});
  const results = el("div", {});
  const button = el("button", { type: "button", class: "main", onclick: () => compute(place, results, button) }, "Make the copy, to look at");
  const chosen = `k = ${state.k} by ${listed(state.quasi)}, method ${state.method}`;
  body.replaceChildren(el("section", { class: "card row" }, el("span", {}, chosen), el("span", { class: "push" }, button)), place, results);
  const found = computed.get(key());
  if (found) draw(results, found);
  else if (known.profile.records <= SMALL && state.method === "order") compute(place, results, button);
}

async function compute(place, results, button) {
  button.disabled = true;
  const mine = key();
  const found = await worked(place, "Making the copy", (tell) => ask("preview", asked(), tell));
  button.disabled = false;
  if (!found || !results.isConnected) return;
  computed.set(mine, found);
  draw(results, found);
}

function draw(results, found) {
  const lost = found.records - found.released;
  results.replaceChildren(
    note(`${several(found.released, "record")} in ${several(found.classes, "class", "classes")}, the smallest of ${num(found.k ?? 0)}.${lost ? ` ${several(lost, "record")} would be dropped.` : ""} This copy is gone when you leave: nothing is released yet.`),
    found.shares.length ? shares(found.shares) : el("span", {}), pairs(found), found.utility.length ? utility(found.utility) : el("span", {}));
}

/** What classes give away about sensitive columns: the largest share of one value in any class. */
function shares(rows) {
  return el("section", { class: "card" }, el("h2", {}, "What a class gives away"), grid("The largest share that one value has in any class: whoever is in it has this value with that chance", [["Sensitive column", ""], ["Largest share", "number"], ["Classes that agree", "number"]],
    rows.map((one) => [one.column, pct(one.most), num(one.alike)])));
}

function pairs({ columns, rows }) {
  const body = rows.map((row, i) => el("tr", {}, el("th", { scope: "row" }, String(i + 1)),
    ...columns.flatMap((column, c) => {
      if (!column.is_changed) return [el("td", {}, row.before[c])];
      if (!row.after) return [el("td", { class: "before" }, row.before[c]), el("td", { class: "gone" }, "dropped")];
      const same = row.after[c] === row.before[c];
      return [el("td", { class: "before" }, row.before[c]), el("td", { class: same ? "" : "after" }, row.after[c])];
    })));
  const heads = columns.flatMap((column) => column.is_changed ? [el("th", { scope: "col" }, column.name), el("th", { scope: "col" }, `${column.name}, released`)] : [el("th", { scope: "col" }, column.name)]);
  return el("section", { class: "card" }, el("h2", {}, "Rows"), el("p", { class: "legend" }, el("span", {}, el("i", { class: "changed" }), "generalised")),
    el("div", { class: "scroll tall", tabindex: "0", role: "group", "aria-label": "Rows before and after" }, el("table", { class: "pair" },
      el("caption", {}, `${rows.length} rows from the whole table`), el("thead", {}, el("tr", {}, el("th", { scope: "col" }, "Row"), ...heads)), el("tbody", {}, ...body))));
}

function utility(rows) {
  const moved = rows.filter((one) => one.measure === "total_variation");
  const errors = rows.filter((one) => one.measure === "query_error");
  const pairsOf = rows.filter((one) => one.measure === "mean" || one.measure === "correlation");
  const shown = (value) => (Math.abs(value) >= 100 ? num(Math.round(value)) : value.toPrecision(3));
  const compared = moved.flatMap((one) => one.columns);
  const cards = [el("section", { class: "card" }, el("h2", {}, "How far distributions moved"),
    grid("The part of the records that lies elsewhere in the distribution of a column", [["Column", ""], ["", ""], ["Moved", "number"]], moved.map((one) => [one.columns.join(", "), bar(one.difference), pct(one.difference)])))];
  if (errors.length) {
    cards.push(el("section", { class: "card" }, el("h2", {}, "Random counts"), grid(`How far 1,000 random counts over one to three of ${listed(compared)} are off in the copy; the report compares the same`, [["Of all questions", ""], ["are off by at most", "number"]],
      errors.map((one) => [one.value === "median" ? "half" : one.value, pct(one.difference)]))));
  }
  if (pairsOf.length) {
    cards.push(el("section", { class: "card" }, el("h2", {}, "Means and correlations"), grid("In the table and in the copy", [["Of", ""], ["Before", "number"], ["After", "number"]],
      pairsOf.map((one) => [`${one.measure} of ${listed(one.columns)}`, one.before === null ? "–" : shown(one.before), one.after === null ? "–" : shown(one.after)]))));
  }
  return el("div", { class: "two" }, ...cards);
}
