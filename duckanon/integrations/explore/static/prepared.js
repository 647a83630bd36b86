// Tables that could be prepared together: the error of each, over prices. Only for a population with a delta.

import { el, field, grid, listed, note, num, select, several, svg } from "./dom.js";
import { ask } from "./server.js";
import { choose, state, table } from "./state.js";
import { worked } from "./work.js";

const MOST_COLUMNS = 12;
const SUGGESTED = 4;

/** The card; null where the population of the table has no delta, or no column is public. */
export function preparedTables() {
  const { policy, budget } = table() ?? {};
  if (!policy?.public?.length || !budget?.promise) return null;
  const place = el("div", {});
  const results = el("div", {});
  const button = el("button", { type: "button", class: "main", onclick: () => planned(place, results, button) }, "Plan");
  const chosen = () => state.prepared ?? policy.public.slice(0, SUGGESTED);
  const boxes = policy.public.map((name) => el("label", { class: "check" }, el("input", { type: "checkbox", value: name, checked: chosen().includes(name),
    onchange: (event) => choose({ prepared: event.target.checked ? [...chosen(), name] : chosen().filter((one) => one !== name) }) }), name));
  return el("section", { class: "card", "aria-label": "Tables prepared together" }, el("h2", {}, "Tables prepared together"),
    el("p", {}, `Tables by columns of ${state.table} that are bought at once: they share what they cost, and agree. Here they are only planned: nothing is charged.`),
    el("fieldset", {}, el("legend", {}, "By these columns"), el("div", { class: "checks" }, ...boxes)),
    el("div", { class: "fields" }, field("All tables of up to", select([["1", "one column"], ["2", "two columns"], ["3", "three columns"]], state.ways, (ways) => choose({ ways }))),
      field("Price", el("input", { type: "text", class: "short", inputmode: "decimal", value: state.price, onchange: (event) => choose({ price: event.target.value.trim() }) })),
      el("span", { class: "push" }, button)),
    place, results);
}

async function planned(place, results, button) {
  const columns = state.prepared ?? table().policy.public.slice(0, SUGGESTED);
  results.replaceChildren();
  if (!columns.length || columns.length > MOST_COLUMNS) {
    place.replaceChildren(note(`Choose from 1 to ${MOST_COLUMNS} columns.`, "warn"));
    return;
  }
  button.disabled = true;
  const found = await worked(place, "Planning the tables", (tell) => ask("prepared", { table: state.table, columns, ways: Number(state.ways), price: state.price }, tell));
  button.disabled = false;
  if (!found || !results.isConnected) return;
  const rounded = (value) => num(value < 10 ? Math.round(100 * value) / 100 : Math.round(10 * value) / 10);
  results.replaceChildren(
    el("p", { role: "status" }, `${several(found.tables.length, "table")} for ${rounded(found.price)} of the ${rounded(found.remaining)} that is left.`),
    curve(found, results.clientWidth),
    grid("Each table at this price", [["Table by", ""], ["Cells", "number"], ["Deviation", "number"], ["95 % within", "number"]],
      found.tables.map((one) => [listed(one.columns), num(one.cells), rounded(one.sd), `± ${rounded(one.within)}`])),
    el("p", { class: "hint" }, "To buy it, add buy := true as a steward:"), el("pre", { tabindex: "0" }, found.sql));
}

/** One line for each table: its standard deviation over the price, both on logarithmic axes. width: in pixels. */
function curve({ curve: points, price, tables }, width) {
  // Drawn as wide as it is shown, so that its words are as large as the page's on a narrow screen, too.
  const [W, H, L, R, T, B] = [Math.min(860, Math.max(300, width)), 280, 52, 20, 44, 30];
  const every = W < 500 ? 4 : 2;
  const all = points.flatMap((one) => one.sd).filter((one) => one > 0);
  const [least, most] = [Math.min(...all), Math.max(...all)];
  const part = (value, from, to) => (to > from ? Math.log(value / from) / Math.log(to / from) : 0.5);
  const x = (value) => L + part(value, points[0].price, points.at(-1).price) * (W - L - R);
  const y = (value) => H - B - part(value, least, most) * (H - B - T);
  const short = (value) => String(Number(value.toPrecision(2)));
  const parts = [svg("text", { x: 0, y: 14, class: "now" }, "Standard deviation of a cell, by price"),
    svg("text", { x: 0, y: 32 }, "a line for each table")];
  for (let at = 0; at <= 4; at += 1) {
    const value = least * (most / least) ** (at / 4);
    parts.push(svg("line", { class: "grid", x1: L, x2: W - R, y1: y(value), y2: y(value) }), svg("text", { x: L - 8, y: y(value) + 4, "text-anchor": "end" }, short(value)));
  }
  points.forEach((one, at) => { if (at % every === 0) parts.push(svg("text", { x: x(one.price), y: H - 8, "text-anchor": at ? "middle" : "start", class: one.price === price ? "now" : "" }, short(one.price))); });
  parts.push(svg("line", { class: "here", x1: x(price), x2: x(price), y1: T - 6, y2: H - B }));
  points[0].sd.forEach((_, line) => parts.push(svg("polyline", { class: "ours", points: points.map((one) => `${x(one.price).toFixed(1)},${y(one.sd[line]).toFixed(1)}`).join(" ") },
    svg("title", {}, listed(tables[line].columns)))));
  return svg("svg", { class: "chart", viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": "The standard deviation of each table over the price; the table below has the numbers at the chosen one" }, ...parts);
}
