"use strict";
// The page that names places: click on the plan, type a name, save.

const plan = new FloorPlan(byId("plan"));
let places = [], palette = [], map = null, bounds = null, turn = 0, dragged = null, changed = false;
const RADIUS_M = 0.5, NEAR_M = 0.45;

async function begin() {
  const given = await (await fetch("plan" + location.search)).json();
  [places, palette, bounds, turn] = [given.places, given.palette, given.plan.bounds, given.plan.turn];
  byId("file").textContent = given.file;
  if (given.plan.map) {
    const picture = new Image();
    picture.src = given.plan.map.picture;
    await picture.decode();
    map = { ...given.plan.map, drawing: mapDrawing(picture, picture.naturalWidth, picture.naturalHeight) };
  }
  byId("plan").parentElement.style.setProperty("--shape", ((bounds[2] - bounds[0]) / (bounds[3] - bounds[1])).toFixed(2));
  list();
  note(false);
}

// Whether anything waits to be saved.
function note(isChanged) {
  changed = isChanged;
  byId("kept").textContent = changed ? "Not saved yet" : "Saved";
}

function draw() {
  const canvas = byId("plan");
  if (!bounds) return;
  const night = document.body.classList.toggle("night", matchMedia("(prefers-color-scheme: dark)").matches);
  plan.fit(bounds, canvas.clientWidth, canvas.clientHeight, turn);
  plan.draw({ night, map, places: places.map((p) => ({ ...p, name: p.name || "…" })) });
  canvas.setAttribute("aria-label", `floor plan with ${places.length} places`);
  byId("none").hidden = places.length > 0;
}

function list(focus = -1) {
  byId("places").replaceChildren(...places.map((place, i) => {
    const row = document.createElement("li");
    row.innerHTML = '<span class="swatch"></span><input type="text" maxlength="40" placeholder="kitchen"><button type="button">remove</button>';
    row.querySelector(".swatch").style.background = place.colour;
    const name = row.querySelector("input"), remove = row.querySelector("button");
    name.value = readable(place.name);
    name.setAttribute("aria-label", `name of place ${i + 1}`);
    name.oninput = () => { place.name = name.value.trim(); note(true); draw(); };
    name.onkeydown = (event) => { if (event.key === "Enter") byId("save").click(); };
    remove.setAttribute("aria-label", `remove place ${i + 1}`);
    remove.onclick = () => { places.splice(i, 1); note(true); list(); };
    return row;
  }));
  if (focus >= 0) byId("places").children[focus].querySelector("input").select();
  draw();
}

async function add(x, y) {
  const used = new Set(places.map((p) => p.colour));
  const colour = palette.find((c) => !used.has(c)) ?? palette[places.length % palette.length];
  const place = { name: "", x, y, radius: RADIUS_M, colour };
  const taken = places.map((p) => p.name);
  places.push(place);
  note(true);
  list(places.length - 1);
  const said = await suggestion({ x, y, taken });
  if (!said || place.name || !places.includes(place)) return; // somebody has typed meanwhile
  place.name = said;
  list(places.indexOf(place));
}

// What a place is called by where it lies, until somebody types a better name; empty where the plan shows no rooms.
async function suggestion(asked) {
  try {
    const answer = await post("name", asked);
    return answer.ok ? await answer.text() : "";
  } catch {
    return ""; // saving will say what is wrong
  }
}

const post = (path, body) => fetch(path + location.search, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) });

const round = (v) => Math.round(100 * v) / 100;

async function save() {
  byId("problem").textContent = "";
  try {
    const answer = await post("places", { places: places.map((p) => ({ ...p, x: round(p.x), y: round(p.y) })) });
    const said = await answer.text();
    if (answer.ok) {
      byId("line").textContent = said;
      note(false);
    } else byId("problem").textContent = said;
  } catch {
    byId("problem").textContent = "The command svfm places is not running any more.";
  }
}

byId("plan").onpointerdown = (event) => {
  const [x, y] = plan.at(event);
  dragged = places.find((p) => Math.hypot(p.x - x, p.y - y) < NEAR_M) ?? null;
  if (!dragged) {
    add(x, y);
    event.preventDefault(); // the name keeps the focus
  } else byId("plan").setPointerCapture(event.pointerId);
};
byId("plan").onpointermove = (event) => {
  if (!dragged) return;
  [dragged.x, dragged.y] = plan.at(event);
  note(true);
  draw();
};
byId("plan").onpointerup = () => { dragged = null; };
byId("add").onclick = () => add(...plan.metres((bounds[0] + bounds[2]) / 2, (bounds[1] + bounds[3]) / 2));
byId("save").onclick = save;
addEventListener("resize", draw);
addEventListener("beforeunload", (event) => { if (changed) event.preventDefault(); });
begin();
