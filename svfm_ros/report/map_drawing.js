"use strict";
// The map of a plan as a picture with smooth walls, in the colours of day and night.

const FREE_CELL = 1;

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
    const [floor, stone] = night ? [[34, 40, 54], [132, 142, 163]] : [[255, 253, 247], [112, 118, 130]];
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
