// Lines over time as SVG: shares from 0 to 100 percent, each of which holds until the next point.

import { html } from "./html.js";

const WIDTH = 1000;
const HEIGHT = 240;
const LEVELS = [100, 75, 50, 25, 0];

/** `lines` are `[{name, points: [{time, share}]}]`, the oldest point first. `mark` is a moment that is shown. */
export function Chart({ lines, from, to, mark, label }) {
  const x = (time) => (Math.min(Math.max(time, from), to) - from) / (to - from || 1) * WIDTH;
  const y = (share) => HEIGHT * (1 - share);
  const times = [0, 0.25, 0.5, 0.75, 1].map((part) => from + part * (to - from));
  return html`<figure class="chart" role="img" aria-label=${label}>
    <div class="levels" aria-hidden="true">${LEVELS.map((level) => html`<span>${level} %</span>`)}</div>
    <svg viewBox=${`0 0 ${WIDTH} ${HEIGHT}`} preserveAspectRatio="none" aria-hidden="true">
      ${LEVELS.map((level) => html`<line class="grid" x1="0" x2=${WIDTH} y1=${y(level / 100)} y2=${y(level / 100)} />`)}
      ${lines.length === 1 && html`<path class="area series-1" d=${`${path(lines[0].points, x, y, to)}V${HEIGHT}H0Z`} />`}
      ${lines.map(({ points }, index) => html`<path class=${`line series-${index + 1}`} d=${path(points, x, y, to)} />`)}
      ${mark && html`<line class="mark" x1=${x(mark)} x2=${x(mark)} y1="0" y2=${HEIGHT} />`}
    </svg>
    <div class="times" aria-hidden="true">${times.map((time, index) => html`<span>${index === times.length - 1 && !mark ? "now" : new Date(time).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", ...(to - from < 600_000 ? { second: "2-digit" } : {}) })}</span>`)}</div>
  </figure>`;
}

function path(points, x, y, to) {
  const [first, ...rest] = points;
  const round = (number) => Math.round(number * 10) / 10;
  return `M0 ${round(y(first.share))}${rest.map(({ time, share }) => `H${round(x(time))}V${round(y(share))}`).join("")}H${round(x(to))}`;
}
