"use strict";
// Everything shown comes from the JSON in the page; names are written as text, never as markup.
const report = JSON.parse(document.getElementById("content").textContent);
const [x0, y0, x1, y1] = report.bounds;
const state = { hour: 14, start: 0, timer: null };
const byId = (id) => document.getElementById(id);

function svg(parent, kind, attributes = {}, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", kind);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text) made.textContent = text;
  parent.appendChild(made);
  return made;
}

const readable = (name) => name.replaceAll("_", " ");
const percent = (share) => `${Math.round(100 * share)} %`;
const clock = (hour) => `${String(hour).padStart(2, "0")}:00`;
const colourOf = (place) => (place < 0 || place >= report.places.length ? "#e08a00" : report.places[place].colour);
const isNight = (hour) => hour < 6 || hour >= 21;
const hoursApart = (a, b) => Math.min((a - b + 24) % 24, (b - a + 24) % 24);

function lighter(colour) {
  const parts = [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16));
  return `rgb(${parts.map((v) => Math.round(v + (255 - v) * 0.45)).join(",")})`;
}

function unpack(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  return Array.from({ length: bytes.length / 2 }, (_, i) => view.getInt16(2 * i, true));
}

// Whole centimetres, x and y by turns, as the points of a line on the plan: metres from its upper left corner.
function points(centimetres) {
  const made = [];
  for (let i = 0; i < centimetres.length; i += 2) {
    made.push(`${(centimetres[i] / 100 - x0).toFixed(2)},${(y1 - centimetres[i + 1] / 100).toFixed(2)}`);
  }
  return made.join(" ");
}

// The floor plan

function drawPlan() {
  const plan = byId("plan");
  plan.setAttribute("viewBox", `0 0 ${x1 - x0} ${y1 - y0}`);
  if (report.map) {
    const m = report.map;
    const turn = (-m.theta * 180) / Math.PI;
    const place = `translate(${m.x - x0} ${y1 - m.y}) rotate(${turn})`;
    svg(plan, "image", { href: m.picture, x: 0, y: -m.height, width: m.width, height: m.height, transform: place });
  }
  plan.style.setProperty("--faint", Math.min(0.3, 24 / report.drawn.length));
  const walks = svg(plan, "g", { id: "walks" });
  for (const walk of report.drawn) svg(walks, "polyline", { class: "walk", points: points(walk.xy) });
  svg(plan, "g", { id: "paths" });
  svg(plan, "g", { id: "names" });
}

function showForecast() {
  const start = report.starts[state.start];
  const asked = start.hours[state.hour];
  const night = isNight(state.hour);
  const shade = (colour) => (night ? lighter(colour) : colour);
  byId("plan-card").classList.toggle("night", night);
  [...byId("walks").children].forEach((line, i) =>
    line.classList.toggle("near", hoursApart(report.drawn[i].hour, state.hour + 0.5) <= 1));
  const group = byId("paths");
  group.replaceChildren();
  const all = unpack(asked.paths);
  const size = 2 * report.points;
  asked.ends.forEach((end, i) => {
    const line = all.slice(i * size, (i + 1) * size);
    svg(group, "polyline", { class: "path", stroke: shade(colourOf(end)), points: points(line) });
    const [x, y] = line.slice(-2);
    svg(group, "circle", { cx: x / 100 - x0, cy: y1 - y / 100, r: 0.055, fill: shade(colourOf(end)) });
  });
  showNames(start, asked, shade);
}

function showNames(start, asked, shade) {
  const names = byId("names");
  names.replaceChildren();
  const label = (text, x, y, colour, opacity = 1) => {
    const inside = Math.min(Math.max(x, 1.1), x1 - x0 - 1.1);
    svg(names, "text", { class: "name", x: inside, y, fill: shade(colour), opacity }, text);
  };
  report.places.forEach((place, i) => {
    if (i === start.place) return;
    const share = asked.shares[i];
    const y = y1 - place.y - 0.15 - Math.min(place.radius, 0.9);
    label(`${readable(place.name)} ${percent(share)}`, place.x - x0, y, place.colour, share >= 0.01 ? 1 : 0.45);
  });
  const colour = start.place < 0 ? "#2e8b57" : colourOf(start.place);
  const at = { cx: start.x - x0, cy: y1 - start.y, r: 0.17 };
  svg(names, "circle", { ...at, fill: shade(colour), stroke: "#ffffff", "stroke-width": 0.05 });
  label(readable(start.name), at.cx, at.cy + 0.55, colour);
}

// Beside it

function drawBars() {
  const names = [...report.places.map((p) => p.name), report.elsewhere];
  names.forEach((name, i) => {
    const bar = document.createElement("div");
    bar.className = "bar";
    bar.innerHTML = '<div class="bar-text"><span></span><b></b></div><div class="track"><div class="fill"></div></div>';
    bar.querySelector("span").textContent = readable(name);
    bar.querySelector(".fill").style.background = colourOf(i);
    byId("bars").appendChild(bar);
  });
}

function showBars() {
  const asked = report.starts[state.start].hours[state.hour];
  [...byId("bars").children].forEach((bar, i) => {
    const share = asked.shares[i];
    bar.querySelector("b").textContent = percent(share);
    bar.querySelector(".fill").style.width = `${100 * share}%`;
    bar.hidden = i === report.places.length && share < 0.005;
  });
  byId("entropy").textContent = asked.entropy.toFixed(2);
  byId("rests").textContent = `This forecast rests on ${asked.walks} walks that passed here.`;
  byId("clock").textContent = clock(state.hour);
}

// Charts: a box of pixels with a scale on each side

function chart(id, width, height, [low, high], [bottom, top], margin = { left: 42, right: 14, top: 8, bottom: 26 }) {
  const made = byId(id);
  made.replaceChildren();
  made.setAttribute("viewBox", `0 0 ${width} ${height}`);
  const X = (v) => margin.left + ((v - low) / (high - low)) * (width - margin.left - margin.right);
  const Y = (v) => height - margin.bottom - ((v - bottom) / (top - bottom)) * (height - margin.top - margin.bottom);
  return { made, X, Y, left: X(low), right: X(high), floor: Y(bottom), ceiling: Y(top) };
}

function axes(box, xTicks, yTicks) {
  svg(box.made, "line", { class: "axis", x1: box.left, x2: box.right, y1: box.floor, y2: box.floor });
  for (const [at, text] of xTicks) svg(box.made, "text", { x: box.X(at), y: box.floor + 18, "text-anchor": "middle" }, text);
  for (const [at, text] of yTicks) {
    svg(box.made, "text", { x: box.left - 8, y: box.Y(at) + 4, "text-anchor": "end" }, text);
    svg(box.made, "line", { class: "axis", x1: box.left, x2: box.right, y1: box.Y(at), y2: box.Y(at) });
  }
}

const line = (box, pairs) => pairs.map(([x, y]) => `${box.X(x).toFixed(1)},${box.Y(y).toFixed(1)}`).join(" ");
const hourTicks = (step) => Array.from({ length: 24 / step + 1 }, (_, i) => i * step).map((h) => [h, clock(h)]);
const round = (v) => Math.max(0.5, Math.ceil(v * 2) / 2);

function drawHours() {
  const asked = report.starts[state.start].hours;
  const box = chart("by-hour", 1160, 240, [0, 24], [0, 1], { left: 46, right: 46, top: 8, bottom: 26 });
  const wrapped = [...asked, asked[0]];
  let below = wrapped.map(() => 0);
  asked[0].shares.forEach((_, place) => {
    const above = wrapped.map((a, h) => below[h] + a.shares[place]);
    const outline = [...above.map((v, h) => [h, v]), ...below.map((v, h) => [h, v]).reverse()];
    const area = svg(box.made, "polygon", { points: line(box, outline), fill: colourOf(place), opacity: 0.82 });
    svg(area, "title", {}, readable(report.places[place]?.name ?? report.elsewhere));
    below = above;
  });
  const top = round(Math.max(report.most, ...asked.map((a) => a.entropy)));
  axes(box, hourTicks(3), [[0, "0 %"], [0.5, "50 %"], [1, "100 %"]]);
  for (const v of [0, top / 2, top]) svg(box.made, "text", { x: box.right + 8, y: box.Y(v / top) + 4 }, v.toFixed(2));
  const entropy = line(box, wrapped.map((a, h) => [h, a.entropy / top]));
  svg(box.made, "polyline", { points: entropy, fill: "none", stroke: "#ffffff", "stroke-width": 5, opacity: 0.85 });
  svg(box.made, "polyline", { class: "line", points: entropy });
  svg(box.made, "line", { class: "cursor", id: "hour-cursor", y1: box.ceiling, y2: box.floor });
  box.made.onclick = (event) => {
    const at = box.made.getBoundingClientRect();
    const x = ((event.clientX - at.left) / at.width) * 1160;
    setHour(Math.round(((x - box.left) / (box.right - box.left)) * 24));
  };
  box.made.style.cursor = "pointer";
  return box;
}

function moveCursor() {
  const cursor = byId("hour-cursor");
  cursor.setAttribute("x1", hourBox.X(state.hour));
  cursor.setAttribute("x2", hourBox.X(state.hour));
}

function drawIndex(id, figures, at, ticks, range) {
  const top = round(Math.max(report.most, ...figures.map((f) => f.high ?? f.mean)));
  const box = chart(id, 400, 230, range, [0, top]);
  axes(box, ticks, [0, top / 2, top].map((v) => [v, v.toFixed(2)]));
  const most = box.Y(report.most);
  svg(box.made, "line", { class: "dashed", x1: box.left, x2: box.right, y1: most, y2: most });
  figures.forEach((f, i) => {
    const x = box.X(at(f, i));
    if (f.low !== null) svg(box.made, "line", { class: "whisker", x1: x, x2: x, y1: box.Y(f.low), y2: box.Y(f.high) });
    const dot = svg(box.made, "circle", { class: "mark", cx: x, cy: box.Y(f.mean), r: 4 });
    svg(dot, "title", {}, `${f.at}: ${f.mean.toFixed(2)} nats, ${f.walks} walks`);
  });
}

function drawIndices() {
  const days = report.days;
  const every = Math.max(1, Math.ceil(days.length / 5));
  const ticks = days.map((d, i) => [i, d.at.slice(5)]).filter((_, i) => i % every === 0);
  drawIndex("by-day", days, (_, i) => i, ticks, [-0.5, days.length - 0.5]);
  drawIndex("index-hour", report.hours, (f) => Number(f.at) + 0.5, hourTicks(6), [0, 24]);
}

function drawCalibration() {
  const c = report.calibration;
  if (!c) {
    byId("calibration").remove();
    byId("calibration-text").textContent = "There are too few walks that the model has not learnt from to tell.";
    return;
  }
  const box = chart("calibration", 400, 290, [0, 1], [0, 1]);
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((v) => [v, percent(v)]);
  axes(box, ticks, ticks);
  const band = [...c.regions.map((r, i) => [r, c.high[i]]), ...c.regions.map((r, i) => [r, c.low[i]]).reverse()];
  svg(box.made, "polygon", { class: "band", points: line(box, band) });
  svg(box.made, "polyline", { class: "dashed", points: line(box, [[0, 0], [1, 1]]) });
  svg(box.made, "polyline", { class: "line", points: line(box, c.regions.map((r, i) => [r, c.held[i]])) });
  byId("calibration-text").textContent =
    `Across: how much a region of the forecast claims to hold. Up: how much it held, on ${c.walks} walks the model never ` +
    "saw, with a 95 % interval. On the dashed line claims are true; below it forecasts are too sure, above it not sure enough.";
}

function drawFacts() {
  const interval = report.index.low === null ? "" : ` (${report.index.low.toFixed(2)} to ${report.index.high.toFixed(2)})`;
  const facts = {
    resident: report.resident,
    walks: `${report.walks}, the latest ${report.drawn.length} drawn`,
    days: `${report.first_day} to ${report.last_day}`,
    "time zone": report.time_zone,
    "wandering index": `${report.index.mean.toFixed(2)} nats${interval}`,
    model: report.model_id,
    made: report.made,
  };
  for (const [name, value] of Object.entries(facts)) {
    const term = document.createElement("dt");
    const said = document.createElement("dd");
    term.textContent = name;
    said.textContent = value;
    byId("facts").append(term, said);
  }
}

// What people do

function setHour(hour) {
  state.hour = ((hour % 24) + 24) % 24;
  byId("hour").value = state.hour;
  showForecast();
  showBars();
  moveCursor();
}

function setStart(start) {
  state.start = start;
  hourBox = drawHours();
  setHour(state.hour);
}

function play() {
  const button = byId("play");
  if (state.timer) {
    clearInterval(state.timer);
    state.timer = null;
    button.textContent = "▶";
    return;
  }
  button.textContent = "❚❚";
  state.timer = setInterval(() => setHour(state.hour + 1), 700);
}

function begin() {
  const whose = report.resident === "unknown" ? "Walks" : `Walks of ${report.resident}`;
  document.title = byId("title").textContent = whose;
  byId("subtitle").textContent = `${report.walks} walks, ${report.first_day} to ${report.last_day}. Where they go from here, hour by hour.`;
  byId("most").textContent = report.most.toFixed(2);
  report.starts.forEach((s, i) => byId("start").add(new Option(`${readable(s.name)} (${s.walks} walks)`, i)));
  byId("start").oninput = (event) => setStart(Number(event.target.value));
  byId("hour").oninput = (event) => setHour(Number(event.target.value));
  byId("play").onclick = play;
  drawPlan();
  drawBars();
  drawIndices();
  drawCalibration();
  drawFacts();
  const asked = /hour=(\d+)/.exec(location.hash);
  if (asked) state.hour = Number(asked[1]) % 24;
  setStart(0);
}

let hourBox = null;
begin();
