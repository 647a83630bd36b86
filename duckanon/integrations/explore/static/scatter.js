// A scatter of thousands of points on a canvas: the nearest point is picked, and arrow keys go along the frontier.

import { el, num, pct } from "./dom.js";

const [LEFT, BOTTOM, TOP, RIGHT] = [66, 46, 10, 16];
const NEAR = 22;

/**
 * points: {x, y, index}; x counts something, on a logarithmic scale; y is from 0 to most. Returns the element, with
 * `draw(points, frontier, picked)`.
 */
export function scatter({ label, xName, yName, isShare, tip, onpick }) {
  const canvas = el("canvas", { tabindex: "0", role: "img", "aria-label": label });
  const box = el("div", { class: "tip", hidden: true });
  const root = el("div", { class: "scatter" }, canvas, box);
  let [points, frontier, picked, hover] = [[], [], -1, -1];

  function scale() {
    const { clientWidth: w, clientHeight: h } = canvas;
    const xs = Math.max(1, ...points.map((one) => one.x));
    const ys = isShare ? 1 : Math.max(1e-9, ...points.map((one) => one.y));
    return { w, h, xs, ys, x: (v) => LEFT + (Math.log1p(v) / Math.log1p(xs)) * (w - LEFT - RIGHT), y: (v) => h - BOTTOM - (v / ys) * (h - BOTTOM - TOP) };
  }

  function paint() {
    const { w, h, xs, ys, x, y } = scale();
    if (!w) return;
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue(name).trim();
    canvas.width = w * devicePixelRatio;
    canvas.height = h * devicePixelRatio;
    const g = canvas.getContext("2d");
    g.scale(devicePixelRatio, devicePixelRatio);
    g.font = "12px system-ui, sans-serif";
    g.strokeStyle = color("--line");
    g.fillStyle = color("--quiet");
    g.textAlign = "right";
    for (const part of [0, 0.25, 0.5, 0.75, 1]) {
      line(g, LEFT - 4, y(part * ys), w - RIGHT, y(part * ys));
      g.fillText(isShare ? pct(part) : num(part * ys), LEFT - 10, y(part * ys) + 4);
    }
    g.textAlign = "center";
    let free = -Infinity;
    for (const value of [0, 1, 3, 10, 30, 100, 300, 1000, 3000, 10_000, 100_000, 1e6].filter((one) => one <= xs)) {
      if (x(value) < free) continue;
      g.fillText(num(value), x(value), h - BOTTOM + 18);
      free = x(value) + g.measureText(num(value)).width + 18;
    }
    g.fillStyle = color("--ink");
    g.fillText(`${xName} →  more is given away`, LEFT + (w - LEFT - RIGHT) / 2, h - 6);
    g.save();
    g.translate(13, TOP + (h - BOTTOM - TOP) / 2);
    g.rotate(-Math.PI / 2);
    g.fillText(`${yName} →`, 0, 0);
    g.restore();
    g.fillStyle = color("--accent");
    g.globalAlpha = points.length > 800 ? 0.3 : 0.55;
    for (const one of points) dot(g, x(one.x), y(one.y), 2.7);
    g.globalAlpha = 1;
    g.strokeStyle = g.fillStyle = color("--safe");
    g.lineWidth = 1.6;
    g.beginPath();
    frontier.forEach((one, i) => {
      if (i) g.lineTo(x(one.x), y(frontier[i - 1].y));
      g.lineTo(x(one.x), y(one.y));
    });
    g.stroke();
    for (const one of frontier) dot(g, x(one.x), y(one.y), 4.2);
    g.strokeStyle = color("--ink");
    g.lineWidth = 2;
    for (const index of new Set([hover, picked])) {
      const one = points.find((point) => point.index === index);
      if (one) ring(g, x(one.x), y(one.y), 7);
    }
    const one = points.find((point) => point.index === hover);
    box.hidden = !one;
    if (one) {
      box.replaceChildren(...tip(one.index));
      const [px, py] = [x(one.x), y(one.y)];
      box.style.left = `${Math.max(4, Math.min(px + 14, w - box.offsetWidth - 4))}px`;
      box.style.top = `${py + 14 + box.offsetHeight > h ? py - box.offsetHeight - 14 : py + 14}px`;
    }
  }

  function nearest(event) {
    const at = canvas.getBoundingClientRect();
    const { x, y } = scale();
    let [best, least] = [-1, NEAR ** 2];
    for (const one of points) {
      const far = (x(one.x) - event.clientX + at.x) ** 2 + (y(one.y) - event.clientY + at.y) ** 2;
      if (far < least) [best, least] = [one.index, far];
    }
    return best;
  }

  function moved(index) {
    if (index === hover) return;
    hover = index;
    paint();
  }

  canvas.addEventListener("pointermove", (event) => moved(nearest(event)));
  canvas.addEventListener("pointerleave", () => moved(-1));
  canvas.addEventListener("blur", () => moved(-1));
  canvas.addEventListener("click", (event) => { const index = nearest(event); if (index >= 0) onpick(index); });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
    if (step && frontier.length) {
      const at = frontier.findIndex((one) => one.index === (hover >= 0 ? hover : picked));
      moved(frontier[Math.max(0, Math.min(frontier.length - 1, at + step))].index);
      event.preventDefault();
    } else if ((event.key === "Enter" || event.key === " ") && hover >= 0) {
      onpick(hover);
      event.preventDefault();
    }
  });
  new ResizeObserver(paint).observe(canvas);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paint);
  root.draw = (now, best, chosen) => { [points, frontier, picked] = [now, best, chosen]; paint(); };
  return root;
}

function line(g, x1, y1, x2, y2) {
  g.beginPath();
  g.moveTo(x1, y1);
  g.lineTo(x2, y2);
  g.stroke();
}

function dot(g, x, y, radius) {
  g.beginPath();
  g.arc(x, y, radius, 0, 7);
  g.fill();
}

function ring(g, x, y, radius) {
  g.beginPath();
  g.arc(x, y, radius, 0, 7);
  g.stroke();
}
