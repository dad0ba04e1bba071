// Draws a fleet on a canvas: pan with the mouse or arrow keys, zoom with the wheel or + and -.
//
// Far away, the whole fleet is one bitmap (bitmap.js), so that panning costs one copy however many devices there are. Near, only what is in sight is drawn, board by board.

import { Bitmap, COARSE } from "./bitmap.js";
import { details } from "./details.js";
import { at, corner } from "./layout.js";

// Below this many pixels a board, the bitmap is taken.
const NEAR = 9;
// From so many pixels on a board shows what it consists of; one board alone can fill the canvas.
const CLOSE = 56;
const LARGEST = 800;
// No board is larger where everything is in sight.
const FITTED = 160;
const LABELS = 34;
const NAMES = 5;
const MARGIN = 12;
// A part that has fewer pixels than this across has no name.
const NARROW = 30;
// The least height of a frame's name, in pixels.
const READABLE = 8;
// The rest of a board's place is gap.
const FILLED = 0.86;

export class Picture {
  /** `colour(board)` gives a board's colour. */
  constructor(canvas, colour) {
    this.canvas = canvas;
    this.colour = colour;
    this.plan = undefined;
    this.where = undefined;
    this.view = { x: 0, y: 0, scale: 0 };
    this.fitted = true;
    this.selected = undefined;
    this.bitmap = new Bitmap(colour);
    this.due = false;
    this.parts = [];
    /** The plan of the last frame that was drawn, for measurements. */
    this.drawn = undefined;
  }

  /** Shows another plan; the view stays where a person has moved it. */
  show(plan) {
    this.plan = plan;
    this.where = undefined;
    if (this.fitted) this.fit();
    this.request();
  }

  /** Has the colours asked for again. */
  recolour() {
    this.bitmap.recolour();
    this.request();
  }

  /** Everything in sight. */
  fit() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (!this.plan || !width || !height) return;
    const across = (width - 2 * MARGIN) / this.plan.width;
    const down = (height - 2 * MARGIN) / this.plan.height;
    const scale = Math.max(0.5, Math.min(across, down, FITTED));
    this.view = { x: -MARGIN / scale, y: -MARGIN / scale, scale };
    this.fitted = true;
    this.request();
  }

  move(dx, dy) {
    this.view.x -= dx / this.view.scale;
    this.view.y -= dy / this.view.scale;
    this.fitted = false;
    this.request();
  }

  /** Zooms by a factor; the point, in pixels, stays where it is. */
  zoom(factor, point = { x: this.canvas.clientWidth / 2, y: this.canvas.clientHeight / 2 }) {
    const before = this.point(point);
    this.view.scale = Math.min(LARGEST, Math.max(0.3, this.view.scale * factor));
    const after = this.point(point);
    this.view.x += before.x - after.x;
    this.view.y += before.y - after.y;
    this.fitted = false;
    this.request();
  }

  /** The picture's point at a pixel of the canvas. */
  point({ x, y }) {
    return { x: this.view.x + x / this.view.scale, y: this.view.y + y / this.view.scale };
  }

  /** The place and board at a pixel. */
  hit(pixel) {
    return this.plan && at(this.point(pixel), this.plan);
  }

  /** Marks a board, and moves it into sight. */
  select(key, reveal = false) {
    this.selected = key;
    if (reveal) this.reveal(key);
    this.request();
  }

  /** The corner of a board, or undefined. */
  spot(key) {
    if (!key || !this.plan) return undefined;
    // Who chooses a board chooses another one soon.
    this.where ??= new Map(this.plan.places.flatMap((place) => place.boards.map((board, index) => [board.key, [place, index]])));
    return this.where.has(key) ? corner(...this.where.get(key), this.plan) : undefined;
  }

  reveal(key) {
    const spot = this.spot(key);
    if (!spot) return;
    const width = this.canvas.clientWidth / this.view.scale;
    const height = this.canvas.clientHeight / this.view.scale;
    if (spot.x < this.view.x || spot.x + 1 > this.view.x + width) this.view.x = spot.x - width / 2;
    if (spot.y < this.view.y || spot.y + 1 > this.view.y + height) this.view.y = spot.y - height / 2;
  }

  /** Has the picture drawn in the next frame. */
  request() {
    if (this.due) return;
    this.due = true;
    requestAnimationFrame(() => {
      this.due = false;
      this.draw();
    });
  }

  draw() {
    const { canvas, plan } = this;
    if (!plan) return;
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [canvas.clientWidth, canvas.clientHeight];
    if (canvas.width !== width * ratio || canvas.height !== height * ratio) {
      canvas.width = width * ratio;
      canvas.height = height * ratio;
    }
    const context = canvas.getContext("2d");
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    const { x, y, scale } = this.view;
    context.translate(-x * scale, -y * scale);
    this.drawFrames(context, scale);
    if (scale < NEAR) this.drawFar(context, scale);
    else this.drawNear(context, scale, width, height);
    this.drawn = plan;
  }

  drawFar(context, scale) {
    const canvas = this.bitmap.of(this.plan);
    context.imageSmoothingEnabled = scale < COARSE;
    context.drawImage(canvas, 0, 0, canvas.width * (scale / COARSE), canvas.height * (scale / COARSE));
    this.outlineSelected(context, scale);
  }

  drawNear(context, scale, width, height) {
    const { plan, view } = this;
    const [right, bottom] = [view.x + width / scale, view.y + height / scale];
    const places = plan.places.filter(
      (one) =>
        one.x < right && one.x + plan.block.width > view.x && one.y < bottom && one.y + plan.block.height > view.y,
    );
    const boxes = this.boxes(places, scale);
    const sight = (box) => box.x < right * scale && box.x + box.width > view.x * scale && box.y < bottom * scale && box.y + box.height > view.y * scale;
    this.parts = scale < CLOSE ? [] : boxes.filter(sight).flatMap(parts);
    this.fill(context, scale < CLOSE ? boxes : this.parts);
    for (const part of this.parts) this.drawName(context, part);
    this.outlineSelected(context, scale);
    if (scale * plan.block.width >= LABELS) this.drawLabels(context, places, scale);
  }

  /** The board or part of one at a pixel, where what boards consist of is shown. */
  part(pixel) {
    const { x, y } = this.point(pixel);
    const [left, top] = [x * this.view.scale, y * this.view.scale];
    const inside = (one) => left >= one.x && left < one.x + one.width && top >= one.y && top < one.y + one.height;
    // Shares lie on the device that is shared.
    return this.view.scale < CLOSE ? undefined : this.parts.findLast(inside)?.board;
  }

  drawName(context, { name, note, x, y, width, height }) {
    const size = Math.min(13, height / 2.4);
    if (size < NAMES || width < NARROW) return;
    context.font = `${size}px system-ui, sans-serif`;
    context.textBaseline = "top";
    // On any colour.
    context.strokeStyle = this.style("--page");
    context.lineWidth = 3;
    context.lineJoin = "round";
    context.fillStyle = this.style("--text");
    [name, note].forEach((text, line) => {
      const shown = cut(context, text, width - 6);
      context.strokeText(shown, x + 4, y + 3 + line * size * 1.15);
      context.fillText(shown, x + 4, y + 3 + line * size * 1.15);
    });
  }

  /** All boards of the places, in pixels: `{board, x, y, width, height}`. */
  boxes(places, scale) {
    const size = scale * FILLED;
    return places.flatMap((place) =>
      place.boards.map((board, index) => {
        const { x, y } = corner(place, index, this.plan);
        return { board, x: x * scale, y: y * scale, width: size, height: size };
      }),
    );
  }

  /** Fills the boxes: what is free lightly, what is taken solid and as high as the board is full. */
  fill(context, boxes) {
    const bars = new Map();
    const add = (colour, ...bar) => {
      if (!bars.has(colour)) bars.set(colour, []);
      bars.get(colour).push(bar);
    };
    for (const { board, x, y, width, height } of boxes) {
      const { base, full } = this.colour(board);
      add(base, x, y, width, height);
      if (board.fill > 0) add(full, x, y + height * (1 - board.fill), width, height * board.fill);
    }
    for (const [colour, all] of bars) {
      context.fillStyle = colour;
      context.beginPath();
      for (const bar of all) context.rect(...bar);
      context.fill();
    }
  }

  outlineSelected(context, scale) {
    const spot = this.spot(this.selected);
    if (!spot) return;
    const { x, y } = spot;
    context.strokeStyle = this.style("--text");
    context.lineWidth = 2;
    context.strokeRect(x * scale - 2, y * scale - 2, scale * FILLED + 4, scale * FILLED + 4);
  }

  drawLabels(context, places, scale) {
    const size = Math.min(13, scale * this.plan.label * 0.9);
    if (size < NAMES) return;
    context.font = `${size}px system-ui, sans-serif`;
    context.textBaseline = "alphabetic";
    const [text, bad] = [this.style("--text"), this.style("--bad")];
    for (const place of places) {
      context.fillStyle = place.node.ready && !place.node.cordoned ? text : bad;
      const suffix = place.node.ready ? (place.node.cordoned ? " (cordoned)" : "") : " (not ready)";
      const room = this.plan.block.columns * scale;
      context.fillText(cut(context, place.node.name + suffix, room), place.x * scale, (place.y + this.plan.label * 0.85) * scale);
    }
  }

  /** Draw the frames of groups, and their names as far as there is room. */
  drawFrames(context, scale) {
    const [line, page, text] = ["--line", "--page", "--text"].map((name) => this.style(name));
    context.lineWidth = 1;
    context.textBaseline = "middle";
    for (const { name, count, x, y, width, height, heading } of this.plan.frames) {
      context.fillStyle = page;
      context.strokeStyle = line;
      context.beginPath();
      context.roundRect(x * scale, y * scale, width * scale, height * scale, Math.min(10, scale / 2));
      context.fill();
      context.stroke();
      const size = Math.min(14, heading * scale * 0.7);
      if (size < READABLE || width * scale < NARROW) continue;
      context.fillStyle = text;
      context.font = `600 ${size}px system-ui, sans-serif`;
      context.fillText(cut(context, `${name || "(none)"} · ${count} ${count === 1 ? "node" : "nodes"}`, (width - 1) * scale), (x + 0.5) * scale, (y + 0.2 + heading / 2) * scale);
    }
  }

  style(name) {
    return getComputedStyle(this.canvas).getPropertyValue(name);
  }
}

/** What a board in pixels consists of, in pixels. */
const parts = ({ board, x, y, width, height }) =>
  details(board).map((part) => ({
    ...part,
    x: x + part.x * width,
    y: y + part.y * height,
    width: Math.max(1, part.width * width - 1),
    height: Math.max(1, part.height * height - 1),
  }));

function cut(context, text, room) {
  const { width } = context.measureText(text);
  if (width <= room) return text;
  return `${text.slice(0, Math.max(1, Math.floor((text.length * room) / width) - 1))}…`;
}
