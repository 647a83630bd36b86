// 8. Release: as SQL, as a dbt model and as a command; or now, after a confirmation that names everything.

import { checkedField, el, epsilonNumber, field, listed, note, num, select, several, wholeFrom } from "./dom.js";
import { confirm, plan, session, writeReport } from "./server.js";
import { choose, columns, generalised, known, state, table } from "./state.js";
import { readTables } from "./main.js";
import { suppressedNamed, suppressing } from "./screen_suppress.js";
import { worked } from "./work.js";

export const lead = "Take the release along as text, or make it now. Nothing is written before you confirm.";

export function show(body) {
  const options = el("div", {});
  const texts = el("section", { class: "card", "aria-label": "The release as text" });
  const outcome = el("div", { "aria-live": "polite" });
  const redraw = () => { options.replaceChildren(details(redraw)); outcome.replaceChildren(); prepare(texts, outcome); };
  body.replaceChildren(kinds(redraw), options, texts, outcome);
  redraw();
}

function kinds(changed) {
  const all = [["copy", "A k-anonymous copy", `k = ${state.k} by ${listed(state.quasi ?? []) || "no column yet"}`],
    ["shares", "A table of shares", state.rows?.length ? `${listed(state.rows)} × ${listed(state.cols)}` : "choose a design in step 4"],
    ["suppressed", "A suppressed table", suppressedNamed()],
    ["sizes", "Group sizes with noise", "costs epsilon"]];
  return el("section", { class: "card" }, el("fieldset", {}, el("legend", {}, "What to release"), el("div", { class: "options" }, ...all.map(([kind, title, small]) => el("label", { class: "option" },
    el("input", { type: "radio", name: "kind", value: kind, checked: state.kind === kind, onchange: () => { choose({ kind }); changed(); } }), el("b", {}, title), el("small", {}, small))))));
}

function details(changed) {
  const set = (change) => { choose(change); changed(); };
  if (state.kind === "shares") {
    return el("section", { class: "card" }, field("Shares are", select([["", "exact"], ["3", "rounded to 3 decimals"], ["2", "rounded to 2 decimals"]], state.digits, (digits) => set({ digits }))));
  }
  if (state.kind !== "sizes") return el("span", { hidden: true });
  const names = columns().map((one) => [one.name, one.name]);
  const regions = columns().filter((one) => one.name !== group()).map((one) => el("label", { class: "check" }, el("input", { type: "checkbox", checked: (state.hierarchy ?? policyRegions()).includes(one.name), onchange: (event) => {
    const now = (state.hierarchy ?? policyRegions()).filter((name) => name !== one.name);
    set({ hierarchy: event.target.checked ? [...now, one.name] : now });
  } }), one.name));
  return el("section", { class: "card" }, el("div", { class: "fields" },
    field("Column that identifies a group", select([["", "choose"], ...names], group(), (value) => set({ group: value }))),
    checkedField("Largest size of its own", { value: state.maxSize }, wholeFrom(1, 1000), (maxSize) => set({ maxSize })),
    checkedField("Epsilon", { value: state.releaseEpsilon }, epsilonNumber, (releaseEpsilon) => set({ releaseEpsilon }))),
    el("fieldset", { class: "below" }, el("legend", {}, "Regions, the widest first"), el("div", { class: "checks" }, ...regions)));
}

const policyRegions = () => table().policy?.hierarchy ?? [];
const group = () => state.group || table().policy?.unit || "";

function choices() {
  if (state.kind === "copy") {
    if (!state.quasi?.length) throw new Error("Choose a quasi-identifier among the variables first.");
    return { ...generalised(), k: Number(state.k) };
  }
  if (state.kind === "shares") {
    if (!state.rows?.length || !state.cols?.length) throw new Error("Choose a design in step 4 first.");
    return { table: state.table, rows: state.rows, cols: state.cols, digits: state.digits ? Number(state.digits) : null };
  }
  if (state.kind === "suppressed") return suppressing();
  if (!group()) throw new Error("Choose the column that identifies a group, a household say.");
  const hierarchy = (state.hierarchy ?? policyRegions()).filter((one) => one !== group());
  return { table: state.table, unit: group(), hierarchy, epsilon: state.releaseEpsilon, max_size: Number(state.maxSize), person: table().policy?.privacy_unit ?? null };
}

async function prepare(card, outcome) {
  const mine = (card.mine = Symbol("plan"));
  let found;
  try {
    found = await plan(state.kind, choices());
  } catch (error) {
    if (card.mine === mine) card.replaceChildren(note(error.message, "warn"));
    return;
  }
  if (card.mine !== mine) return;
  const texts = [["SQL", found.sql], ["dbt model", found.dbt], ["Command line", found.command]];
  const code = el("pre", { tabindex: "0", id: "text", role: "tabpanel" }, found.sql);
  const tabs = texts.map(([name, text], i) => el("button", { type: "button", role: "tab", "aria-selected": String(i === 0), "aria-controls": "text", onclick: (event) => {
    code.textContent = text;
    for (const one of tabs) one.setAttribute("aria-selected", String(one === event.target));
  } }, name));
  const copied = el("span", { class: "quiet", role: "status" });
  const copy = el("button", { type: "button", onclick: async () => {
    try { await navigator.clipboard.writeText(code.textContent); copied.textContent = "Copied."; } catch { copied.textContent = "Select the text to copy it."; }
  } }, "Copy");
  const release = el("button", { type: "button", class: "main", onclick: () => ask(found, outcome, card) }, "Release …");
  card.replaceChildren(el("div", { class: "row" }, el("div", { class: "toggle", role: "tablist", "aria-label": "Form" }, ...tabs), copied, el("span", { class: "push row" }, copy, release)), code);
}

function ask(found, outcome, card) {
  const lines = [["From", found.source], [known.session.is_database ? "Makes the table" : "Writes the new file", found.target],
    ["Costs", found.epsilon === null ? "no epsilon" : `epsilon ${found.epsilon}, exactly`]];
  if (found.left !== null) lines.push(["Budget", `${found.left} is left; ${found.after} will remain`]);
  else if (found.epsilon !== null) lines.push(["Budget", "none: this table has no policy"]);
  const copy = found.facts;
  if (copy) lines.push(...copied(copy));
  lines.push(["Analysts", found.publishes ? "will read it, if it passes the audit together with all that is published" : "do not get it by this"]);
  const name = found.publishes ? "Release and publish" : "Release";
  const twice = copy && copy.l === null ? unprotected(copy) : null;
  const warning = el("div", { role: "alert" });
  const release = el("button", { type: "button", class: "main", onclick: () => {
    if (twice && !warning.hasChildNodes()) {
      warning.append(note(twice, "warn"));
      release.textContent = `${name} all the same`;
      return;
    }
    dialog.close();
    make(found, outcome, card);
  } }, name);
  const dialog = el("dialog", { "aria-labelledby": "sure" }, el("h2", { id: "sure" }, "Release this?"), el("dl", {}, ...lines.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)])),
    warning, el("div", { class: "row" }, el("button", { type: "button", onclick: () => dialog.close() }, "Not now"), release));
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

/** What is to be known of a copy before it is released. */
function copied(copy) {
  const unit = copy.unit ? `values of ${copy.unit}` : "records";
  return [["k", `${num(copy.k)}: each class has so many ${unit} or more`],
    ["l", copy.l === null ? "1: a class may agree on a value that is let out" : `${copy.l}: so many different values of ${listed(copy.sensitive)} in each class`],
    ...(copy.t === null ? [] : [["t", String(copy.t)]]),
    ["Let out as they are", copy.copied.length ? listed(copy.copied) : "no column"],
    ["Find a record", copy.identifying.length ? `${listed(copy.identifying)}: almost every record has a value of its own there, or few share one. Leave such columns out` : "none of these columns does by itself"]];
}

function unprotected(copy) {
  return copy.sensitive.length
    ? `Nothing protects ${listed(copy.sensitive)}: where a class agrees on a value, it is known of everybody in the class, without finding the record. Choose l = 2 or more in step 3, or release it all the same.`
    : copy.copied.length
      ? `No column is marked as sensitive, and ${listed(copy.copied)} ${copy.copied.length > 1 ? "are" : "is"} let out as ${copy.copied.length > 1 ? "they are" : "it is"}: where a class agrees on a value, it is known of everybody in the class. Mark sensitive columns in step 2, or release it all the same.`
      : null;
}

async function make(found, outcome, card) {
  card.hidden = true;
  const made = await worked(outcome, "Releasing", (tell) => confirm(found.nonce, tell), { final: true });
  card.hidden = false;
  known.session = await session();
  await readTables();
  if (!made) {
    prepare(card, outcome);
    return;
  }
  const budget = table()?.budget;
  const facts = [`${made.target} has ${several(made.rows, "row")}.`, made.said, budget ? `${budget.remaining_exact} of ${budget.promise ? "" : "epsilon "}${budget.epsilon_exact} is left.` : null].filter(Boolean);
  outcome.replaceChildren(el("div", { class: "note good", role: "status" }, el("b", {}, "Released. "), facts.join(" ")), known.session.is_database ? report() : el("span", {}));
  card.replaceChildren(el("p", { class: "quiet" }, "This release is made. Choose what to release, for another one."));
}

function report() {
  const place = el("div", {});
  const button = el("button", { type: "button", class: "main", onclick: async () => {
    button.disabled = true;
    const made = await worked(place, "Writing the report", (tell) => writeReport(tell));
    button.disabled = false;
    if (made) place.replaceChildren(note(`The report has ${num(Math.round(made.bytes / 1000))} kB, and holds this release.`, "good"), el("a", { class: "button", href: "report", download: "" }, "Download the report"));
  } }, "Add it to the report");
  return el("section", { class: "card" }, el("h2", {}, "The privacy report"), el("p", { class: "quiet" }, "One page for the person who approves releases: policies, releases, budgets and risks, with this release among them."), el("p", {}, button), place);
}
