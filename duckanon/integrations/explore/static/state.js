// The officer's choices. They live in the address after #, which browsers do not send, so a link leads back to a state.

export const STEPS = ["table", "variables", "k", "designs", "groups", "suppress", "compare", "release"];
export const KS = [2, 3, 5, 7, 10, 15, 20, 30, 50];

const LISTS = ["dropped", "quasi", "sensitive", "unit", "variables", "rows", "cols", "hierarchy", "prepared", "down", "right", "rules"];
const TEXTS = ["table", "k", "method", "l", "t", "suppression", "most", "x", "y", "few", "across", "view", "groups", "regions", "epsilon",
  "rowsPerUnit", "kind", "digits", "group", "maxSize", "releaseEpsilon", "ways", "price",
  "measure", "decimals", "least", "percent", "share", "cost", "deviation", "variance", "cells"];
const DEFAULTS = { k: "5", method: "order", l: "2", t: "", suppression: "", x: "disclosed_small_cells", y: "information", few: "", across: "",
  most: "", view: "bounds", groups: "300,340,160,130,60,20", regions: "4", epsilon: "0.5", rowsPerUnit: "1", kind: "copy", digits: "",
  group: "", maxSize: "8", releaseEpsilon: "0.1", ways: "2", price: "0.1",
  measure: "", decimals: "", least: "5", percent: "10", share: "75", cost: "log", deviation: "5", variance: "2", cells: "published" };

export const state = { step: "table", ...DEFAULTS, table: "", bands: {} };
for (const name of LISTS) state[name] = null;

/** What the server has told: session, tables, and the profile of the chosen table. */
export const known = { session: null, tables: [], publications: [], profile: null };

export function read() {
  const [step, query] = location.hash.slice(1).split("?");
  const given = new URLSearchParams(query ?? "");
  state.step = STEPS.includes(step) ? step : "table";
  for (const name of TEXTS) state[name] = given.get(name) ?? DEFAULTS[name] ?? "";
  for (const name of LISTS) state[name] = given.has(name) ? given.getAll(name).filter((one) => one !== "") : null;
  state.bands = Object.fromEntries(given.getAll("band").map((one) => [one.slice(one.indexOf(":") + 1), one.slice(0, one.indexOf(":"))]));
}

export function address(step = state.step) {
  const query = new URLSearchParams();
  for (const name of TEXTS) if (state[name] !== "" && state[name] !== DEFAULTS[name]) query.set(name, state[name]);
  for (const name of LISTS) if (state[name]) (state[name].length ? state[name] : [""]).forEach((one) => query.append(name, one));
  for (const [column, width] of Object.entries(state.bands)) if (width) query.append("band", `${width}:${column}`);
  const text = query.toString();
  return `#${step}${text ? `?${text}` : ""}`;
}

const listeners = [];
export const onchange = (listener) => listeners.push(listener);

const past = [];

/** Notes new choices, in the address too. remembered: whether undo leads back to what was before. */
export function choose(changes, remembered = true) {
  const before = address();
  Object.assign(state, changes);
  if (remembered && address() !== before) past.push(before);
  history.replaceState(null, "", address());
  listeners.forEach((listener) => listener());
}

export const canUndo = () => past.length > 0;

/** Goes back to what was chosen before the last change. */
export function undo() {
  const before = past.pop();
  if (before !== undefined) location.hash = before;
}

/** Forgets all that belongs to the table that was chosen before. */
export function forgetTable() {
  for (const name of LISTS) state[name] = null;
  Object.assign(state, { bands: {}, across: "", few: "", most: "", group: "", measure: "", decimals: "" });
}

export const table = () => known.tables.find((one) => one.name === state.table);
export const columns = () => known.profile?.columns ?? [];
export const ROLES = ["dropped", "quasi", "sensitive", "unit"];

export function role(column) {
  return ROLES.find((one) => state[one]?.includes(column)) ?? "other";
}

export function setRole(column, wanted) {
  const order = columns().map((one) => one.name);
  const changes = {};
  for (const one of ROLES) {
    // Only one column is the unit.
    const others = one === "unit" && wanted === "unit" ? [] : (state[one] ?? []).filter((name) => name !== column);
    changes[one] = (one === wanted ? [...others, column] : others).sort((a, b) => order.indexOf(a) - order.indexOf(b));
  }
  choose({ ...changes, rows: null, cols: null, variables: null });
}

/** The choices of k_anonymize, as the server takes them. */
export function generalised() {
  // A class in which all agree on a sensitive value gives it away, so l is 2 unless 1 is chosen: then nothing protects it.
  const l = state.sensitive?.length && Number(state.l) > 1 ? Number(state.l) : null;
  const t = state.sensitive?.length && state.t ? state.t : null;
  return { table: state.table, qi: state.quasi ?? [], sensitive: state.sensitive ?? [], dropped: state.dropped ?? [],
    unit: state.unit?.[0] ?? null, method: state.method, l, t, max_suppression: state.suppression || null,
    bands: Object.fromEntries(Object.entries(state.bands).filter(([name, width]) => width && state.quasi?.includes(name))) };
}
