"use strict";
// The live page: the latest state arrives in binary frames over a WebSocket and is drawn in the next animation frame.

const WAIT_MS = [250, 500, 1000, 2000]; // before connecting again
const STALE_MS = 3000; // without a pose: the plan fades
const SPEAK_MS = 5000; // between two sentences for screen readers
const TREND_MS = 1000; // between two drawings, unless a figure has changed
const ROOM_M = 2; // shown around the wearer at least
const TURN_AGAIN = 0.05; // radians by which the walls must have turned for the plan to turn
const RATES = [0.5, 1, 2, 4, 8];
const NO_PLACES = "No places are known yet: they are found where several walks have ended.";
const NAMES = { slam_node: "Position", trainer_node: "Learning", forecast_node: "Forecasts", player: "Replay", sim_node: "Simulation" };

const now = { places: [], colours: [], shares: null, walks: [], walksVersion: 0 };
const plan = new FloorPlan(byId("plan"));
let socket = null, tries = 0, received = 0, seen = 0, drawing = false, spoken = ["", -Infinity], trendDrawn = 0, bounds = null, asking = null;

// Frames: sections of one letter, a length and a payload

const text = new TextDecoder();
const read = {
  m(view, bytes) {
    const [resolution, x, y, theta] = [0, 4, 8, 12].map((at) => view.getFloat32(at, true));
    const [columns, rows] = [view.getUint16(16, true), view.getUint16(18, true)];
    const [turn, ...box] = [20, 24, 28, 32, 36].map((at) => view.getFloat32(at, true));
    createImageBitmap(new Blob([bytes.subarray(40)], { type: "image/png" })).then((picture) => {
      now.map = { x, y, theta, width: columns * resolution, height: rows * resolution, drawing: mapDrawing(picture, columns, rows) };
      drawSoon();
    });
    if (now.turn === undefined || Math.abs(turn - now.turn) > TURN_AGAIN) [now.turn, bounds] = [turn, null];
    now.mapBox = box;
  },
  w(view, bytes) {
    const [x, y, theta, hour] = [0, 4, 8, 12].map((at) => view.getFloat32(at, true));
    now.walker = { x, y, theta };
    now.hour = hour;
    now.poseAt = performance.now();
    now.soFar = centimetres(bytes, 16);
  },
  s(view, bytes) { now.scan = centimetres(bytes, 0); },
  a(view, bytes) {
    now.walks = [];
    for (let at = 0; at < bytes.length;) {
      const [hour, count] = [view.getFloat32(at, true), view.getUint16(at + 4, true)];
      now.walks.push({ hour, xy: centimetres(bytes.subarray(at + 6, at + 6 + 4 * count), 0) });
      at += 6 + 4 * count;
    }
    now.walksVersion += 1;
  },
  f(view, bytes) { now.paths = bundle(view, bytes); },
  h(view, bytes) { now.whatIfPaths = bundle(view, bytes); },
  d(view, bytes) {
    const [resolution, x, y, theta] = [0, 4, 8, 12].map((at) => view.getFloat32(at, true));
    const [width, height, count] = [view.getUint16(16, true), view.getUint16(18, true), view.getUint32(20, true)];
    const cells = new Uint32Array(bytes.slice(24, 24 + 4 * count).buffer);
    now.density = { resolution, x, y, theta, width, height, cells, values: bytes.slice(24 + 4 * count, 24 + 5 * count) };
  },
  p(view, bytes) {
    now.places = JSON.parse(text.decode(bytes));
    now.colours = now.places.map((p) => p.colour);
  },
  j(view, bytes) { now.forecast = JSON.parse(text.decode(bytes)); },
  k(view, bytes) { now.whatIf = JSON.parse(text.decode(bytes)); },
  t(view, bytes) { now.trend = new Float32Array(bytes.slice().buffer); },
  n(view, bytes) { now.news = JSON.parse(text.decode(bytes)); },
};

const centimetres = (bytes, from) => new Int16Array(bytes.slice(from, from + 4 * ((bytes.length - from) >> 2)).buffer);

// Steps of signed bytes from a common origin, then the index of the place each path ends at.
function bundle(view, bytes) {
  const [count, points] = [view.getUint16(0, true), view.getUint16(2, true)];
  const [x, y, unit] = [4, 8, 12].map((at) => view.getFloat32(at, true));
  const steps = new Int8Array(bytes.buffer, bytes.byteOffset + 16, 2 * count * points);
  const ends = new Int8Array(bytes.buffer, bytes.byteOffset + 16 + 2 * count * points, count);
  const lines = [];
  for (let i = 0, at = 0; i < count; i += 1) {
    const line = new Float32Array(2 * points);
    let [u, v] = [0, 0];
    for (let k = 0; k < points; k += 1, at += 2) {
      [u, v] = [u + steps[at], v + steps[at + 1]];
      [line[2 * k], line[2 * k + 1]] = [100 * (x + u * unit), 100 * (y + v * unit)];
    }
    lines.push(line);
  }
  return { lines, ends: Array.from(ends) };
}

function take(buffer) {
  const whole = new DataView(buffer);
  for (let at = 0; at < buffer.byteLength;) {
    const [kind, length] = [String.fromCharCode(whole.getUint8(at)), whole.getUint32(at + 1, true)];
    read[kind]?.(new DataView(buffer, at + 5, length), new Uint8Array(buffer, at + 5, length));
    at += 5 + length;
  }
}

// Connection

function connect() {
  const address = new URL("live" + location.search, location.href);
  address.protocol = location.protocol === "https:" ? "wss:" : "ws:";
  socket = new WebSocket(address);
  socket.binaryType = "arraybuffer";
  socket.onopen = () => { [tries, received, seen, bounds] = [0, 0, 0, null]; document.body.dataset.connected = "yes"; };
  socket.onmessage = (event) => {
    take(event.data);
    received += 1;
    drawSoon();
  };
  socket.onclose = (event) => {
    if (event.wasClean) document.body.dataset.connected = "ended"; // and stays so until it is back
    else if (document.body.dataset.connected !== "ended") document.body.dataset.connected = "no";
    byId("line").textContent = document.body.dataset.connected === "ended"
      ? "the program has ended; this page goes on when it is back" : "the connection is lost; trying again …";
    setTimeout(connect, WAIT_MS[Math.min(tries, WAIT_MS.length - 1)]);
    tries += 1;
  };
}

const ask = (question) => socket?.readyState === WebSocket.OPEN && socket.send(JSON.stringify(question));

// Drawing, at most once per animation frame; a hidden page draws nothing and is sent nothing more

function drawSoon() {
  if (drawing) return;
  drawing = true;
  requestAnimationFrame(() => {
    drawing = false;
    show();
    if (received > seen) ask({ seen: (seen = received) });
  });
}

function show() {
  const night = now.hour === undefined ? matchMedia("(prefers-color-scheme: dark)").matches : isNight(now.hour);
  document.body.classList.toggle("night", night);
  const old = now.poseAt !== undefined && performance.now() - now.poseAt > STALE_MS;
  document.body.classList.toggle("stale", old && !now.news?.replay?.paused);
  byId("asleep").hidden = Boolean(now.map || now.walker);
  byId("asleep").textContent = now.news?.line ?? "waiting for the nodes";
  byId("clock").textContent = now.hour === undefined ? "" : clock(now.hour);
  showNews();
  showPlan(night);
  showForecast();
  showWhatIf();
  showTrend();
  speak();
}

// Bounds of the turned plan grow with the map and never shrink, so that the plan does not jump; a wearer outside is in them too.
function planBounds() {
  if (now.mapBox) bounds = joined(bounds ?? now.mapBox, now.mapBox);
  if (!now.walker) return bounds;
  const { x, y } = now.walker, [cos, sin] = [Math.cos(now.turn ?? 0), Math.sin(now.turn ?? 0)];
  const [u, v] = [cos * x + sin * y, cos * y - sin * x];
  const inside = bounds && u > bounds[0] && v > bounds[1] && u < bounds[2] && v < bounds[3];
  return inside ? bounds : joined(bounds ?? [u, v, u, v], [u - ROOM_M, v - ROOM_M, u + ROOM_M, v + ROOM_M]);
}

const joined = (a, b) => [Math.min(a[0], b[0]), Math.min(a[1], b[1]), Math.max(a[2], b[2]), Math.max(a[3], b[3])];

function showPlan(night) {
  const box = planBounds(), canvas = byId("plan");
  if (!box) return;
  canvas.parentElement.style.setProperty("--shape", ((box[2] - box[0]) / (box[3] - box[1])).toFixed(2));
  plan.fit(box, canvas.clientWidth, canvas.clientHeight, now.turn);
  const known = now.forecast?.known, other = otherHour();
  plan.draw({
    night, map: now.map, walks: now.walks, walksVersion: now.walksVersion, hour: now.hour === undefined ? undefined : Math.floor(now.hour),
    density: known ? now.density : null, scan: now.scan, soFar: now.soFar, walker: now.walker,
    paths: known && now.paths ? { ...now.paths, colours: now.colours } : null,
    whatIf: other && now.whatIfPaths ? { ...now.whatIfPaths, colours: now.colours } : null,
    places: now.places, shares: known ? now.forecast.shares : undefined,
  });
  byId("legend-whatif").hidden = !other;
  canvas.setAttribute("aria-label", `floor plan. ${forecastSentence()}`);
}

// The shares at the hour that is asked about, where any differs from those of now by 5 points; else null.
function otherHour() {
  const [f, w] = [now.forecast, now.whatIf];
  if (now.news?.what_if == null || !w?.known) return null;
  return !f?.known || w.shares.some((share, i) => Math.abs(share - (f.shares[i] ?? 0)) >= 0.05) ? w.shares : null;
}

const likeliest = (f) => f.names.map((name, i) => ({ name: readable(name), share: f.shares[i] })).sort((a, b) => b.share - a.share);

function forecastSentence() {
  const f = now.forecast;
  if (!f) return "There is no forecast yet.";
  if (!f.known) return `Where the wearer goes is unknown: ${f.reason || "no recorded walk came near here at about this hour"}.`;
  if (!now.places.length) return NO_PLACES;
  const likely = likeliest(f).filter((row) => row.share >= 0.05);
  return `Most likely ${likely.slice(0, 3).map((row) => withShare(row.name, row.share)).join(", ")}.`;
}

function showForecast() {
  const f = now.forecast, known = Boolean(f?.known);
  const best = known && now.places.length ? likeliest(f)[0] : null;
  byId("likely").firstChild.textContent = best ? best.name : f && !f.known ? "unknown" : "not known yet";
  byId("likely").lastChild.textContent = best ? percent(best.share) : "";
  byId("sure").textContent = sureWords(f);
  byId("unfamiliar-text").textContent = known && f.unfamiliar >= 0.5 ? `This walk follows no recorded habit (${percent(f.unfamiliar)}).` : "";
  const other = otherHour();
  shareBars(byId("bars"), (f?.names ?? []).map((name, i) => ({
    name, colour: now.colours[i] ?? ELSEWHERE, share: known ? f.shares[i] : 0, text: known ? undefined : "?", other: other?.[i],
    hidden: !now.places.length || (i >= now.places.length && known && f.shares[i] < 0.005),
  })));
}

function sureWords(f) {
  if (!f) return "There is no model yet: it is learnt from the first walks.";
  if (!f.known) return forecastSentence();
  return !now.places.length ? NO_PLACES : now.places.length > 1 ? howSure(f.entropy) : "";
}

function showWhatIf() {
  const hour = asking ?? now.news?.what_if ?? null;
  byId("whatif-on").checked = hour !== null;
  byId("whatif-hour").textContent = hour === null ? "off" : clock(hour);
  if (hour !== null && document.activeElement !== byId("hour")) byId("hour").value = hour;
  byId("hour").setAttribute("aria-valuetext", clock(Number(byId("hour").value)));
  byId("whatif-text").textContent = whatIfWords(hour);
}

function whatIfWords(hour) {
  if (hour === null) return "Move the slider to ask where the wearer would go at another hour.";
  if (!now.whatIf?.known) return `At ${clock(hour)}: not known.`;
  if (!otherHour()) return `At ${clock(hour)}: the same as now.`;
  const said = likeliest(now.whatIf).slice(0, 2).filter((row) => row.share >= 0.05).map((row) => withShare(row.name, row.share));
  return `At ${clock(hour)} (dashed): ${said.join(", ")}.`;
}

// Two lines over the data's last minutes, each with its name and its latest value: entropy as a number of places, and unfamiliar.
function showTrend() {
  const rows = [];
  for (let i = 0; i + 2 < (now.trend?.length ?? 0); i += 3) rows.push([now.trend[i] / 60, Math.exp(now.trend[i + 1]), now.trend[i + 2]]);
  byId("trend").closest(".card").hidden = rows.length < 2;
  const f = now.forecast, most = Math.max(3, now.places.length + 1);
  const open = f?.known && f.entropy !== null && now.places.length ? `${Math.exp(f.entropy).toFixed(1)} places` : "unknown";
  const unfamiliar = f?.known ? percent(f.unfamiliar) : "unknown";
  const said = `now as open as a choice of ${open}; unfamiliar walk ${unfamiliar}`;
  if (rows.length < 2 || (said === byId("trend").getAttribute("aria-label") && performance.now() - trendDrawn < TREND_MS)) return;
  trendDrawn = performance.now();
  const first = Math.min(rows[0][0], -0.5), box = chart("trend", 106, [first, 0], [0, 1], { left: 0, right: 0, top: 0, bottom: 16 });
  spark(box, 0, rows.map((r) => [r[0], (r[1] - 1) / (most - 1)]), "as open as a choice of", open);
  spark(box, 45, rows.map((r) => [r[0], r[2]]), "unfamiliar walk", unfamiliar);
  svg(box.made, "text", { x: box.left, y: box.floor + 13 }, minutesAgo(-first));
  svg(box.made, "text", { x: box.right, y: box.floor + 13, "text-anchor": "end" }, "now");
  byId("trend").setAttribute("aria-label", said);
}

const minutesAgo = (minutes) => (minutes >= 1.5 ? `${Math.round(minutes)} minutes ago` : `${Math.round(60 * minutes)} seconds ago`);

// A name, a value, and below them a line of values from 0 to 1; gaps where a value is missing.
function spark(box, top, pairs, name, value) {
  const [low, high] = [top + 40, top + 18];
  svg(box.made, "text", { class: "name", x: box.left, y: top + 12 }, name);
  svg(box.made, "text", { class: "value", x: box.right, y: top + 12, "text-anchor": "end" }, value);
  svg(box.made, "line", { class: "axis", x1: box.left, x2: box.right, y1: low, y2: low });
  let piece = [];
  const finish = () => {
    const points = piece.map(([x, v]) => `${box.X(x).toFixed(1)},${(low - (low - high) * Math.min(Math.max(v, 0), 1)).toFixed(1)}`);
    if (piece.length > 1) {
      const [from, to] = [piece[0][0], piece.at(-1)[0]].map((x) => `${box.X(x).toFixed(1)},${low}`);
      svg(box.made, "polygon", { class: "spark-area", points: [from, ...points, to].join(" ") });
      svg(box.made, "polyline", { class: "spark", points: points.join(" ") });
    }
    piece = [];
  };
  for (const pair of pairs) { if (Number.isFinite(pair[1])) piece.push(pair); else finish(); }
  finish();
}

function showNews() {
  const n = now.news;
  if (!n) return;
  if (document.body.dataset.connected === "yes") byId("line").textContent = n.replay?.paused ? "paused" : n.line;
  byId("caption").textContent = n.caption;
  byId("caption").hidden = !n.caption;
  byId("walks-text").textContent = n.walks;
  byId("problem").textContent = n.problem;
  byId("training").hidden = n.training === null;
  const done = Math.round(100 * (n.training ?? 0));
  byId("training-fill").style.width = `${done}%`;
  byId("training-fill").setAttribute("aria-valuenow", done);
  const shown = n.nodes.filter((node) => node.level > 0 || node.name !== "trainer_node"); // its words are those of the walks
  const said = JSON.stringify(shown);
  if (byId("nodes").dataset.said !== said) {
    byId("nodes").dataset.said = said;
    byId("nodes").replaceChildren(...shown.map((node) => {
      const line = document.createElement("li");
      line.className = ["ok", "warn", "error"][node.level];
      line.textContent = `${NAMES[node.name] ?? readable(node.name)}: ${node.words}`;
      return line;
    }));
  }
  showReplay(n.replay);
}

function showReplay(replay) {
  byId("replay").hidden = !replay;
  if (!replay) return;
  byId("position").style.width = `${(100 * replay.position_s) / Math.max(replay.length_s, 1e-3)}%`;
  byId("replay-text").textContent = replay.words;
  byId("pause").textContent = replay.paused ? "▶" : "❚❚";
  byId("pause").setAttribute("aria-label", replay.paused ? "resume" : "pause");
  const rates = byId("rate");
  if (![...rates.options].some((o) => Number(o.value) === replay.rate)) {
    rates.replaceChildren(...[...new Set([...RATES, replay.rate])].sort((a, b) => a - b).map((r) => new Option(`${r}×`, r)));
  }
  if (document.activeElement !== rates) rates.value = replay.rate;
}

function speak() {
  const said = forecastSentence();
  if (said === spoken[0] || performance.now() - spoken[1] < SPEAK_MS) return;
  spoken = [said, performance.now()];
  byId("spoken").textContent = said;
}

// Input

function askWhatIf(hour) {
  asking = hour;
  ask({ what_if: hour });
  setTimeout(() => { asking = null; }, 2500); // by then the node has said what it does
  drawSoon();
}

function endWhatIf() {
  asking = null;
  if (now.news) now.news.what_if = null;
  ask({ what_if: null });
  drawSoon();
}

function begin() {
  byId("hour").oninput = () => askWhatIf(Number(byId("hour").value));
  byId("whatif-on").onchange = () => (byId("whatif-on").checked ? askWhatIf(Number(byId("hour").value)) : endWhatIf());
  byId("pause").onclick = () => ask({ pause: !now.news?.replay?.paused });
  byId("rate").onchange = () => ask({ rate: Number(byId("rate").value) });
  addEventListener("keydown", (event) => {
    if (event.target.matches("input[type=text], input[type=checkbox], select, button") && event.key === " ") return; // their own key
    if (event.target.matches("input[type=text], select") || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === " ") { byId("pause").click(); event.preventDefault(); }
    if (event.key === "w" || event.key === "W") byId("whatif-on").click();
    if ((event.key === "ArrowLeft" || event.key === "ArrowRight") && event.target !== byId("hour")) {
      byId("hour").value = Number(byId("hour").value) + (event.key === "ArrowRight" ? 1 : -1);
      askWhatIf(Number(byId("hour").value));
    }
  });
  addEventListener("resize", () => { trendDrawn = 0; drawSoon(); });
  setInterval(drawSoon, 1000); // what has grown stale is shown as such
  connect();
}

begin();
