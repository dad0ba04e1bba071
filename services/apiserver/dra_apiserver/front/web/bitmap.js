// The whole fleet as pixels: each board is a square of a few of them.

import { corner } from "./layout.js";

/** How many pixels a board has in each direction, with the gap after it. */
export const COARSE = 4;
const SIDE = COARSE - 1;

export class Bitmap {
  /** `colour(board)` gives a board's `base` and `full` colour. */
  constructor(colour) {
    this.colour = colour;
    this.painted = undefined;
    this.image = undefined;
    this.canvas = undefined;
  }

  /** Has all colours asked for again. */
  recolour() {
    this.painted = undefined;
  }

  /**
   * A canvas with the plan's boards, pixel by pixel: to fill so many boxes would take the browser ten times as long. Of a
   * plan that has its nodes where the last one had them, only those are painted whose boards have changed.
   */
  of(plan) {
    const { painted } = this;
    if (plan === painted) return this.canvas;
    const patched = this.fits(plan) && painted?.places.length === plan.places.length;
    if (!patched) this.clear(plan);
    const pixels = new Uint32Array(this.image.data.buffer);
    const context = this.canvas.getContext("2d");
    plan.places.forEach((place, index) => {
      const last = patched ? painted.places[index] : undefined;
      if (last && last.boards === place.boards && last.x === place.x && last.y === place.y) return;
      const box = this.box(place, plan);
      if (last) this.wipe(pixels, box);
      this.paint(pixels, place, plan);
      if (patched) context.putImageData(this.image, 0, 0, box.x, box.y, box.width, box.height);
    });
    if (!patched) context.putImageData(this.image, 0, 0);
    this.painted = plan;
    return this.canvas;
  }

  fits(plan) {
    const { width, height } = size(plan);
    return this.image?.width === width && this.image.height === height;
  }

  clear(plan) {
    const { width, height } = size(plan);
    this.image = new ImageData(width, height);
    this.canvas = new OffscreenCanvas(width, height);
  }

  /** What a place takes, in pixels. */
  box({ x, y }, { block }) {
    const left = Math.round(x * COARSE);
    const top = Math.round(y * COARSE);
    const width = Math.min(Math.floor(block.width * COARSE), this.image.width - left);
    return { x: left, y: top, width, height: Math.min(Math.floor(block.height * COARSE), this.image.height - top) };
  }

  wipe(pixels, { x, y, width, height }) {
    for (let row = y; row < y + height; row += 1) pixels.fill(0, row * this.image.width + x, row * this.image.width + x + width);
  }

  paint(pixels, place, plan) {
    place.boards.forEach((board, index) => {
      const { x, y } = corner(place, index, plan);
      const { base, full } = this.colour(board);
      const [light, solid] = [pixel(base), pixel(full)];
      const level = SIDE - Math.ceil(SIDE * board.fill);
      for (let row = 0; row < SIDE; row += 1) {
        const first = (Math.round(y * COARSE) + row) * this.image.width + Math.round(x * COARSE);
        pixels.fill(row < level ? light : solid, first, first + SIDE);
      }
    });
  }
}

const size = ({ width, height }) => ({ width: Math.max(1, Math.ceil(width * COARSE)), height: Math.max(1, Math.ceil(height * COARSE)) });

const known = new Map();
const scratch = new OffscreenCanvas(1, 1).getContext("2d", { willReadFrequently: true });

/** A CSS colour as a pixel of an ImageData. */
function pixel(colour) {
  if (!known.has(colour)) {
    scratch.clearRect(0, 0, 1, 1);
    scratch.fillStyle = colour;
    scratch.fillRect(0, 0, 1, 1);
    known.set(colour, new Uint32Array(scratch.getImageData(0, 0, 1, 1).data.buffer)[0]);
  }
  return known.get(colour);
}
