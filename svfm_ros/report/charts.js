"use strict";
// Charts in pixels of the page: as wide as their card, so that letters have the same size on every screen.

const MARGIN = { left: 44, right: 12, top: 10, bottom: 28 };
const DAY_MS = 86400000;
const TICK_ROOM = 13; // between labels of the vertical axis
const dayOf = (iso) => Date.parse(`${iso}T00:00Z`) / DAY_MS;
const dateOf = (day) => new Date(day * DAY_MS);
const shortDay = (iso) => dateOf(dayOf(iso)).toLocaleDateString("en-GB", { day: "numeric", month: "short", timeZone: "UTC" });

function chart(id, height, [low, high], [bottom, top], margin = MARGIN) {
  const made = document.getElementById(id);
  made.replaceChildren();
  const width = Math.max(made.clientWidth || 0, 240);
  if (document.body.classList.contains("printing")) height *= 0.54; // all of it on two pages
  made.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const X = (v) => margin.left + ((v - low) / (high - low)) * (width - margin.left - margin.right);
  const Y = (v) => height - margin.bottom - ((v - bottom) / (top - bottom)) * (height - margin.top - margin.bottom);
  return { made, X, Y, width, left: X(low), right: X(high), floor: Y(bottom), ceiling: Y(top), low, high };
}

function axes(box, xTicks, yTicks) {
  let last = Infinity;
  for (const [at, text] of yTicks) {
    if (last - box.Y(at) < TICK_ROOM) continue; // letters would cover each other
    last = box.Y(at);
    svg(box.made, "line", { class: "axis", x1: box.left, x2: box.right, y1: box.Y(at), y2: box.Y(at) });
    svg(box.made, "text", { x: box.left - 8, y: box.Y(at) + 4, "text-anchor": "end" }, text);
  }
  svg(box.made, "line", { class: "axis", x1: box.left, x2: box.right, y1: box.floor, y2: box.floor });
  for (const [at, text] of xTicks) svg(box.made, "text", { x: box.X(at), y: box.floor + 18, "text-anchor": "middle" }, text);
}

const polyline = (box, pairs) => pairs.map(([x, y]) => `${box.X(x).toFixed(1)},${box.Y(y).toFixed(1)}`).join(" ");

// A round number at or above the value, with its half also round.
function roundUp(value) {
  const unit = 10 ** Math.floor(Math.log10(Math.max(value, 1e-3)));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].map((n) => n * unit).find((v) => v >= value * 0.999) ?? 10 * unit;
}

// Ticks with as many digits as all of them need, such as 0, 1.5, 3.
function valueTicks(values) {
  const digits = [0, 1, 2].find((n) => values.every((v) => Math.abs(v - v.toFixed(n)) < 1e-9)) ?? 2;
  return values.map((v) => [v, v ? v.toFixed(digits) : "0"]);
}

// Ticks on Mondays or on the first of a month, as many as there is room for.
function dateTicks(first, last, width) {
  const room = Math.max(2, Math.floor(width / 75));
  const days = Array.from({ length: last - first + 1 }, (_, i) => first + i);
  const monthly = days.filter((d) => dateOf(d).getUTCDate() === 1);
  const name = (d, options) => dateOf(d).toLocaleDateString("en-GB", { ...options, timeZone: "UTC" });
  if (last - first > 120 && monthly.length > 1) {
    const every = Math.ceil(monthly.length / room);
    return monthly.filter((_, i) => i % every === 0).map((d) => [d, name(d, { month: "short", year: "2-digit" })]);
  }
  const weekly = days.filter((d) => dateOf(d).getUTCDay() === 1);
  const chosen = last - first < 12 || weekly.length < 2 ? days : weekly;
  const every = Math.ceil(chosen.length / room);
  return chosen.filter((_, i) => i % every === 0).map((d) => [d, name(d, { day: "numeric", month: "short" })]);
}

const middle = (period) => (dayOf(period.first) + dayOf(period.last)) / 2;

// One measure over the periods, with intervals, the person's own baseline as a band and changes of habit as lines.
// Returns false where no period has the measure.
function seriesChart(id, shown, key, { unit, digits = 1, least = 0, ticks = null }) {
  const found = shown.periods.filter((p) => p[key] !== null);
  if (!found.length) return false;
  const first = dayOf(shown.periods[0].first), last = dayOf(shown.periods.at(-1).last);
  const tops = found.map((p) => p[key].high ?? p[key].value);
  const most = Math.max(...tops, shown.baseline?.[key]?.high ?? 0, least);
  const top = ticks ? 1.05 * most : roundUp(most); // given ticks need no round end
  const box = chart(id, 200, [first - 0.5, Math.max(last, first + 1) + 0.5], [0, top]);
  axes(box, dateTicks(first, last, box.right - box.left),
    ticks?.filter(([v]) => v <= top) ?? valueTicks([0, top / 2, top]));
  const usual = shown.baseline?.[key];
  if (usual && usual.low !== null) {
    const [y, bottom] = [box.Y(usual.high), box.Y(usual.low)];
    svg(box.made, "rect", { class: "baseline", x: box.left, width: box.right - box.left, y, height: Math.max(bottom - y, 2) });
  }
  for (const day of shown.changes) {
    const x = box.X(dayOf(day) - 0.5);
    svg(box.made, "line", { class: "change", x1: x, x2: x, y1: box.ceiling, y2: box.floor });
  }
  const size = found.length > 60 ? 2.5 : 4;
  for (const p of found) {
    const x = box.X(middle(p)), e = p[key];
    if (e.low !== null) svg(box.made, "line", { class: "whisker", x1: x, x2: x, y1: box.Y(e.low), y2: box.Y(e.high) });
    const mark = svg(box.made, "circle", { class: p.unusual.includes(key) ? "mark unusual" : "mark", cx: x, cy: box.Y(e.value), r: size });
    const when = p.first === p.last ? shortDay(p.first) : `${shortDay(p.first)} to ${shortDay(p.last)}`;
    svg(mark, "title", {}, `${when}: ${e.value.toFixed(digits + 1)} ${unit}, ${p.walks} walks`);
  }
  return true;
}

// Bars: [label, value or null, tooltip]; null leaves the bar open.
function barChart(id, bars, { digits = 1, dark = () => false, labelEvery = 1 }) {
  const top = roundUp(Math.max(...bars.map((b) => b[1]?.high ?? b[1]?.value ?? 0), 0.1));
  const box = chart(id, 200, [0, bars.length], [0, top]);
  axes(box, bars.map((b, i) => [i + 0.5, b[0]]).filter((_, i) => i % labelEvery === 0), valueTicks([0, top / 2, top]));
  bars.forEach(([name, e], i) => {
    if (e === null || e.value === 0) return;
    const [x, width, y] = [box.X(i + 0.12), box.X(i + 0.88) - box.X(i + 0.12), box.Y(e.value)];
    const bar = svg(box.made, "rect", { class: dark(i) ? "column dark" : "column", x, width, y, height: box.floor - y });
    svg(bar, "title", {}, `${name}: ${e.value.toFixed(digits + 1)}`);
    const mid = box.X(i + 0.5);
    if (e.low != null) svg(box.made, "line", { class: "whisker", x1: mid, x2: mid, y1: box.Y(e.low), y2: box.Y(e.high) });
  });
}
