// A button that copies a text.

import { useState } from "preact/hooks";
import { html } from "./html.js";

const SHOWN = 1500;

export function Copy({ text, what }) {
  const [outcome, setOutcome] = useState("");
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
      setOutcome("Copied");
    } catch {
      // A page that was not loaded over TLS or from this machine has no clipboard.
      setOutcome("Not allowed");
    }
    setTimeout(() => setOutcome(""), SHOWN);
  };
  return html`<button class="copy" aria-label=${`Copy ${what}`} onClick=${copy}>${outcome || "Copy"}</button>`;
}
