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
const clock = (hour) => `${String(Math.floor(hour)).padStart(2, "0")}:${String(Math.floor((hour % 1) * 60 + 1e-6)).padStart(2, "0")}`;
const isNight = (hour) => hour < 6 || hour >= 21;
const ELSEWHERE = "#9a8f80", WALKER = "#2e8b57";
const UNKNOWN_CELL = 0, FREE_CELL = 1;

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

// The map's picture (grey levels: 0 unknown, 1 floor, 2 wall) as an object that draws itself in the colours of day or night,
// with smooth edges: cells are blurred, and drawn finer where the map is small.
function mapDrawing(picture, width, height) {
  const read = document.createElement("canvas");
  [read.width, read.height] = [width, height];
  const brush = read.getContext("2d", { willReadFrequently: true });
  brush.drawImage(picture, 0, 0);
  const cells = brush.getImageData(0, 0, width, height).data;
  const fine = width * height < 120000 ? 4 : width * height < 500000 ? 2 : 1;
  const mask = (least) => {
    const made = new Float32Array(width * height);
    for (let i = 0; i < made.length; i += 1) made[i] = cells[4 * i] >= least ? 1 : 0;
    return smoothMask(made, width, height, fine);
  };
  const [known, wall] = [mask(FREE_CELL), mask(FREE_CELL + 1)];
  const shades = new Map();
  const shade = (night) => {
    if (shades.has(night)) return shades.get(night);
    const [floor, stone] = night ? [[34, 40, 54], [173, 182, 201]] : [[255, 253, 247], [72, 74, 80]];
    const drawn = document.createElement("canvas");
    [drawn.width, drawn.height] = [fine * width, fine * height];
    const image = new ImageData(drawn.width, drawn.height);
    for (let i = 0; i < wall.length; i += 1) {
      for (let c = 0; c < 3; c += 1) image.data[4 * i + c] = floor[c] + (stone[c] - floor[c]) * wall[i];
      image.data[4 * i + 3] = 255 * Math.max(known[i], wall[i]);
    }
    drawn.getContext("2d").putImageData(image, 0, 0);
    shades.set(night, drawn);
    return drawn;
  };
  return { shade };
}

// A mask of 0 and 1, `fine` times as many cells each way, with edges that are smooth but narrow.
function smoothMask(mask, width, height, fine) {
  if (fine === 1) return mask;
  const soft = blurred(blurred(mask, width, height, 1, 0), width, height, 0, 1);
  const [wide, high] = [fine * width, fine * height], made = new Float32Array(wide * high);
  for (let row = 0; row < high; row += 1) {
    const [top, below, v] = between(row, fine, height);
    for (let column = 0; column < wide; column += 1) {
      const [left, right, u] = between(column, fine, width);
      const upper = (1 - u) * soft[top * width + left] + u * soft[top * width + right];
      const lower = (1 - u) * soft[below * width + left] + u * soft[below * width + right];
      made[row * wide + column] = Math.min(Math.max(4 * ((1 - v) * upper + v * lower - 0.34), 0), 1);
    }
  }
  return made;
}

// The two cells that a finer cell lies between, and how far from the first.
function between(index, fine, count) {
  const at = (index + 0.5) / fine - 0.5, first = Math.floor(at);
  return [Math.max(first, 0), Math.min(first + 1, count - 1), at - first];
}

// Each cell with a quarter of its neighbours at (dx, dy) and opposite; cells at the border keep their value.
function blurred(mask, width, height, dx, dy) {
  const made = mask.slice(), step = dy * width + dx;
  for (let y = dy; y < height - dy; y += 1) {
    for (let x = dx; x < width - dx; x += 1) {
      const i = y * width + x;
      made[i] = (mask[i - step] + 2 * mask[i] + mask[i + step]) / 4;
    }
  }
  return made;
}

// A plan on a canvas. `plan.draw(scene)` draws, from below: map, walks, density, what-if, paths, scan, walk so far, walker, names.
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
  _placed(x, y, theta, paint) {
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
    if (scene.density) this._density(scene.density, scene.night);
    if (scene.whatIf) this._paths(scene.whatIf, (c) => shade(c), 0.22, [5, 5]);
    if (scene.paths) this._paths(scene.paths, shade, scene.night ? 0.7 : 0.5);
    if (scene.scan) this._scan(scene.scan, scene.night);
    if (scene.soFar?.length > 2) this._line(scene.soFar, shade(WALKER), 0.07, 0.9);
    if (scene.walker) this._walker(scene.walker, shade(WALKER));
    if (scene.places) this._names(scene, shade);
  }

  _map(m, night) {
    const { scale } = this;
    this._placed(m.x, m.y, m.theta, (brush) => {
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
      const faint = Math.min(0.3, 24 / scene.walks.length);
      const apart = (a, b) => Math.min((a - b + 24) % 24, (b - a + 24) % 24);
      brush.strokeStyle = scene.night ? "#c9d2e4" : "#5a6270";
      brush.lineWidth = 0.02 * this.scale;
      for (const walk of scene.walks) {
        const near = scene.hour !== undefined && apart(walk.hour, scene.hour + 0.5) <= 1;
        brush.globalAlpha = near ? Math.min(1, 0.2 + 1.6 * faint) : faint;
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
        image.data.set(night ? [255, 214, 130] : [214, 128, 32], at);
        image.data[at + 3] = Math.min(190, 40 + 8 * d.values[i]);
      });
      d.drawn.getContext("2d").putImageData(image, 0, 0);
    }
    const cell = d.resolution * this.scale;
    this._placed(d.x, d.y, d.theta, (brush) => {
      brush.globalAlpha = 0.55;
      brush.drawImage(d.drawn, 0, -d.height * cell, d.width * cell, d.height * cell);
    });
  }

  // {lines: centimetres of each path, ends: index of its place, colours}; one stroke per colour is quick.
  _paths({ lines, ends, colours }, shade, alpha, dash = []) {
    const { brush } = this, byColour = new Map();
    lines.forEach((line, i) => {
      const colour = shade(colours[ends[i]] ?? ELSEWHERE);
      if (!byColour.has(colour)) byColour.set(colour, []);
      byColour.get(colour).push(line);
    });
    const busy = Math.min(1, 60 / Math.max(lines.length, 1));
    brush.lineWidth = 0.035 * this.scale;
    brush.setLineDash(dash.map((n) => n * this.dots));
    for (const [colour, own] of byColour) {
      brush.strokeStyle = brush.fillStyle = colour;
      brush.globalAlpha = alpha * (0.4 + 0.6 * busy);
      for (const line of own) {
        this._trace(brush, line);
        brush.stroke();
      }
      brush.globalAlpha = Math.min(1, alpha * 1.4);
      for (const line of own) this._dot(line[line.length - 2] / 100, line[line.length - 1] / 100, 0.055);
    }
    brush.setLineDash([]);
    brush.globalAlpha = 1;
  }

  _dot(x, y, radius) {
    this.brush.beginPath();
    this.brush.arc(this.X(x, y), this.Y(x, y), radius * this.scale, 0, 2 * Math.PI);
    this.brush.fill();
  }

  _line(centimetres, colour, width, alpha) {
    const { brush } = this;
    [brush.strokeStyle, brush.lineWidth, brush.globalAlpha] = [colour, width * this.scale, alpha];
    this._trace(brush, centimetres);
    brush.stroke();
    brush.globalAlpha = 1;
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

  // A dot, with a beak in the direction of `theta` where it is known.
  _walker({ x, y, theta }, colour) {
    const r = Math.max(0.17 * this.scale, 6 * this.dots);
    this._placed(x, y, theta ?? 0, (brush) => {
      [brush.fillStyle, brush.strokeStyle, brush.lineWidth] = [colour, "#ffffff", 0.3 * r];
      if (theta !== undefined) {
        brush.beginPath();
        brush.moveTo(1.9 * r, 0);
        brush.lineTo(0.5 * r, 0.8 * r);
        brush.lineTo(0.5 * r, -0.8 * r);
        brush.fill();
      }
      brush.beginPath();
      brush.arc(0, 0, r, 0, 2 * Math.PI);
      brush.fill();
      brush.stroke();
    });
  }

  // Names with probabilities, the likeliest first; a name that would cover another moves down or up. Names of places that
  // are hardly expected are small and grey, and left out where there is no room.
  _names(scene, shade) {
    const { brush } = this, large = Math.max(13 * this.dots, Math.min(0.3 * this.scale, 20 * this.dots));
    [brush.textAlign, brush.textBaseline] = ["center", "middle"];
    const taken = [];
    const order = scene.places.map((_, i) => i).sort((a, b) => (scene.shares?.[b] ?? 0) - (scene.shares?.[a] ?? 0));
    for (const i of order) this._spot(scene.places[i], shade, scene.shares?.[i]);
    for (const i of order) {
      const place = scene.places[i], share = scene.shares?.[i], here = i === scene.here;
      const unlikely = share !== undefined && share < 0.02 && !here, size = unlikely ? 0.75 * large : large;
      brush.font = `${unlikely ? 500 : 650} ${size}px system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif`;
      const text = readable(place.name) + (share === undefined || here || unlikely ? "" : ` ${percent(share)}`);
      const [middle, own] = [this.Y(place.x, place.y), 0.15 + Math.min(place.radius, 0.9)];
      const [above, below] = [middle - own * this.scale, middle + own * this.scale];
      const half = brush.measureText(text).width / 2 + 3 * this.dots;
      const x = Math.min(Math.max(this.X(place.x, place.y), half), this.canvas.width - half);
      const spots = here ? [below, above] : [above, below, above - 1.2 * size, below + 1.2 * size];
      const free = spots.find((y) => y > size / 2 && y < this.canvas.height - size / 2 &&
        taken.every((t) => Math.abs(t.x - x) > t.half + half || Math.abs(t.y - y) > 0.55 * (t.size + size)));
      if (free === undefined && unlikely) continue;
      const y = free ?? Math.max(spots[0], size / 2);
      taken.push({ x, y, half, size });
      const ink = unlikely ? (scene.night ? "#8d97ab" : "#7a8290") : shade(place.colour);
      [brush.strokeStyle, brush.lineWidth, brush.fillStyle] = [scene.night ? "#161b27" : "#ffffff", 0.3 * size, ink];
      brush.strokeText(text, x, y);
      brush.fillText(text, x, y);
    }
  }

  _spot(place, shade, share) {
    const { brush } = this;
    brush.fillStyle = shade(place.colour);
    brush.globalAlpha = 0.08 + 0.3 * (share ?? 0.3);
    this._dot(place.x, place.y, Math.min(place.radius, 0.9));
    brush.globalAlpha = 1;
  }
}
