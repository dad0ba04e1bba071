// A device as a tile: its name and model, a bar of its memory with who has which part, and its owner.

import { colourOf } from "./colours.js";
import { html } from "./html.js";
import { memoryOf, modelOf, placesOf, segments, short } from "./segments.js";

/** A part with less than this share of the bar has no room for a label. */
const ROOM = 0.3;

/** `text` describes the board for people who do not see it. */
export function Tile({ board, text, chosen, colour, index, choose }) {
  const parts = segments(board);
  const places = placesOf(board);
  const owners = [...new Set(parts.map(({ owner }) => owner))];
  const full = colour === "state" ? undefined : colourOf(colour, board, document.body).full;
  return html`<button style=${full ? { "--hue": full } : {}} class=${`tile ${board.state}${board.stranded ? " stranded" : ""}${places > 1 ? " cut" : ""}`} aria-pressed=${chosen} aria-label=${text} title=${text}
      tabindex=${index === 0 || chosen ? 0 : -1} data-key=${board.key} onClick=${() => choose(board.key)}>
    <span class="name"><b>${board.name}</b> <small>${memoryOf(board)}</small></span>
    <span class="model">${short(modelOf(board))}</span>
    <span class="space">${[...new Set(parts.map(({ namespace }) => namespace))].join(", ")}</span>
    <span class="owner">${status(board, owners)}</span>
    <${Bar} board=${board} parts=${parts} places=${places} full=${full} /></button>`;
}

/** A trouble goes before an owner. */
function status({ state, stranded }, owners) {
  const trouble = ["waiting", "tainted", "unhealthy"].includes(state) ? state : stranded ? "stranded" : "";
  const holders = owners.join(", ");
  return [trouble, holders].filter(Boolean).join(" · ") || state;
}

function Bar({ parts, places, full }) {
  return html`<span class="bar" style=${{ "--places": places || 1 }}>
    ${parts.map(({ from, to, label, owner, state }) => html`<i class=${state} style=${{ left: `${from * 100}%`, width: `${(to - from) * 100}%`, background: full }}>${label && to - from >= ROOM ? html`<small>${label} ${owner}</small>` : ""}</i>`)}</span>`;
}
