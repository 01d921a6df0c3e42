"use strict";
// The floor plan, drawn on a canvas in metres, y up. Shared by the report, the live page and the page that names places.
// Names are written as text, never as markup.

function svg(parent, kind, attributes = {}, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", kind);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text) made.textContent = text;
  parent.appendChild(made);
  return made;
}

const byId = (id) => document.getElementById(id);
const readable = (name) => name.replaceAll("_", " ");
const percent = (share) => `${Math.round(100 * share)} %`;
const counted = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;
const withShare = (name, share) => `${readable(name)}${/\d$/.test(name) ? ":" : ""} ${percent(share)}`;
const clock = (hour) => `${String(Math.floor(hour)).padStart(2, "0")}:${String(Math.floor((hour % 1) * 60 + 1e-6)).padStart(2, "0")}`;
const isNight = (hour) => hour < 6 || hour >= 21;
const ELSEWHERE = "#9a8f80", INK = "#161a22", PALE = "#ffffff"; // INK and PALE: the walker by day and at night

function lighter(colour) {
  const parts = [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16));
  return `rgb(${parts.map((v) => Math.round(v + (255 - v) * 0.45)).join(",")})`;
}

// Whole centimetres as 16 bit integers, little endian, base64.
function unpack(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  return new Int16Array(bytes.buffer, 0, bytes.length >> 1);
}

// How sure a forecast is, in words with the figure behind them; empty where it is not known.
function howSure(entropy) {
  if (entropy === null || !Number.isFinite(entropy)) return "";
  const choices = Math.exp(entropy);
  const words = choices < 1.3 ? "Very sure" : choices < 2.2 ? "Fairly sure" : choices < 3.2 ? "Not sure" : "Wide open";
  const like = choices < 1.05 ? "hardly a choice at all" : `like a choice between ${choices.toFixed(1)} equally likely places`;
  return `${words}: ${like} (entropy ${entropy.toFixed(2)} nats).`;
}

// One bar for each place: [{name, colour, share, other}], made again only where the places have changed. `other`, if
// given, is a share to compare with and is marked by a line.
function shareBars(parent, rows) {
  const made = rows.map((r) => `${r.name}|${r.colour}`).join("\n");
  if (parent.dataset.made !== made) {
    parent.dataset.made = made;
    parent.replaceChildren();
    for (const row of rows) {
      const bar = document.createElement("div");
      bar.className = "bar";
      bar.setAttribute("role", "listitem");
      bar.innerHTML = '<span></span><div class="track"><div class="fill"></div><i></i></div><b></b>';
      bar.querySelector("span").textContent = readable(row.name);
      bar.querySelector(".fill").style.background = row.colour;
      parent.appendChild(bar);
    }
  }
  rows.forEach((row, i) => {
    const bar = parent.children[i];
    bar.querySelector("b").textContent = row.text ?? percent(row.share);
    bar.querySelector(".fill").style.width = `${(100 * row.share).toFixed(1)}%`;
    bar.querySelector("i").hidden = row.other === undefined;
    if (row.other !== undefined) bar.querySelector("i").style.left = `${(100 * row.other).toFixed(1)}%`;
    bar.hidden = Boolean(row.hidden);
  });
}

// A path (centimetres) until it leaves a place that it has reached; the whole path where there is no such place.
function untilLeaving(line, place) {
  let reached = false;
  for (let i = 0; place && i < line.length; i += 2) {
    const inside = Math.hypot(line[i] / 100 - place.x, line[i + 1] / 100 - place.y) <= place.radius;
    if (reached && !inside) return line.subarray(0, i);
    reached ||= inside;
  }
  return line;
}

// A plan on a canvas. `plan.draw(scene)` draws, from below: map, walks, places, density, what-if, paths, scan, walk so far, walker, names.
class FloorPlan {
  constructor(canvas) {
    this.canvas = canvas;
    this.brush = canvas.getContext("2d");
    this.sharpness = 1; // above 1 on paper
    this.walkLayer = { key: "", canvas: document.createElement("canvas") };
  }

  // Fits the bounds [x0, y0, x1, y1] of the plan, turned by `-turn`, into the canvas, whose CSS size is `width` by `height`.
  fit(bounds, width, height, turn = 0) {
    const [x0, y0, x1, y1] = bounds;
    const dots = (globalThis.devicePixelRatio || 1) * this.sharpness;
    const [wide, high] = [Math.max(1, Math.round(width * dots)), Math.max(1, Math.round(height * dots))];
    if (this.canvas.width !== wide || this.canvas.height !== high) [this.canvas.width, this.canvas.height] = [wide, high];
    const scale = Math.min(wide / (x1 - x0), high / (y1 - y0)); // dots per metre
    const left = (wide - scale * (x1 - x0)) / 2, top = (high - scale * (y1 - y0)) / 2;
    const [cos, sin] = [Math.cos(turn), Math.sin(turn)];
    Object.assign(this, { dots, scale, left, top, bounds, turn });
    this.X = (x, y) => left + (cos * x + sin * y - x0) * scale;
    this.Y = (x, y) => top + (y1 + sin * x - cos * y) * scale;
  }

  // Metres at a position of the mouse.
  at(event) {
    const box = this.canvas.getBoundingClientRect();
    const px = ((event.clientX - box.left) / box.width) * this.canvas.width;
    const py = ((event.clientY - box.top) / box.height) * this.canvas.height;
    return this.metres(this.bounds[0] + (px - this.left) / this.scale, this.bounds[3] - (py - this.top) / this.scale);
  }

  // Metres of the map from metres of the turned plan.
  metres(u, v) {
    const [cos, sin] = [Math.cos(this.turn), Math.sin(this.turn)];
    return [cos * u - sin * v, sin * u + cos * v];
  }

  // Calls `paint` with the origin at (x, y) and the first axis along `theta`.
  _at(x, y, theta, paint) {
    const { brush } = this;
    brush.save();
    brush.translate(this.X(x, y), this.Y(x, y));
    brush.rotate(this.turn - theta);
    paint(brush);
    brush.restore();
  }

  draw(scene) {
    const { brush, canvas } = this;
    brush.setTransform(1, 0, 0, 1, 0, 0);
    brush.clearRect(0, 0, canvas.width, canvas.height);
    brush.lineJoin = brush.lineCap = "round";
    const shade = scene.night ? lighter : (colour) => colour;
    if (scene.map) this._map(scene.map, scene.night);
    if (scene.walks?.length) this._walks(scene);
    scene.places?.forEach((place, i) => this._spot(place, shade, scene.shares?.[i]));
    if (scene.density) this._density(scene.density, scene.night);
    if (scene.whatIf) this._paths(scene.whatIf, scene.places, shade, 0.3, [5, 5]);
    if (scene.paths) this._paths(scene.paths, scene.places, shade, scene.night ? 0.7 : 0.55);
    if (scene.scan) this._scan(scene.scan, scene.night);
    const [own, around] = scene.night ? [PALE, INK] : [INK, PALE];
    if (scene.soFar?.length > 2) {
      this._line(scene.soFar, around, 0.13);
      this._line(scene.soFar, own, 0.07);
    }
    if (scene.walker) this._walker(scene.walker, own, around);
    if (scene.places) this._names(scene, shade);
  }

  _map(m, night) {
    const { scale } = this;
    this._at(m.x, m.y, m.theta, (brush) => {
      brush.imageSmoothingQuality = "high";
      brush.drawImage(m.drawing.shade(night), 0, -m.height * scale, m.width * scale, m.height * scale);
    });
  }

  // Recorded walks change rarely: they are drawn once and kept. Those near `scene.hour` stand out.
  _walks(scene) {
    const layer = this.walkLayer, { canvas } = this;
    const key = [scene.walks.length, scene.walksVersion, scene.hour, scene.night, canvas.width, canvas.height, this.turn, ...this.bounds].join();
    if (layer.key !== key) {
      layer.key = key;
      [layer.canvas.width, layer.canvas.height] = [canvas.width, canvas.height];
      const brush = layer.canvas.getContext("2d");
      const faint = Math.min(0.22, 18 / scene.walks.length);
      const apart = (a, b) => Math.min((a - b + 24) % 24, (b - a + 24) % 24);
      brush.strokeStyle = scene.night ? "#c9d2e4" : "#5a6270";
      brush.lineWidth = 0.02 * this.scale;
      for (const walk of scene.walks) {
        const near = scene.hour !== undefined && apart(walk.hour, scene.hour + 0.5) <= 1;
        brush.globalAlpha = near ? 0.1 + 1.6 * faint : faint;
        this._trace(brush, walk.xy);
        brush.stroke();
      }
    }
    this.brush.drawImage(layer.canvas, 0, 0);
  }

  _trace(brush, centimetres) {
    brush.beginPath();
    for (let i = 0; i < centimetres.length; i += 2) {
      const [x, y] = [centimetres[i] / 100, centimetres[i + 1] / 100];
      brush.lineTo(this.X(x, y), this.Y(x, y));
    }
  }

  // Percent of the paths through each cell: {x, y, theta, resolution, width, height, cells, values}.
  _density(d, night) {
    if (!d.drawn) {
      d.drawn = document.createElement("canvas");
      [d.drawn.width, d.drawn.height] = [d.width, d.height];
      const image = new ImageData(d.width, d.height);
      d.cells.forEach((cell, i) => {
        const row = d.height - 1 - Math.floor(cell / d.width), at = 4 * (row * d.width + (cell % d.width));
        image.data.set(night ? [214, 224, 244] : [96, 108, 130], at);
        image.data[at + 3] = Math.min(190, 40 + 8 * d.values[i]);
      });
      d.drawn.getContext("2d").putImageData(image, 0, 0);
    }
    const cell = d.resolution * this.scale;
    this._at(d.x, d.y, d.theta, (brush) => {
      brush.globalAlpha = 0.55;
      brush.drawImage(d.drawn, 0, -d.height * cell, d.width * cell, d.height * cell);
    });
  }

  // {lines: centimetres of each path, ends: index of its place, colours}; one stroke per colour is quick. A path is drawn
  // until it leaves the place it leads to; paths that lead to no place are faint.
  _paths({ lines, ends, colours }, places, shade, alpha, dash = []) {
    const { brush } = this, byEnd = new Map();
    lines.forEach((line, i) => {
      if (!byEnd.has(ends[i])) byEnd.set(ends[i], []);
      byEnd.get(ends[i]).push(untilLeaving(line, places?.[ends[i]]));
    });
    const busy = Math.min(1, 60 / Math.max(lines.length, 1));
    brush.setLineDash(dash.map((n) => n * this.dots));
    for (const [end, own] of [...byEnd].sort((a, b) => a[0] - b[0])) {
      const known = colours[end] !== undefined || !colours.length;
      brush.strokeStyle = brush.fillStyle = shade(colours[end] ?? ELSEWHERE);
      brush.lineWidth = (known ? 0.035 : 0.02) * this.scale;
      brush.globalAlpha = alpha * (known ? 0.4 + 0.6 * busy : 0.35);
      for (const line of own) {
        this._trace(brush, line);
        brush.stroke();
      }
      brush.globalAlpha = Math.min(1, alpha * 1.4);
      for (const line of known ? own : []) this._dot(line[line.length - 2] / 100, line[line.length - 1] / 100, 0.055);
    }
    brush.setLineDash([]);
    brush.globalAlpha = 1;
  }

  _dot(x, y, radius) {
    this.brush.beginPath();
    this.brush.arc(this.X(x, y), this.Y(x, y), radius * this.scale, 0, 2 * Math.PI);
    this.brush.fill();
  }

  _line(centimetres, colour, width) {
    const { brush } = this;
    [brush.strokeStyle, brush.lineWidth] = [colour, width * this.scale];
    this._trace(brush, centimetres);
    brush.stroke();
  }

  _scan(centimetres, night) {
    const { brush } = this, size = Math.max(1.5 * this.dots, 0.04 * this.scale);
    brush.fillStyle = night ? "#7fd0ff" : "#c0392b";
    brush.globalAlpha = 0.75;
    for (let i = 0; i < centimetres.length; i += 2) {
      const [x, y] = [centimetres[i] / 100, centimetres[i + 1] / 100];
      brush.fillRect(this.X(x, y) - size / 2, this.Y(x, y) - size / 2, size, size);
    }
    brush.globalAlpha = 1;
  }

  // A dot with a ring, and with a beak in the direction of `theta` where it is known.
  _walker({ x, y, theta }, colour, around) {
    const r = Math.max(0.17 * this.scale, 7 * this.dots);
    this._at(x, y, theta ?? 0, (brush) => {
      [brush.fillStyle, brush.strokeStyle, brush.lineWidth] = [colour, around, 0.36 * r];
      brush.beginPath();
      brush.arc(0, 0, r, 0.6, 2 * Math.PI - 0.6);
      if (theta !== undefined) brush.lineTo(1.9 * r, 0);
      brush.closePath();
      brush.stroke();
      brush.fill();
      brush.beginPath();
      brush.arc(0, 0, r, 0, 2 * Math.PI);
      brush.fill();
    });
  }

  // Names with probabilities on small plates, the likeliest first and largest; none covers another or the walker. Names of
  // places that are hardly expected are small and grey, and left out where there is no room.
  _names(scene, shade) {
    const large = Math.max(13 * this.dots, Math.min(0.26 * this.scale, 17 * this.dots));
    const order = scene.places.map((_, i) => i).sort((a, b) => (scene.shares?.[b] ?? 0) - (scene.shares?.[a] ?? 0));
    const taken = [];
    if (scene.walker) {
      const r = Math.max(0.3 * this.scale, 12 * this.dots);
      taken.push({ x: this.X(scene.walker.x, scene.walker.y), y: this.Y(scene.walker.x, scene.walker.y), half: r, high: r });
    }
    order.forEach((i, rank) => {
      const place = scene.places[i], share = scene.shares?.[i], here = i === scene.here;
      const unlikely = share !== undefined && share < 0.02 && !here, first = rank === 0 || share === undefined;
      const size = large * (unlikely ? 0.8 : first ? 1 : 0.85);
      const said = share === undefined || here || unlikely ? "" : percent(share);
      this._plate(place, said, { size, first, unlikely, here, night: scene.night, colour: shade(place.colour) }, taken);
    });
  }

  // One name and what is said of it, above or below its place or beside it, where nothing else is.
  _plate(place, said, look, taken) {
    const { brush } = this, { size } = look;
    const font = (weight) => { brush.font = `${weight} ${size}px system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif`; };
    const name = readable(place.name), weight = look.unlikely ? 500 : 600;
    font(weight);
    const nameWide = brush.measureText(name).width;
    font(700);
    const wide = nameWide + (said ? brush.measureText(said).width + 0.5 * size : 0) + 0.95 * size;
    const [half, high, own] = [wide / 2 + 0.5 * size, 0.78 * size, (0.1 + Math.min(place.radius, 0.9)) * this.scale];
    const [cx, cy] = [this.X(place.x, place.y), this.Y(place.x, place.y)];
    const [up, down] = [cy - own - high, cy + own + high];
    const rows = look.here ? [down, up] : [up, down, up - 2 * high, down + 2 * high];
    const spots = [...rows.map((y) => [cx, y]), [cx - own - half, cy], [cx + own + half, cy]].map(([x, y]) => [
      Math.min(Math.max(x, half), this.canvas.width - half), Math.min(Math.max(y, high), this.canvas.height - high)]);
    const free = spots.find(([x, y]) => taken.every((t) => Math.abs(t.x - x) > t.half + half || Math.abs(t.y - y) > t.high + high));
    if (free === undefined && look.unlikely) return;
    const [x, y] = free ?? spots[0];
    taken.push({ x, y, half, high });
    brush.fillStyle = look.night ? "#0e121be0" : "#ffffffe0";
    brush.beginPath();
    brush.roundRect(x - half, y - high, 2 * half, 2 * high, high);
    brush.fill();
    const left = x - wide / 2;
    brush.fillStyle = look.colour;
    brush.beginPath();
    brush.arc(left + 0.3 * size, y, 0.3 * size, 0, 2 * Math.PI);
    brush.fill();
    [brush.textAlign, brush.textBaseline] = ["left", "middle"];
    brush.fillStyle = look.unlikely ? (look.night ? "#a3adc0" : "#5f6775") : look.night ? PALE : INK;
    font(weight);
    brush.fillText(name, left + 0.95 * size, y);
    font(700);
    if (said) brush.fillText(said, left + nameWide + 1.45 * size, y);
  }

  _spot(place, shade, share) {
    const { brush } = this;
    brush.fillStyle = shade(place.colour);
    brush.globalAlpha = 0.08 + 0.3 * (share ?? 0.3);
    this._dot(place.x, place.y, Math.min(place.radius, 0.9));
    brush.globalAlpha = 1;
  }
}
