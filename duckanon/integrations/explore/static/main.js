// The page: the steps at the left, one screen at a time at the right.

import { el, note, num, several } from "./dom.js";
import { ask, session } from "./server.js";
import { address, canUndo, choose, columns, forgetTable, known, onchange, read, ROLES, state, STEPS, table, undo } from "./state.js";
import { beginKeeping } from "./kept.js";
import * as screenTable from "./screen_table.js";
import * as screenVariables from "./screen_variables.js";
import * as screenK from "./screen_k.js";
import * as screenDesigns from "./screen_designs.js";
import * as screenGroups from "./screen_groups.js";
import * as screenSuppress from "./screen_suppress.js";
import * as screenCompare from "./screen_compare.js";
import * as screenRelease from "./screen_release.js";

const SCREENS = { table: screenTable, variables: screenVariables, k: screenK, designs: screenDesigns, groups: screenGroups, suppress: screenSuppress, compare: screenCompare, release: screenRelease };
const TITLES = { table: "Table", variables: "Variables", k: "k", designs: "Table designs", groups: "Group sizes, counts", suppress: "Suppressed tables", compare: "Before and after", release: "Release" };
const screen = document.getElementById("screen");

function status(step) {
  const quasi = state.quasi?.length ?? 0;
  if (step === "table") return known.profile ? `${state.table} · ${several(known.profile.records, "row")}` : "";
  if (step === "variables") return known.profile ? several(quasi, "quasi-identifier") : "";
  if (step === "k") return `k = ${state.k}`;
  if (step === "designs") return state.rows?.length ? `${state.rows.join(", ")} × ${state.cols?.join(", ")}` : "none chosen";
  if (step === "groups") return `simulated, epsilon ${state.epsilon}`;
  if (step === "suppress") return known.profile ? screenSuppress.suppressedNamed() : "";
  if (step === "compare") return "rows side by side";
  return "only what you confirm";
}

function drawSteps() {
  document.getElementById("steps").replaceChildren(...STEPS.map((step, i) => el("li", {},
    el("a", { href: address(step), "aria-current": state.step === step ? "step" : null },
      el("span", { class: "n", "aria-hidden": "true" }, String(i + 1)), el("span", { class: "title" }, TITLES[step]),
      el("span", { class: "status" }, status(step))))));
}

function following(step) {
  const next = STEPS[STEPS.indexOf(step) + 1];
  return next ? el("div", { class: "next" }, el("a", { class: "button main", href: address(next) }, `Next: ${TITLES[next]}`)) : null;
}

let shown = null;

async function show({ focus = false } = {}) {
  const mine = (shown = Symbol(state.step));
  document.title = `${TITLES[state.step]} · duckanon explore`;
  drawSteps();
  const head = [el("h1", {}, TITLES[state.step]), el("p", { class: "lead" }, SCREENS[state.step].lead)];
  const body = el("div", {});
  const foot = el("div", {});
  screen.replaceChildren(...head, body, foot);
  if (focus) screen.focus({ preventScroll: true });
  window.scrollTo(0, 0);
  try {
    if (!known.profile && state.table) await profile();
    if (shown !== mine) return;
    SCREENS[state.step].show(body);
    const after = () => foot.replaceChildren(...[following(state.step)].filter(Boolean));
    after();
    foot.redraw = after;
  } catch (error) {
    body.replaceChildren(note(error.message, "warn"));
  }
  document.body.dataset.shown = state.step;
}

/** Reads the chosen table column by column, and takes the suggested roles where the address names none. */
export async function profile() {
  known.profile = null;
  const wanted = state.table;
  const found = await ask("profile", { table: wanted });
  if (state.table !== wanted) return;
  known.profile = found;
  const names = found.columns.map((one) => one.name);
  const has = ROLES.some((one) => state[one] !== null);
  const roles = {};
  for (const one of ROLES) {
    roles[one] = has ? (state[one] ?? []).filter((name) => names.includes(name)) : found.columns.filter((column) => column.role === one).map((column) => column.name);
  }
  const policy = table()?.policy;
  choose({ ...roles, ...(has || !policy ? {} : { k: String(policy.k) }) }, false);
}

export async function chooseTable(name) {
  forgetTable();
  known.profile = null;
  choose({ table: name });
  await profile();
}

export async function readTables() {
  const found = await ask("tables", {});
  known.tables = found.tables;
  known.publications = found.publications;
}

function follow({ focus }) {
  const before = state.table;
  read();
  if (!known.tables.some((one) => one.name === state.table)) {
    forgetTable();
    state.table = known.tables.find((one) => one.policy)?.name ?? known.tables[0]?.name ?? "";
  }
  if (state.table !== before) known.profile = null;
  document.getElementById("undo").hidden = !canUndo();
  // A link may leave out the roles: then they are those of the profile.
  if (known.profile && ROLES.every((one) => state[one] === null)) {
    choose(Object.fromEntries(ROLES.map((one) => [one, columns().filter((column) => column.role === one).map((column) => column.name)])), false);
  }
  return show({ focus });
}

async function begin() {
  try {
    known.session = await session();
    document.getElementById("file").textContent = known.session.name;
    document.getElementById("mode").textContent = known.session.is_database ? "open for reading only" : "a copy in memory";
    beginKeeping();
    await readTables();
    const back = document.getElementById("undo");
    back.addEventListener("click", undo);
    onchange(() => { drawSteps(); screen.lastElementChild?.redraw?.(); back.hidden = !canUndo(); });
    // The address after # holds the choices, so this link must not change it.
    document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); screen.focus(); });
    addEventListener("hashchange", () => follow({ focus: true }));
    if (!known.tables.length) {
      screen.replaceChildren(el("h1", {}, "No tables"), note("This database has no table or view yet."));
      return;
    }
    await follow({ focus: false });
  } catch (error) {
    screen.replaceChildren(el("h1", {}, "duckanon explore"), note(error.message, "warn"));
  }
  document.body.dataset.ready = num(known.tables.length);
}

begin();
