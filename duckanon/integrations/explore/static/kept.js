// A session that is kept in a file by the user's choice, and taken up again.

import { el, note } from "./dom.js";
import { forgetSession, keepSession } from "./server.js";
import { known, onchange } from "./state.js";
import { looked, lookedBefore } from "./screen_k.js";

const PAUSE = 300;
const place = document.getElementById("kept");
const offer = document.getElementById("offer");
let isKept = false;
let waiting = null;

const name = () => el("b", {}, known.session.keeps_in);
const button = (text, onclick, main = false) => el("button", { type: "button", class: main ? "main" : "", onclick }, text);

/** Does what a button asks for, and tells what went wrong. */
const doing = (work) => async () => {
  try {
    await work();
    draw();
  } catch (error) {
    place.replaceChildren(note(error.message, "warn"), button("Keep this session", keep));
  }
};

const written = async () => {
  await keepSession({ at: location.hash || "#table", solutions: looked() });
  isKept = true;
};
const keep = doing(written);
const forget = doing(async () => {
  clearTimeout(waiting);
  isKept = false;
  await forgetSession();
  offer.hidden = true;
});

function draw() {
  place.replaceChildren(...(isKept
    ? [el("span", {}, "Kept in ", name(), ": what was chosen, and the figures of each setting. No values of the data."), button("Delete it", forget)]
    : [el("span", {}, "What was chosen is forgotten when the page ends. "), button("Keep this session", keep)]));
}

function changed() {
  if (!isKept) return;
  clearTimeout(waiting);
  waiting = setTimeout(keep, PAUSE);
}

/** Offers what was kept before, and keeps what changes, where that is wanted. */
export function beginKeeping() {
  const before = known.session.kept;
  onchange(changed);
  addEventListener("hashchange", changed);
  document.addEventListener("looked", changed);
  draw();
  if (!before) return;
  const goOn = () => { lookedBefore(before.solutions); isKept = true; offer.hidden = true; location.hash = before.at; draw(); };
  offer.replaceChildren(
    el("span", {}, "A session of ", el("time", { datetime: before.when }, new Date(before.when).toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" })), " was kept.",
      before.is_same ? "" : " The data have changed since: figures of its settings are left out."),
    button("Go on there", goOn, true), button("Start anew", () => { offer.hidden = true; }), button("Delete it", forget));
  offer.hidden = false;
}
