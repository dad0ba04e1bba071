// How many cards, tiles and frames stand side by side, so that they fill the page. Pure; all lengths are pixels.

/** A frame's border, padding and heading. */
const FRAME = { across: 26, down: 50 };
const BETWEEN = 12;
/**
 * The sizes of a tile, by its width: with everything, without the model, with its name and bar, with a bar alone. `height` is the
 * tile's least height, `gap` is between tiles, and `across` and `down` are what a card adds to its tiles. style.css has the same.
 */
const SIZES = [
  { name: "large", from: 124, height: 104, gap: 6, across: 24, down: 60, small: 28 },
  { name: "medium", from: 80, height: 60, gap: 6, across: 24, down: 60, small: 28 },
  { name: "small", from: 56, height: 36, gap: 4, across: 18, down: 46, small: 10 },
  { name: "tiny", from: 0, height: 20, gap: 3, across: 14, down: 40, small: 10 },
];
/** A card that is narrower has no room for the name of its node. */
const NARROWEST = 78;
const LARGEST = 280;
const SMALLEST = 24;
/** Tiles of a page that has to be scrolled. */
const READABLE = 88;
/** A page that is narrower is scrolled anyway. */
const NARROW = 640;
const STEP = 4;

export const sizeOf = (tile) => SIZES.find(({ from }) => tile >= from);

/**
 * Return `{tile, row, columns, across, frames, size}`: the width and height of a tile, tiles in a row of a card, cards in a row of a frame, frames in a row.
 *
 * A group is `{cards, tiles}`: how many cards its frame has, and the most tiles of one of them. The tiles are as large as the
 * page lets them be. If even small ones do not fit, the page is scrolled. `zoom` makes tiles larger or smaller than that.
 */
export function arrange(groups, { width, height, framed, small = 0, zoom = 1 }) {
  const about = { groups, width, framed, small };
  let tile = LARGEST;
  while (tile > SMALLEST && (best(about, tile)?.height ?? Infinity) > height) tile -= STEP;
  if (tile <= SMALLEST || width < NARROW) tile = READABLE;
  tile = Math.max(SMALLEST, Math.min(LARGEST * 2, Math.round(tile * zoom)));
  const found = best(about, tile) ?? best(about, SMALLEST) ?? { columns: 1, across: 1, frames: 1, height: 0, rows: 1 };
  const { name, height: least } = sizeOf(tile);
  const left = Math.max(0, height - found.height) / found.rows;
  return { ...found, tile, size: name, row: Math.floor(least + Math.min(least, left)) };
}

/** The arrangement of least height for a tile width; undefined if not even one card fits across. */
function best(about, tile) {
  let found;
  for (const columns of columnsOf(Math.max(1, ...about.groups.map(({ tiles }) => tiles)))) {
    for (let frames = 1; frames <= Math.min(about.groups.length, 12); frames += 1) {
      const one = measured(about, tile, columns, frames);
      if (one && (!found || one.height < found.height)) found = one;
    }
  }
  return found;
}

/** Most machines have 4, 8 or 16 devices: their tiles fill rows of these lengths. */
const columnsOf = (most) => [...new Set([1, 2, 4, 8, 16, most].filter((one) => one <= Math.min(most, 16)))];

function measured({ groups, width, framed, small }, tile, columns, frames) {
  const frame = framed ? FRAME : { across: 0, down: 0 };
  const { gap, height: least, ...size } = sizeOf(tile);
  const inside = (width - BETWEEN * (frames - 1)) / frames - frame.across;
  const broad = Math.max(NARROWEST, columns * (tile + gap) - gap + size.across);
  const across = Math.min(Math.max(1, ...groups.map(({ cards }) => cards)), Math.floor((inside + BETWEEN) / (broad + BETWEEN)));
  if (across < 1) return undefined;
  const rowsOf = ({ cards, tiles }) => Math.ceil(cards / across) * Math.ceil(tiles / columns);
  const down = (group) => rowsOf(group) * (least + gap) + Math.ceil(group.cards / across) * (size.down + (small ? size.small : 0)) + frame.down;
  let [height, rows] = [0, 0];
  for (let first = 0; first < groups.length; first += frames) {
    const beside = groups.slice(first, first + frames);
    height += Math.max(...beside.map(down));
    rows += Math.max(...beside.map(rowsOf));
  }
  return { columns, across, frames, height, rows };
}
