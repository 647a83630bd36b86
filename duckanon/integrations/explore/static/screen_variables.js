// 2. Variables: what each column is, and how exposed the records are by the chosen ones.

import { bar, el, listed, note, num, pct, select, several } from "./dom.js";
import { ask } from "./server.js";
import { columns, known, role, setRole, state } from "./state.js";

export const lead = "Say what each column is. Somebody may know the quasi-identifiers of a person, and find the person's record by them.";

const NAMES = { quasi: "Quasi-identifier: generalised", sensitive: "Sensitive: must not be learned", unit: "Unit: whose record it is", dropped: "Left out of the release", other: "Other: copied as it is" };

export function show(body) {
  const exposure = el("section", { class: "card", "aria-label": "Exposure", "aria-live": "polite" });
  body.replaceChildren(exposure, roles(() => expose(exposure)));
  expose(exposure);
}

function roles(changed) {
  const { records } = known.profile;
  const rows = columns().map((one) => {
    const allowed = Object.entries(NAMES).filter(([name]) => name !== "quasi" || one.can_be_quasi);
    const share = records ? one.alone / records : 0;
    const choice = select(allowed, role(one.name), (wanted) => { setRole(one.name, wanted); changed(); refresh(); }, { "aria-label": `Role of ${one.name}`, "data-column": one.name });
    return el("tr", {}, el("th", { scope: "row" }, one.name), el("td", {}, el("span", { class: "kind" }, one.type)), el("td", { class: "number" }, num(one.distinct)),
      el("td", {}, el("div", { class: "row" }, bar(share, share > 0.5), el("span", {}, pct(share)))), el("td", {}, choice),
      el("td", {}, one.role === role(one.name) ? el("span", { class: "hint" }, `suggested: ${one.reason}`) : el("span", { class: "tag on" }, "yours")));
  });
  const heads = [["Column", ""], ["Type", ""], ["Distinct", "number"], ["Records alone by it", ""], ["Role", ""], ["", ""]];
  const card = el("section", { class: "card" }, el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Roles of the columns" }, el("table", { class: "roles" },
    el("thead", {}, el("tr", {}, ...heads.map(([text, kind]) => text ? el("th", { scope: "col", class: kind }, text) : el("td", {})))), el("tbody", {}, ...rows))));
  function refresh() {
    const focused = document.activeElement?.dataset?.column;
    const fresh = roles(changed);
    card.replaceWith(fresh);
    if (focused) [...fresh.querySelectorAll("select")].find((one) => one.dataset.column === focused)?.focus();
  }
  return card;
}

async function expose(place) {
  const qi = state.quasi ?? [];
  if (!qi.length) {
    place.replaceChildren(el("p", { class: "figure" }, "No quasi-identifier yet"), el("p", { class: "quiet" }, "Choose the columns by which somebody could recognise a person."));
    return;
  }
  const asked = JSON.stringify([qi, state.unit]);
  place.dataset.asked = asked;
  try {
    const found = await ask("exposure", { table: state.table, qi, unit: state.unit?.[0] ?? null });
    if (place.dataset.asked !== asked) return;
    const unit = state.unit?.[0];
    const [alone, all, whose] = unit ? [found.units_alone, found.units, `values of ${unit}`] : [found.singletons, found.records, "records"];
    if (found.k === null) {
      place.replaceChildren(el("p", { class: "figure" }, "No records"), el("p", { class: "quiet" }, "The table is empty, so nobody stands alone in it."));
      return;
    }
    const share = all ? alone / all : 0;
    place.replaceChildren(
      el("p", { class: `figure ${alone ? "alarm" : "safe"}` }, alone ? `${num(alone)} of ${num(all)} ${whose} stand alone (${pct(share)})` : `Nobody stands alone: k = ${num(found.k)} as it is`),
      el("p", { class: "quiet" }, `By ${listed(qi)} there are ${several(found.classes, "different combination")}. Whoever knows them finds the most exposed ${unit ? `value of ${unit}` : "record"} with chance ${pct(found.max_risk)}.`));
  } catch (error) {
    if (place.dataset.asked === asked) place.replaceChildren(note(error.message, "warn"));
  }
}
