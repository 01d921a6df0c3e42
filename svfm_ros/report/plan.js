"use strict";
// Drawing on a floor plan: metres from the upper left corner of the plan, y down. Names are written as text, never as markup.

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
const isNight = (hour) => hour < 6 || hour >= 21;
const ELSEWHERE = "#9a8f80";

function lighter(colour) {
  const parts = [1, 3, 5].map((i) => parseInt(colour.slice(i, i + 2), 16));
  return `rgb(${parts.map((v) => Math.round(v + (255 - v) * 0.45)).join(",")})`;
}

// Whole centimetres as 16 bit integers, little endian, base64.
function unpack(text) {
  const bytes = Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
  const view = new DataView(bytes.buffer);
  return Array.from({ length: bytes.length / 2 }, (_, i) => view.getInt16(2 * i, true));
}

// A floor plan in an <svg>: `plan` has bounds [x0, y0, x1, y1], map, places and walks.
function floorPlan(element, plan) {
  const [x0, y0, x1, y1] = plan.bounds;
  const points = (centimetres) => {
    const made = [];
    for (let i = 0; i < centimetres.length; i += 2) {
      made.push(`${(centimetres[i] / 100 - x0).toFixed(2)},${(y1 - centimetres[i + 1] / 100).toFixed(2)}`);
    }
    return made.join(" ");
  };
  const colourOf = (place) => plan.places[place]?.colour ?? ELSEWHERE;
  element.setAttribute("viewBox", `0 0 ${x1 - x0} ${y1 - y0}`);
  if (plan.map) {
    const m = plan.map;
    const transform = `translate(${m.x - x0} ${y1 - m.y}) rotate(${(-m.theta * 180) / Math.PI})`;
    svg(element, "image", { href: m.picture, x: 0, y: -m.height, width: m.width, height: m.height, transform });
  }
  element.style.setProperty("--faint", Math.min(0.3, 24 / Math.max(plan.walks.length, 1)));
  const walks = svg(element, "g", { class: "walks" });
  for (const walk of plan.walks) svg(walks, "polyline", { class: "walk", points: points(walk.xy) });
  const paths = svg(element, "g", { class: "paths" });
  const names = svg(element, "g", { class: "names" });
  const label = (text, x, y, colour, opacity = 1) => {
    const inside = Math.min(Math.max(x, 1.1), x1 - x0 - 1.1);
    svg(names, "text", { class: "name", x: inside, y, fill: colour, opacity }, text);
  };
  return {
    colourOf,
    // Recorded walks that began near an hour stand out.
    markHour(hour) {
      const apart = (a, b) => Math.min((a - b + 24) % 24, (b - a + 24) % 24);
      [...walks.children].forEach((line, i) => line.classList.toggle("near", apart(plan.walks[i].hour, hour + 0.5) <= 1));
    },
    // `lines`: centimetres of each path; `ends`: index of its place.
    showPaths(lines, ends, shade) {
      paths.replaceChildren();
      lines.forEach((line, i) => {
        const colour = shade(colourOf(ends[i]));
        svg(paths, "polyline", { class: "path", stroke: colour, points: points(line) });
        const [x, y] = line.slice(-2);
        svg(paths, "circle", { cx: x / 100 - x0, cy: y1 - y / 100, r: 0.055, fill: colour });
      });
    },
    // Places with their probabilities, and the walker at `start` (x, y, name, place).
    showNames(start, shares, shade) {
      names.replaceChildren();
      plan.places.forEach((place, i) => {
        if (i === start.place) return;
        const y = y1 - place.y - 0.15 - Math.min(place.radius, 0.9);
        const text = `${readable(place.name)} ${percent(shares[i])}`;
        label(text, place.x - x0, Math.max(y, 0.35), shade(place.colour), shares[i] >= 0.01 ? 1 : 0.45);
      });
      const colour = shade(start.place < 0 ? "#2e8b57" : colourOf(start.place));
      const at = { cx: start.x - x0, cy: y1 - start.y, r: 0.17 };
      svg(names, "circle", { ...at, fill: colour, stroke: "#ffffff", "stroke-width": 0.05 });
      label(readable(start.name), at.cx, at.cy + 0.55, colour);
    },
  };
}
