// The Markdown that lessons use: paragraphs, lists, code blocks, `code` and **bold**. Text stays text.

import { html } from "./html.js";

export function Markdown({ text }) {
  return text.split(/\n{2,}/).filter((one) => one.trim()).map((one) => html`<${Block} text=${one} />`);
}

function Block({ text }) {
  if (text.startsWith("    ")) return html`<pre tabindex="0"><code>${text.replace(/^ {4}/gm, "")}</code></pre>`;
  if (!text.startsWith("* ")) return html`<p>${inline(text)}</p>`;
  return html`<ul>${text.split(/^\* /m).filter(Boolean).map((item) => html`<li>${inline(item)}</li>`)}</ul>`;
}

function inline(text) {
  return text.split(/(`[^`]+`|\*\*[^*]+\*\*)/).map((part) => {
    if (/^`.+`$/s.test(part)) return html`<code>${part.slice(1, -1)}</code>`;
    if (/^\*\*.+\*\*$/s.test(part)) return html`<b>${part.slice(2, -2)}</b>`;
    return part;
  });
}
