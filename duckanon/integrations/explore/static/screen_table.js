// 1. Table: which one, what it holds, and what the policy says of it.

import { bar, el, grid, listed, note, num, pct, several } from "./dom.js";
import { columns, known, state, table } from "./state.js";
import { chooseTable } from "./main.js";

export const lead = "Choose the table that somebody asks for. Its records stay on this machine.";

export function show(body) {
  const detail = el("div", {});
  body.replaceChildren(...(known.session?.told ?? []).map((one) => note(one)), choice(detail), detail);
  describe(detail);
}

function choice(detail) {
  const rows = known.tables.map((one) => {
    const radio = el("input", { type: "radio", name: "table", value: one.name, checked: one.name === state.table, "aria-label": one.name,
      onchange: async () => { detail.replaceChildren(); await chooseTable(one.name); describe(detail); } });
    return el("tr", { class: "pick", onclick: (event) => { if (event.target !== radio) radio.click(); } },
      el("td", { class: "radio" }, radio), el("th", { scope: "row" }, one.name), el("td", { class: "number" }, num(one.columns.length)),
      el("td", {}, one.policy ? el("span", { class: "tag good" }, "protected") : el("span", { class: "tag" }, one.is_view ? "view" : "no policy")),
      el("td", { class: "number" }, one.budget ? `${one.budget.remaining_exact} of ${one.budget.epsilon_exact}${one.budget.promise ? ` (${one.budget.promise})` : ""}` : "–"));
  });
  const heads = [["Chosen", ""], ["Table", ""], ["Columns", "number"], ["Policy", ""], ["Epsilon left", "number"]];
  return el("section", { class: "card", "aria-label": "Tables" }, el("div", { class: "scroll", tabindex: "0", role: "group", "aria-label": "Tables" }, el("table", {},
    el("thead", {}, el("tr", {}, ...heads.map(([text, kind]) => el("th", { scope: "col", class: kind }, text)))), el("tbody", {}, ...rows))));
}

function describe(detail) {
  if (!known.profile) return;
  const { records } = known.profile;
  const rows = columns().map((one) => [one.name, el("span", { class: "kind" }, one.type),
    one.nulls ? `${num(one.nulls)} (${pct(one.nulls / records)})` : "none", num(one.distinct)]);
  const contents = el("section", { class: "card" }, el("h2", {}, state.table),
    grid(`${several(records, "row")}, ${several(rows.length, "column")}`, [["Column", ""], ["Type", ""], ["NULLs", "number"], ["Distinct values", "number"]], rows));
  const policy = policyCard();
  detail.replaceChildren(...[policy, contents].filter(Boolean));
}

function policyCard() {
  const { policy, budget, label } = table();
  if (!policy) {
    return el("section", { class: "card" }, el("h2", {}, "No policy"),
      el("p", { class: "quiet" }, known.session.is_database
        ? "Nothing limits what is released of this table. The SQL function protect gives it a policy and a budget."
        : "A data file has no policy and no ledger. In a DuckDB database, the SQL function protect gives a table both."));
  }
  const lines = [
    ["Population", policy.population], ["A charge protects", policy.privacy_unit ? `all records of one ${policy.privacy_unit}` : "one record"],
    ["Quasi-identifiers", listed(policy.quasi_identifiers) || "none named"], ["Sensitive", listed(policy.sensitive) || "none named"],
    ["May be counted by", listed(policy.public) || "no column"], ["Never shown", listed(policy.drop) || "no column"],
    ["Least class", `k = ${policy.k}`], ["Small counts", `1 to ${policy.small - 1}`],
  ];
  const published = known.publications.filter((one) => one.of === label).map((one) => one.name);
  lines.push(["Published", listed(published) || "nothing yet"]);
  const spent = Number(budget?.spent_exact ?? 0) / Number(budget?.epsilon_exact ?? 1) || 0;
  return el("section", { class: "card" }, el("h2", {}, "Policy"), el("div", { class: "two" },
    el("dl", {}, ...lines.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])),
    budget ? el("div", {}, el("p", { class: "figure" }, budget.promise ? `${budget.remaining_exact} left` : `epsilon ${budget.remaining_exact} left`),
      el("p", { class: "quiet" }, `${budget.spent_exact} of ${budget.epsilon_exact} is spent.${budget.promise ? ` All answers together: ${budget.promise}. Left: ${budget.left_in_words ?? "see per_query"}.` : ""}`), bar(spent)) : el("p", { class: "quiet" }, "No budget.")));
}
