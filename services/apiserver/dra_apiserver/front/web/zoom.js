// The buttons that make a picture larger and smaller, or fit it into the page.

import { html } from "./html.js";

export function Zoom({ larger, smaller, fit }) {
  return html`<div class="zoom views" role="group" aria-label="Zoom">
    <button onClick=${smaller} aria-label="Smaller">−</button><button onClick=${fit}>Fit</button><button onClick=${larger} aria-label="Larger">+</button></div>`;
}
