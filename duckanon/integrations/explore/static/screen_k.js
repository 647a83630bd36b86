// 3. k: what each k costs, how little any release could cost, and the risk that is left.

import { checkedField, el, field, grid, listed, note, num, pct, select, shareOrNone, svg, wholeFrom, widthOrNone } from "./dom.js";
import { ask } from "./server.js";
import { address, choose, columns, generalised, known, KS, state } from "./state.js";
import { worked } from "./work.js";

export const lead = "In a k-anonymous copy every record looks like at least k - 1 others. A larger k is safer and tells less.";

// Tables up to this many rows are computed without being asked to.
const SMALL = 20_000;
// A request has at most 100,000 bytes.
const LONGEST = 80_000;
const CALENDAR = [["", "exact"], ["day", "days"], ["week", "weeks"], ["month", "months"], ["quarter", "quarters"], ["year", "years"]];
const computed = new Map();
const history_ = new Map();

const key = () => JSON.stringify([known.session.version, generalised()]);
const found = () => computed.get(key()) ?? [];

export function show(body) {
  if (!state.quasi?.length) {
    body.replaceChildren(note("Choose a quasi-identifier among the variables first."));
    return;
  }
  const place = el("div", {});
  const picture = el("section", { class: "card", "aria-label": "Loss and risk by k" });
  const button = el("button", { type: "button", class: "main", onclick: () => compute(place, picture, button) }, "Compute every k");
  const hint = el("p", { class: "hint", role: "status" });
  const changed = () => {
    draw(picture);
    button.disabled = complete();
    hint.textContent = promised();
    if (!complete() && known.profile.records <= SMALL) compute(place, picture, button);
  };
  body.replaceChildren(conditions(changed, button, hint), place, picture);
  changed();
}

const wanted = () => [...new Set([...KS, Number(state.k)])].filter((k) => k >= 2 && k <= known.profile.records).sort((a, b) => a - b);
const complete = () => wanted().every((k) => found().some((one) => one.k === k));

async function compute(place, picture, button) {
  button.disabled = true;
  const mine = key();
  const asked = generalised();
  // The chosen k comes first.
  const ks = wanted().sort((a, b) => (b === Number(state.k)) - (a === Number(state.k)) || a - b);
  await worked(place, "Comparing", async (tell, stopped) => {
    for (const [i, k] of ks.entries()) {
      if (stopped() || key() !== mine) return;
      const row = await ask("curve", { ...asked, k }, (told) => tell({ ...told, share: (i + (told.share ?? 0)) / ks.length, step: `k = ${k}` }));
      computed.set(mine, [...(computed.get(mine) ?? []).filter((one) => one.k !== k), row].sort((a, b) => a.k - b.k));
      if (picture.isConnected) draw(picture);
    }
  });
  button.disabled = complete();
}

function conditions(changed, button, hint) {
  const set = (name) => (value) => { choose({ [name]: value }); changed(); };
  const conditioned = state.sensitive?.length;
  const bands = columns().filter((one) => state.quasi.includes(one.name)).map((one) => ({ ...one, ...column(one.name) })).filter((one) => one.is_number || one.is_date)
    .map((one) => {
      const width = (chosen) => { choose({ bands: { ...state.bands, [one.name]: chosen } }); changed(); };
      return one.is_date ? field(`Bands of ${one.name}`, select(CALENDAR, state.bands[one.name] ?? "", width))
        : checkedField(`Bands of ${one.name}`, { placeholder: "exact", value: state.bands[one.name] ?? "" }, widthOrNone, width);
    });
  return el("section", { class: "card", "aria-label": "Conditions" },
    el("div", { class: "fields" },
      field("Method", select([["order", "order: fast"], ["auto", "auto: least loss"]], state.method, (method) => { choose({ method }); changed(); })),
      conditioned ? checkedField(`l: different values of ${listed(state.sensitive)} in a class`, { value: state.l }, wholeFrom(1, 1000), set("l")) : null,
      conditioned ? checkedField("t-closeness", { value: state.t, placeholder: "none" }, shareOrNone, set("t")) : null,
      checkedField("May be dropped", { value: state.suppression, placeholder: "none" }, shareOrNone, set("suppression")), ...bands, el("span", { class: "push" }, button)),
    hint);
}

/** What l promises. */
function promised() {
  const hidden = listed(state.sensitive ?? []);
  if (!hidden) return "With a sensitive variable, l and t limit what a class gives away about it.";
  if (Number(state.l) > 1) return `l = ${state.l}: in no class do all agree on ${hidden}${state.l === "2" ? "; one value may still be common, see Before and after" : ""}.`;
  return `l = 1: nothing keeps a class from agreeing on ${hidden}, which then is known of everybody in it.`;
}

const column = (name) => known.tables.find((one) => one.name === state.table).columns.find((one) => one.name === name);

function draw(card) {
  const rows = found();
  let most = 0;
  // What binds at k binds at every larger k.
  const bound = rows.map((one) => [one.k, (most = Math.max(most, one.lower_bound))]);
  const ks = [...new Set([...KS, Number(state.k)])].sort((a, b) => a - b);
  const slider = el("input", { type: "range", id: "k", min: 0, max: ks.length - 1, step: 1, value: ks.indexOf(Number(state.k)), "aria-valuetext": `k = ${state.k}`,
    oninput: (event) => { choose({ k: String(ks[event.target.value]) }); draw(card); document.getElementById("k").focus(); } });
  const mine = rows.find((one) => one.k === Number(state.k));
  card.replaceChildren(
    el("div", { class: "row" }, el("label", { for: "k", class: "figure" }, `k = ${state.k}`), said(mine, bound)), el("div", { class: "slider" }, slider),
    panel("Information lost", 205, ks, [["this method", "ours", "dot", "ours-text", rows.map((one) => [one.k, one.information_loss])],
      ["least possible", "least", "dot least-dot", "axis", bound]], Math.max(0.01, ...rows.map((one) => one.information_loss)) * 1.08),
    panel("Chance of finding the right record of a person", 145, ks, [["highest", "risk", "dot risk-dot", "risk-text", ks.map((k) => [k, 1 / k])],
      ["average", "ours", "dot", "ours-text", rows.map((one) => [one.k, 1 / one.avg_class])]], 0.54),
    rows.length ? el("details", {}, el("summary", {}, "As a table"), grid("Every k that was computed", [["k", "number"], ["Loss", "number"], ["Least possible", "number"], ["Classes", "number"], ["Highest risk", "number"], ["Dropped", "number"]],
      rows.map((one, i) => [String(one.k), pct(one.information_loss), pct(bound[i][1]), num(one.classes), pct(1 / one.min_class), num(one.suppressed)]))) : el("span", {}),
    tried(mine));
}

/** The settings that were looked at, of the data as they are, as they are kept in a file: the last ones, if they are many. */
export function looked() {
  const all = [...history_].filter(([name]) => name.startsWith(`[${known.session.version},`))
    .map(([, { at, told, row }]) => ({ at, told, row: { k: row.k, information_loss: row.information_loss, min_class: row.min_class, classes: row.classes, suppressed: row.suppressed } }));
  while (all.length > 200 || JSON.stringify(all).length > LONGEST) all.shift();
  return all;
}

/** Takes up the settings of a session that was kept. */
export function lookedBefore(solutions) {
  for (const one of solutions) history_.set(`[${known.session.version},${one.at}`, one);
}

/** All settings that were tried at their k, beside each other, with a way back to each. */
function tried(mine) {
  const name = `${key()} ${state.k}`;
  if (mine && history_.get(name)?.row !== mine) {
    for (const [other, { at }] of history_) if (at === address("k")) history_.delete(other);
    history_.set(name, { at: address("k"), told: settings(), row: mine });
    document.dispatchEvent(new Event("looked"));
  }
  const rows = [...history_.values()].filter((one) => one.at !== address("k") || one.row === mine);
  if (rows.length < 2) return el("span", {});
  return el("details", { open: true }, el("summary", {}, "Settings side by side"), grid("Every setting that was looked at; a name leads back to it", [["Setting", ""], ["k", "number"], ["Loss", "number"], ["Highest risk", "number"], ["Classes", "number"], ["Dropped", "number"]],
    rows.map((one) => [el("a", { href: one.at, "aria-current": one.row === mine ? "true" : null }, one.told), String(one.row.k), pct(one.row.information_loss), pct(1 / one.row.min_class), num(one.row.classes), num(one.row.suppressed)])));
}

function settings() {
  const asked = generalised();
  const parts = [`by ${listed(asked.qi)}`, asked.method];
  if (asked.sensitive.length) parts.push(`l = ${asked.l ?? 1}`);
  if (asked.t) parts.push(`t = ${asked.t}`);
  if (asked.unit) parts.push(`units: ${asked.unit}`);
  for (const [name, width] of Object.entries(asked.bands)) parts.push(`${name} in bands of ${width}`);
  return parts.join(", ");
}

function said(mine, bound) {
  if (!mine) return el("p", { class: "quiet", role: "status" }, "Not computed yet.");
  const least = bound.find(([k]) => k === mine.k)[1];
  return el("p", { class: "quiet", role: "status" },
    `loses ${pct(mine.information_loss)} of the information; no copy loses less than ${pct(least)}. ${num(mine.classes)} classes, highest risk ${pct(1 / mine.min_class)}`
    + (mine.l === null ? "" : `, l = ${mine.l}, t = ${mine.t?.toFixed(2) ?? "–"}`) + (mine.suppressed ? `, ${num(mine.suppressed)} records dropped` : "") + ".");
}

/** Round steps of an axis from 0 to `most`. */
function ticks(most) {
  const power = 10 ** Math.floor(Math.log10(most));
  const step = [0.2, 0.5, 1, 2].map((one) => one * power).find((one) => most / one <= 5);
  return Array.from({ length: Math.floor(most / step) + 1 }, (_, i) => i * step);
}

/** Lines over k. lines: name, class of the line, of its dots and of its name, and points. */
function panel(title, height, ks, lines, most) {
  // A narrow page gets a narrow picture, or its words would be too small to read.
  const [W, L, R, T, B] = [innerWidth < 560 ? 400 : 860, 46, innerWidth < 560 ? 92 : 120, 28, 26];
  // Evenly apart, as on the slider above.
  const x = (k) => L + (ks.indexOf(k) / (ks.length - 1)) * (W - L - R);
  const y = (value) => height - B - (value / most) * (height - B - T);
  const parts = [svg("text", { x: 0, y: 14, class: "now" }, title)];
  for (const value of ticks(most)) {
    parts.push(svg("line", { class: "grid", x1: L, x2: W - R, y1: y(value), y2: y(value) }), svg("text", { x: L - 8, y: y(value) + 4, "text-anchor": "end" }, pct(value)));
  }
  for (const k of ks) parts.push(svg("text", { x: x(k), y: height - 6, "text-anchor": "middle", class: k === Number(state.k) ? "now" : "" }, String(k)));
  parts.push(svg("line", { class: "here", x1: x(Number(state.k)), x2: x(Number(state.k)), y1: T - 6, y2: height - B }));
  const names = [];
  for (const [name, line, dot, label, points] of lines) {
    if (!points.length) continue;
    parts.push(svg("polyline", { class: line, points: points.map(([k, value]) => `${x(k).toFixed(1)},${y(value).toFixed(1)}`).join(" ") }));
    for (const [k, value] of points) parts.push(svg("circle", { class: dot, cx: x(k), cy: y(value), r: 3.4 }));
    names.push({ name, label, at: y(points.at(-1)[1]), x: x(points.at(-1)[0]) });
  }
  // Names at the lines' ends, moved apart where they would cover each other.
  names.sort((a, b) => a.at - b.at).forEach((one, i) => { if (i) one.at = Math.max(one.at, names[i - 1].at + 15); });
  const over = names.length ? Math.max(0, names.at(-1).at - (height - B - 4)) : 0;
  for (const one of names) one.at -= over;
  for (const one of names) parts.push(svg("text", { class: one.label, x: one.x + 9, y: one.at + 4 }, one.name));
  return svg("svg", { class: "chart", viewBox: `0 0 ${W} ${height}`, role: "img", "aria-label": `${title}, by k from ${ks[0]} to ${ks.at(-1)}` }, ...parts);
}
