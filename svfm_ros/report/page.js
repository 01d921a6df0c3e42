"use strict";
// The report: everything shown comes from the JSON in the page.
const report = JSON.parse(document.getElementById("content").textContent);
const state = { hour: 14, start: 0, timer: null };
const shown = report.over_time;
const places = report.plan.places;
const placeNames = [...places.map((p) => p.name), report.elsewhere];
const colourOf = (i) => places[i]?.colour ?? ELSEWHERE;
const asked = () => report.starts[state.start].hours[state.hour];
const plan = new FloorPlan(byId("plan"));
let map = null;

// The floor plan and what stands beside it

function readMap() {
  if (!report.plan.map) return;
  const picture = new Image();
  picture.onload = () => {
    map = { ...report.plan.map, drawing: mapDrawing(picture, picture.naturalWidth, picture.naturalHeight) };
    showForecast();
  };
  picture.src = report.plan.map.picture;
}

function showForecast() {
  const start = report.starts[state.start], now = asked();
  const night = isNight(state.hour) && !document.body.classList.contains("printing");
  byId("plan-card").classList.toggle("night", night);
  const all = unpack(now.paths), size = 2 * report.points;
  const [x0, y0, x1, y1] = report.plan.bounds, canvas = byId("plan");
  canvas.style.aspectRatio = `${x1 - x0} / ${y1 - y0}`;
  plan.fit(report.plan.bounds, canvas.clientWidth, canvas.clientHeight, report.plan.turn);
  plan.draw({
    night, map, hour: state.hour, walks: report.plan.walks, places, shares: now.shares, here: start.place, walker: start,
    paths: { lines: now.ends.map((_, i) => all.subarray(i * size, (i + 1) * size)), ends: now.ends, colours: places.map((p) => p.colour) },
  });
  byId("clock").textContent = clock(state.hour);
  const likely = placeNames.map((name, i) => [now.shares[i], name]).sort((a, b) => b[0] - a[0]).slice(0, 3);
  const said = likely.filter(([share]) => share >= 0.01).map(([share, name]) => withShare(name, share)).join(", ");
  canvas.setAttribute("aria-label", `floor plan, forecast from ${readable(start.name)} at ${clock(state.hour)}: ${said}`);
}

function showBars() {
  const now = asked();
  shareBars(byId("bars"), placeNames.map((name, i) => (
    { name, colour: colourOf(i), share: now.shares[i], hidden: i === places.length && now.shares[i] < 0.005 })));
  byId("entropy").textContent = places.length > 1 ? howSure(now.entropy) : "";
  byId("rests").textContent = now.walks
    ? `${counted(now.walks, "recorded walk")} began here within an hour of ${clock(state.hour)}.`
    : `No recorded walk began here within an hour of ${clock(state.hour)}: this forecast comes from other hours.`;
}

// Shares by hour: one column per hour; hours without walks are left open.

function drawHours() {
  const hours = report.starts[state.start].hours;
  const box = chart("by-hour", 240, [0, 24], [0, 1]);
  const every = box.width < 500 ? 6 : 3;
  const ticks = Array.from({ length: 24 / every + 1 }, (_, i) => [i * every, clock(i * every)]);
  axes(box, ticks, [[0, "0 %"], [0.5, "50 %"], [1, "100 %"]]);
  hours.forEach((hour, h) => {
    if (!hour.walks) return;
    let below = 0;
    hour.shares.forEach((share, place) => {
      if (share <= 0) return;
      const [x, width] = [box.X(h + 0.06), box.X(h + 0.94) - box.X(h + 0.06)];
      const y = box.Y(below + share);
      const area = svg(box.made, "rect", { x, width, y, height: box.Y(below) - y, fill: colourOf(place), opacity: 0.85 });
      svg(area, "title", {}, `${clock(h)}: ${withShare(placeNames[place], share)}, ${counted(hour.walks, "walk")}`);
      below += share;
    });
  });
  svg(box.made, "rect", { class: "cursor", id: "hour-cursor", y: box.ceiling - 3, height: box.floor - box.ceiling + 6,
    width: box.X(1) - box.X(0) });
  box.made.onclick = (event) => {
    const at = box.made.getBoundingClientRect();
    const x = ((event.clientX - at.left) / at.width) * box.width;
    setHour(Math.floor(((x - box.left) / (box.right - box.left)) * 24));
  };
  hourBox = box;
  moveCursor();
}

const moveCursor = () => byId("hour-cursor").setAttribute("x", hourBox.X(state.hour));

// Over time

function drawOverTime() {
  const choices = [[0, "1 place"], ...[2, 3, 4, 6, 10].map((n) => [Math.log(n), `${n}`])];
  const wanted = {
    "walks-per-day": ["walks_per_day", { unit: "walks a day", least: 2 }],
    "night-walks": ["night_walks", { unit: "night walks", least: 2 }],
    speed: ["speed_m_s", { unit: "m/s", digits: 2, least: 1 }],
    index: ["index", { unit: "nats", digits: 2, least: Math.log(Math.max(places.length + 1, 2)), ticks: choices }],
    unfamiliar: ["unfamiliar", { unit: "", digits: 2, least: 0.2, ticks: [[0, "0 %"], [0.1, "10 %"], [0.2, "20 %"], [0.5, "50 %"], [1, "100 %"]] }],
  };
  for (const [id, [key, options]] of Object.entries(wanted)) {
    if (!seriesChart(id, shown, key, options)) byId(id).closest(".card").hidden = true;
  }
  const days = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];
  barChart("weekdays", shown.weekdays.map((e, i) => [days[i], e]), {});
  barChart("hours", shown.hours.map((v, h) => [clock(h), { value: v }]),
    { digits: 2, labelEvery: byId("hours").clientWidth < 420 ? 6 : 3, dark: (h) => h < 6 || h >= 22 });
}

function drawCalibration() {
  const c = report.calibration;
  if (!c) {
    byId("calibration").remove();
    byId("calibration-text").textContent = "There are too few walks that the model did not learn from to tell.";
    return;
  }
  const box = chart("calibration", 330, [0, 1], [0, 1], { ...MARGIN, left: 52 });
  const ticks = [0, 0.25, 0.5, 0.75, 1].map((v) => [v, percent(v)]);
  axes(box, ticks, ticks);
  const band = [...c.regions.map((r, i) => [r, c.high[i]]), ...c.regions.map((r, i) => [r, c.low[i]]).reverse()];
  svg(box.made, "polygon", { class: "band", points: polyline(box, band) });
  svg(box.made, "polyline", { class: "dashed", points: polyline(box, [[0, 0], [1, 1]]) });
  svg(box.made, "polyline", { class: "line", points: polyline(box, c.regions.map((r, i) => [r, c.held[i]])) });
  byId("calibration-text").textContent =
    `Across: the probability that a forecast gave to a region. Up: how often the person was really there, on ${c.walks} walks the ` +
    "model did not learn from, with a 95 % interval. On the dashed line, forecasts are right; below it they are too sure.";
}

function drawFacts() {
  for (const [name, value] of Object.entries(report.facts)) {
    const term = document.createElement("dt"), said = document.createElement("dd");
    term.textContent = name;
    said.textContent = value;
    byId("facts").append(term, said);
  }
  for (const text of report.summary) byId("summary").appendChild(document.createElement("li")).textContent = text;
  const usual = shown.baseline;
  byId("legend").textContent =
    `One point for each ${shown.unit}${shown.unit === "day" ? "" : ", the mean of its days"}; lines through points are 95 % intervals. ` +
    (usual ? `Grey band: this person's own baseline, ${shortDay(usual.first)} to ${shortDay(usual.last)}; red points differ from it by more than chance. ` : "") +
    (shown.changes.length ? "Dashed line: habits changed." : "");
}

// Input

function setHour(hour) {
  state.hour = ((hour % 24) + 24) % 24;
  byId("hour").value = state.hour;
  byId("hour").setAttribute("aria-valuetext", clock(state.hour));
  showForecast();
  showBars();
  moveCursor();
}

function setStart(start) {
  state.start = start;
  drawHours();
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

function drawCharts() {
  drawHours();
  drawOverTime();
  drawCalibration();
}

function begin() {
  byId("title").textContent = report.title;
  byId("subtitle").textContent = report.subtitle;
  report.starts.forEach((s, i) => byId("start").add(new Option(`${readable(s.name)} (${counted(s.walks, "walk")})`, i)));
  byId("start").oninput = (event) => setStart(Number(event.target.value));
  byId("hour").oninput = (event) => setHour(Number(event.target.value));
  byId("play").onclick = play;
  readMap();
  drawFacts();
  drawCharts();
  const wanted = /hour=(\d+)/.exec(location.hash);
  if (wanted) state.hour = Number(wanted[1]) % 24;
  setStart(0);
  let width = innerWidth;
  addEventListener("resize", () => {
    if (innerWidth !== width) {
      drawCharts();
      showForecast();
    }
    width = innerWidth;
  });
  // On paper, charts are drawn for the width of an A4 page, so that their letters can be read.
  const printing = (on) => {
    document.body.classList.toggle("printing", on);
    plan.sharpness = on ? 3 : 1;
    drawCharts();
    showForecast();
  };
  addEventListener("beforeprint", () => printing(true));
  addEventListener("afterprint", () => printing(false));
}

let hourBox = null;
begin();
