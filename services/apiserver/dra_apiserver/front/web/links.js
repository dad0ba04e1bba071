// The page's address: what follows `#/` names the view and the object, such as `pods/default/x`.

import { signal } from "@preact/signals";
import { html } from "./html.js";

const read = () => decodeURI(location.hash.replace(/^#\/?/, "")) || "fleet";

export const place = signal(read());
window.addEventListener("hashchange", () => (place.value = read()));

export const address = (to) => `#/${encodeURI(to)}`;

/** Shows another view, as a click on a link would. */
export const go = (to) => (location.hash = address(to));

export function Link({ to, children }) {
  return html`<a href=${address(to)}>${children}</a>`;
}
