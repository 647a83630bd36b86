// 4. Designs: every table of shares that could be made, what each gives away, and the bounds that follow from one.

import { bounds, nextTables } from "./bounds.js";
import { el, field, listed, note, num, pct, select, several } from "./dom.js";
import { scatter } from "./scatter.js";
import { ask } from "./server.js";
import { choose, columns, known, state, table } from "./state.js";
import { worked } from "./work.js";

export const lead = "A table of shares can give away the counts behind it. Every point is one way to lay out a table of the variables.";

const RISKS = { disclosed_small_cells: "small counts that follow exactly", disclosed_rows: "rows whose counts follow exactly", unit_rows: "rows with all records in one column", zero_cells: "zeros that everybody sees" };
const USES = { information: "information kept", dependence: "bits that rows tell of columns" };
// More values make tables that nobody reads.
const MOST_VALUES = 30;
const MOST_SUGGESTED = 8;
const MOST_LISTED = 40;
// Fewer designs are computed without being asked to.
const QUICK_SECONDS = 2;
const computed = new Map();

const chosen = () => state.variables ?? suggested();
const mostColumns = () => Math.max(1, Math.min(chosen().length - 1, Number(state.most) || 15));
const asked = () => ({ table: state.table, variables: chosen(), most_columns: mostColumns() });
const key = () => JSON.stringify([known.session.version, asked()]);

function suggested() {
  return columns().filter((one) => one.can_be_quasi && one.distinct > 1 && one.distinct <= MOST_VALUES).slice(0, MOST_SUGGESTED).map((one) => one.name);
}

export function show(body) {
  const place = el("div", {});
  const results = el("div", {});
  const start = { button: null };
  body.replaceChildren(variables(place, results, start), place, results);
  if (computed.has(key())) draw(results);
  else estimate(place, results, start);
}

function variables(place, results, start) {
  const estimated = el("p", { class: "hint", role: "status" });
  start.button = el("button", { type: "button", class: "main", onclick: () => compute(place, results, start) }, "Compute all designs");
  start.said = estimated;
  const changed = () => { results.replaceChildren(); place.replaceChildren(); estimate(place, results, start); };
  const boxes = columns().filter((one) => one.can_be_quasi && one.distinct > 1 && one.distinct <= 1000).map((one) => el("label", { class: "check" },
    el("input", { type: "checkbox", value: one.name, checked: chosen().includes(one.name), onchange: (event) => {
      const names = event.target.checked ? [...chosen(), one.name] : chosen().filter((name) => name !== one.name);
      choose({ variables: names, rows: null, cols: null });
      changed();
    } }), one.name, el("small", { class: "quiet" }, num(one.distinct))));
  const most = field("Most column variables", el("input", { type: "number", min: 1, max: 15, value: state.most, placeholder: "any", onchange: (event) => { choose({ most: event.target.value, rows: null, cols: null }); changed(); } }));
  return el("section", { class: "card" }, el("fieldset", {}, el("legend", {}, "Variables, with their numbers of values"), el("div", { class: "checks" }, ...boxes)),
    el("div", { class: "fields" }, most, el("div", { class: "push row" }, estimated, start.button)));
}

async function estimate(place, results, start) {
  start.button.disabled = true;
  if (chosen().length < 2) {
    start.said.textContent = "Choose two variables or more.";
    return;
  }
  const mine = key();
  start.said.textContent = "Counting …";
  try {
    const found = await ask("estimate", asked());
    if (mine !== key() || !start.button.isConnected) return;
    const time = found.seconds < 1.5 ? "a moment" : `${num(Math.ceil(found.seconds))} s`;
    start.said.textContent = found.is_too_many ? `${num(found.designs)} designs are too many: choose fewer variables or columns.`
      : `${several(found.designs, "design")} of ${several(found.cells, "occupied cell")}: about ${time}.`;
    start.button.disabled = found.is_too_many;
    if (!found.is_too_many && found.seconds < QUICK_SECONDS) compute(place, results, start);
  } catch (error) {
    if (start.button.isConnected) start.said.textContent = error.message;
  }
}

async function compute(place, results, start) {
  start.button.disabled = true;
  const mine = key();
  const found = await worked(place, "Auditing all designs", (tell) => ask("designs", asked(), tell));
  start.button.disabled = Boolean(found);
  if (!found) return;
  computed.set(mine, decoded(found));
  if (mine === key() && results.isConnected) draw(results);
}

/** Designs as objects. */
function decoded({ variables: names, measures, designs }) {
  return designs.map(([rows, cols, ...figures]) => ({ rows: rows.map((i) => names[i]), cols: cols.map((i) => names[i]), ...Object.fromEntries(measures.map((name, i) => [name, figures[i]])) }));
}

const named = (design) => `${design.rows.join(", ")} × ${design.cols.join(", ")}`;
const same = (design) => state.rows && named(design) === named({ rows: state.rows, cols: state.cols ?? [] });

function draw(results) {
  const designs = computed.get(key());
  const counted = el("p", { class: "hint", role: "status" });
  const list = el("ul", { class: "list", "aria-label": "The best designs by these axes, safest first" });
  const below = el("div", {});
  const plot = el("div", {});
  let picture = null;
  const pick = (index) => {
    choose({ rows: designs[index].rows, cols: designs[index].cols });
    filter();
    bounds(below);
  };
  function frame() {
    picture = scatter({ label: `All designs: ${RISKS[state.x]} against ${USES[state.y]}. The best are listed beside it; arrow keys go along them.`, xName: RISKS[state.x], yName: USES[state.y], isShare: state.y === "information", tip: (index) => tip(designs[index]), onpick: pick });
    plot.replaceChildren(picture);
  }
  function filter() {
    const few = state.few === "" ? Infinity : Number(state.few);
    const shown = designs.map((one, index) => ({ x: one[state.x], y: one[state.y], index })).filter(({ index }) => designs[index][state.x] <= few && (!state.across || designs[index].cols.includes(state.across)));
    const best = frontier(shown);
    picture.draw(shown, best, designs.findIndex(same));
    counted.textContent = `${num(shown.length)} of ${several(designs.length, "design")} shown; ${num(best.length)} on the green line: by these axes, none is better in both.`;
    const more = shown.filter((one) => !best.includes(one)).sort((a, b) => a.x - b.x || b.y - a.y).slice(0, Math.max(0, 12 - best.length));
    list.replaceChildren(...[...best.slice(0, MOST_LISTED), ...more].map(({ index }) => item(designs[index], () => pick(index))));
  }
  const axis = (name, values) => select(Object.entries(values), state[name], (value) => { choose({ [name]: value, ...(name === "x" ? { few: "" } : {}) }); frame(); filter(); });
  const controls = el("div", { class: "fields" }, field("Across: what is given away", axis("x", RISKS)), field("Up: what is kept", axis("y", USES)),
    field("At most", el("input", { type: "number", min: 0, value: state.few, placeholder: "any", onchange: (event) => { choose({ few: event.target.value }); filter(); } })),
    field("With this column variable", select([["", "any"], ...chosen().map((one) => [one, one])], state.across, (across) => { choose({ across }); filter(); })));
  results.replaceChildren(el("section", { class: "card", "aria-label": "Designs" }, controls, counted, el("div", { class: "split" }, plot, list)), below,
    table().policy ? nextTables() : note("For a protected table, this screen also tells what could be published beside what is published already."));
  frame();
  filter();
  if (state.rows?.length && designs.some(same)) bounds(below);
  else if (designs.length) below.replaceChildren(note("Choose a design in the picture or in the list: its bounds appear here."));
}

function item(design, onclick) {
  const said = design.disclosed_rows ? `${several(design.disclosed_rows, "row")} and ${several(design.disclosed_small_cells, "small count")} follow` : "nothing follows exactly";
  const alone = design.unit_rows ? `${several(design.unit_rows, "row")} in one column · ` : "";
  return el("li", {}, el("button", { type: "button", onclick, "aria-pressed": String(Boolean(same(design))) },
    `${state.y === "information" ? `keeps ${pct(design.information)}` : `${num(design.dependence)} bits`} · `,
    el("b", { class: design.disclosed_rows ? "alarm" : "safe" }, said), el("small", {}, alone, named(design))));
}

const tip = (design) => [el("div", {}, `rows: ${listed(design.rows)}`), el("div", {}, `columns: ${listed(design.cols)}`),
  el("div", {}, `${several(design.disclosed_small_cells, "small count")} and ${several(design.disclosed_rows, "row")} follow exactly; ${several(design.unit_rows, "row")} in one column`),
  el("div", {}, `keeps ${pct(design.information)}`)];

/** The points that no other one beats in both directions, from left to right. */
function frontier(points) {
  let best = -Infinity;
  return [...points].sort((a, b) => a.x - b.x || b.y - a.y || a.index - b.index).filter((one) => one.y > best + 1e-12 && ((best = one.y), true));
}
