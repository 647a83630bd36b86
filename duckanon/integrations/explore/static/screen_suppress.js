// 6. Suppressed tables: sensitive cells, the pattern and its costs, what readers still know; cell key beside it.

import { checkedField, el, field, grid, note, num, pct, select, several, wholeFrom } from "./dom.js";
import { ask, printTable } from "./server.js";
import { choose, columns, known, state, table } from "./state.js";
import { worked } from "./work.js";

export const lead = "A table with its totals, in which small cells are suppressed, and as many others as protect them. Beside it the same table with every number changed a little, by cell key.";

// More values make a table that nobody reads.
const [MOST_VALUES, FEW_VALUES] = [1000, 12];
// Smaller tables are computed without being asked to.
const QUICK = { cells: 400, records: 20_000 };
const RULES = { threshold: "few contributors", "p%": "p %: estimates by the second largest", dominance: "dominance of the largest" };
const COSTS = { log: "log(1 + value), as usual", value: "its value", same: "the same for each cell" };
const VIEWS = { published: "Published", true: "True", readers: "What readers know", costs: "Costs", keyed: "Cell key" };
const STATUS = { primary: "sensitive by the rules", secondary: "suppressed to protect sensitive cells", published: "published" };
const FORMS = { csv: "CSV", parquet: "Parquet", excel: "Excel" };
const computed = new Map();

const fit = () => columns().filter((one) => one.can_be_quasi && one.distinct > 1 && one.distinct <= MOST_VALUES);
const suggested = () => fit().filter((one) => one.distinct <= FEW_VALUES).map((one) => one.name);
const down = () => state.down ?? suggested().slice(0, 1);
const right = () => state.right ?? suggested().filter((one) => !down().includes(one)).slice(0, 1);
const rules = () => state.rules ?? ["threshold"];
const numbers = () => table().columns.filter((one) => one.is_number);

/** The choices of suppress, as the server takes them. Throws where there is no table yet. */
export function suppressing() {
  if (!down().length) throw new Error("Choose the rows of a suppressed table first.");
  if (!rules().length) throw new Error("Choose a rule that says which cells are sensitive.");
  const has = (rule) => rules().includes(rule);
  return { table: state.table, rows: down(), cols: right(), value: state.measure || null, rules: rules(), cost: state.cost,
    unit: state.unit?.[0] ?? null, digits: state.measure ? Number(state.decimals || 0) : 0,
    n: has("threshold") ? Number(state.least) : null, p: has("p%") ? state.percent : null, percent: has("dominance") ? state.share : null };
}

const asked = () => ({ ...suppressing(), max_deviation: Number(state.deviation), variance: Number(state.variance) });
const key = () => JSON.stringify([known.session.version, asked()]);

export function suppressedNamed() {
  return down().length ? [down(), right()].filter((one) => one.length).map((one) => one.join(", ")).join(" × ") : "none chosen";
}

export function show(body) {
  const place = el("div", {});
  const results = el("div", {});
  const options = el("div", {});
  const changed = (change) => {
    choose(change);
    results.replaceChildren();
    place.replaceChildren();
    options.replaceChildren(inputs(changed, () => compute(place, results, options)));
    begin(place, results, options, false);
  };
  options.append(inputs(changed, () => compute(place, results, options)));
  body.replaceChildren(options, place, results);
  begin(place, results, options, true);
}

/** Draws what is known already, or computes it where that is quick. */
function begin(place, results, options, first) {
  if (!down().length || !rules().length) {
    place.replaceChildren(note(down().length ? "Choose a rule that says which cells are sensitive." : "Choose the rows of the table."));
    return;
  }
  const size = [...down(), ...right()].reduce((cells, name) => cells * (1 + (columns().find((one) => one.name === name)?.distinct ?? 1)), 1);
  if (computed.has(key())) draw(results);
  else if (size <= QUICK.cells && known.profile.records <= QUICK.records && (first || !state.measure)) compute(place, results, options);
}

function inputs(changed, start) {
  const button = el("button", { type: "button", class: "main", disabled: !down().length || !rules().length, onclick: start }, "Suppress");
  const measure = numbers().find((one) => one.name === state.measure);
  const values = [["", "numbers of records"], ...numbers().map((one) => [one.name, `sums of ${one.name}`])];
  const fields = [field("Cells hold", select(values, state.measure, (name) => changed({ measure: name, ...(name ? {} : { rules: ["threshold"], decimals: "" }) })))];
  if (measure && !/INT/.test(measure.type)) fields.push(checkedField("Decimals", { value: state.decimals || "0" }, wholeFrom(0, 9), (decimals) => changed({ decimals })));
  fields.push(field("Suppressing a cell costs", select(Object.entries(COSTS), state.cost, (cost) => changed({ cost }))));
  return el("section", { class: "card", "aria-label": "The table" },
    axis("Rows, the widest first", "down", down(), right(), changed), axis("Columns, the widest first", "right", right(), down(), changed),
    el("div", { class: "fields" }, ...fields), ruleFields(Boolean(measure || state.unit?.length), changed),
    el("fieldset", { class: "below" }, el("legend", {}, "Cell key beside it"), el("div", { class: "fields" },
      checkedField("Largest change", { value: state.deviation }, wholeFrom(1, 100), (deviation) => changed({ deviation })),
      checkedField("Variance", { value: state.variance }, wholeFrom(1, 400), (variance) => changed({ variance })), el("span", { class: "push" }, button))));
}

/** The columns of rows or of columns: they are a hierarchy in the order in which they are chosen. */
function axis(legend, name, chosen, others, changed) {
  const boxes = fit().map((one) => el("label", { class: "check" }, el("input", { type: "checkbox", value: one.name, checked: chosen.includes(one.name), onchange: (event) => {
    const own = event.target.checked ? [...chosen, one.name] : chosen.filter((other) => other !== one.name);
    const left = others.filter((other) => other !== one.name);
    changed(name === "down" ? { down: own, right: left } : { right: own, down: left });
  } }), one.name, el("small", { class: "quiet" }, chosen.length > 1 && chosen.includes(one.name) ? `level ${chosen.indexOf(one.name) + 1}` : num(one.distinct))));
  return el("fieldset", { class: "axis" }, el("legend", {}, legend), el("div", { class: "checks" }, ...boxes));
}

/** The rules with their numbers. contributions: whether p% and dominance have what they need. */
function ruleFields(contributions, changed) {
  const percent = (text) => (/^\d+([.]\d+)?$/.test(text) && Number(text) > 0 && Number(text) <= 100 ? null : "A number above 0, at most 100.");
  const boxes = Object.entries(RULES).filter(([rule]) => rule === "threshold" || contributions).map(([rule, label]) => el("label", { class: "check" },
    el("input", { type: "checkbox", value: rule, checked: rules().includes(rule), onchange: (event) =>
      changed({ rules: Object.keys(RULES).filter((one) => (one === rule ? event.target.checked : rules().includes(one))) }) }), label));
  const fields = [];
  if (rules().includes("threshold")) fields.push(checkedField("Fewer contributors than", { value: state.least }, wholeFrom(2, 1_000_000), (least) => changed({ least })));
  if (rules().includes("p%")) fields.push(checkedField("p", { value: state.percent }, percent, (value) => changed({ percent: value })));
  if (rules().includes("dominance")) fields.push(checkedField("More of the cell than, in %", { value: state.share }, percent, (share) => changed({ share })));
  const whose = state.unit?.length ? ` A contributor is a value of ${state.unit[0]}.` : "";
  return el("fieldset", { class: "below" }, el("legend", {}, "Sensitive are cells with"), el("div", { class: "checks" }, ...boxes), el("div", { class: "fields below" }, ...fields),
    contributions ? el("p", { class: "hint" }, whose || " ") : el("p", { class: "hint" }, "p % and dominance are for sums."));
}

async function compute(place, results, options) {
  const button = options.querySelector("button.main");
  button.disabled = true;
  const mine = key();
  const found = await worked(place, "Suppressing", (tell) => ask("suppressed", asked(), tell));
  button.disabled = false;
  if (!found || !results.isConnected) return;
  computed.set(mine, found);
  if (mine === key()) draw(results);
}

function draw(results) {
  const found = computed.get(key());
  const cells = el("section", { class: "card", "aria-label": "Cells of the table" });
  drawCells(cells, found);
  results.replaceChildren(beside(found), cells, print());
}

/** What suppression and cell key each do to the table. */
function beside({ suppression: one, cell_key: keyed }) {
  const cost = { log: "log(1 + value), added up", value: "in values of the cells", same: "cells" }[state.cost];
  const gone = one.primary + one.secondary;
  const said = one.primary ? `${several(one.primary, "cell is sensitive", "cells are sensitive")}, and ${several(one.secondary, "more is", "more are")} suppressed to protect ${one.primary === 1 ? "it" : "them"}.` : "No cell is sensitive: the whole table can be shown.";
  const largest = num(keyed.most);
  return el("section", { class: "card", "aria-label": "Suppression beside cell key" }, el("p", { class: `figure ${one.primary ? "alarm" : "safe"}` }, said),
    grid(`${several(one.occupied, "cell")} of ${num(one.cells)} hold something. Cell key is drawn for this look, with keys that are then forgotten.`, [["", ""], ["Suppression", ""], ["Cell key", ""]], [
      ["Shown as they are", num(one.occupied - gone), num(one.occupied - keyed.changed)],
      ["Not shown, or changed", `${num(gone)} hidden, with ${pct(one.hidden)} of all that is counted`, `${num(keyed.changed)} changed, by ${num(keyed.mean)} on average over all and ${largest} at most`],
      ["Totals", "true where shown, and they add up", "each changed by itself: parts do not add up to them"],
      ["Cost of the cells suppressed beside", `${num(one.cost)} (${cost})`, "–"],
      ["Further tables", "must be protected together with this one", "the same cell has the same change in every table"]], { class: "beside" }));
}

function drawCells(card, found) {
  const toggle = el("div", { class: "toggle", role: "group", "aria-label": "What cells show" }, ...Object.entries(VIEWS).map(([view, label]) =>
    el("button", { type: "button", "aria-pressed": String(state.cells === view), onclick: () => { choose({ cells: view }); drawCells(card, found); card.querySelector("[aria-pressed=true]").focus(); } }, label)));
  const head = el("tr", {}, el("th", { scope: "col" }, suppressedNamed()), ...found.cols.map((one) => el("th", { scope: "col" }, label(one))));
  const rows = found.cells.map((line, r) => el("tr", { class: found.rows[r].length < down().length ? "total" : "" },
    el("th", { scope: "row", class: `deep${Math.max(0, found.rows[r].length - 1)}` }, label(found.rows[r])), ...line.map(cell)));
  const part = found.row_count > found.rows.length || found.col_count > found.cols.length
    ? ` Shown are the first ${num(found.rows.length)} of ${several(found.row_count, "row")} and ${num(found.cols.length)} of ${several(found.col_count, "column")}.` : "";
  card.replaceChildren(el("div", { class: "row" }, el("h2", {}, "Cells"), el("span", { class: "push" }, toggle)),
    el("p", { class: "legend" }, ...["primary", "secondary"].map((kind) => el("span", {}, el("i", { class: kind }), STATUS[kind]))),
    el("div", { class: "scroll tall", tabindex: "0", role: "group", "aria-label": "Cells" }, el("table", { class: "heat" },
      el("caption", {}, SAID[state.cells], part), el("thead", {}, head), el("tbody", {}, ...rows))));
}

const SAID = {
  published: "What everybody sees: x is suppressed, zeros are published.",
  true: "The true numbers, before anything is suppressed. These are not for publication.",
  readers: "Between which numbers readers know a suppressed cell to be, from totals and other cells. Not for publication.",
  costs: "What suppressing each cell would cost. The pattern is the cheapest that was found.",
  keyed: "The table by cell key, with the change of each number. The changes are not for publication.",
};

const label = (values) => (values.length ? values.at(-1) ?? "NULL" : "Total");

function cell([status, value, cost, keyed, ends]) {
  const open = ends && (ends[1] === null ? `${num(ends[0])} or more` : `${num(ends[0])} to ${num(ends[1])}`);
  const change = keyed - value;
  const shown = {
    published: status === "published" ? num(value) : "x",
    true: num(value),
    readers: status === "published" ? num(value) : open ?? "not computed",
    costs: value === 0 ? "" : num(cost),
    keyed: change ? `${num(keyed)} (${change > 0 ? "+" : "−"}${num(Math.abs(change))})` : num(keyed),
  }[state.cells] ?? num(value);
  return el("td", { class: status === "published" ? "" : status, title: `${STATUS[status]}${open ? `; readers know: ${open}` : ""}` }, shown);
}

/** The table as a file, as an office prints it. */
function print() {
  const place = el("div", { "aria-live": "polite" });
  const buttons = Object.entries(FORMS).map(([form, name]) => el("button", { type: "button", onclick: async () => {
    const made = await worked(place, `Writing ${name}`, (tell) => printTable({ ...suppressing(), form }, tell));
    if (!made) return;
    const link = el("a", { class: "button", href: "printed", download: made.name }, `Save ${made.name}`);
    place.replaceChildren(el("p", {}, link));
    link.click();
  } }, name));
  return el("section", { class: "card", "aria-label": "For print" }, el("div", { class: "row" }, el("h2", {}, "For print"), el("span", { class: "push row" }, ...buttons)),
    el("p", { class: "quiet" }, "As an office prints it: one line for each row, totals by name, x for suppressed cells, and nothing that is not for publication. This saves a file. The last step makes the release, which is audited with all that is published."), place);
}
