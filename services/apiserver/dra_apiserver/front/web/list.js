// A list of objects as a table: sorted by any column, filtered by words, in pages, and walked through with j and k.

import { useMemo } from "preact/hooks";
import { html } from "./html.js";
import { param } from "./links.js";
import { matcher, sortBy } from "./order.js";

// More rows than a screen has, and few enough to draw again at every change.
const PAGE = 100;

export const filter = param("q");
const sorting = param("sort");
const page = param("page", "1");

/**
 * `columns` are `{id, title, text(row), cell(row), value(row), wide}`: `text` is what filters look at, `cell` what is shown
 * if that is more, `value` what sorts if that is different. Columns that are `wide` are left out on narrow screens. Filters look
 * at the `labels` of a row, too. Rows are in the order given until a column is chosen.
 */
export function List({ label, columns, rows, id, hint, note, empty, controls }) {
  const wanted = filter.value.trim();
  const shown = useMemo(() => arranged(rows, columns, wanted, sorting.value), [rows, wanted, sorting.value]);
  const pages = Math.max(1, Math.ceil(shown.length / PAGE));
  const current = Math.min(pages, Math.max(1, Number(page.value) || 1));
  const first = (current - 1) * PAGE;
  return html`<div class="controls"><label>Filter <input type="search" class="filter" value=${filter.value} placeholder=${hint} onInput=${(event) => typed(event.target.value)} /></label>
      ${controls}<p>${note}</p></div>
    <div class="list"><table class="rows" aria-label=${label}><thead><tr>${columns.map((column) => html`<${Heading} key=${column.id} column=${column} />`)}</tr></thead><tbody>
      ${shown.slice(first, first + PAGE).map((row) => html`<${Row} key=${id(row)} row=${row} columns=${columns} />`)}
    </tbody></table></div>
    ${!shown.length && html`<p class="empty">${rows.length ? "Nothing matches the filter." : empty}</p>`}
    ${pages > 1 && html`<nav class="pager" aria-label="Pages"><button disabled=${current === 1} onClick=${() => (page.value = String(current - 1))}>Previous</button>
      <span>${first + 1}–${Math.min(shown.length, first + PAGE)} of ${shown.length}</span>
      <button disabled=${current === pages} onClick=${() => (page.value = String(current + 1))}>Next</button></nav>`}`;
}

function typed(text) {
  page.type("1");
  filter.type(text);
}

function arranged(rows, columns, wanted, sort) {
  const matches = matcher(wanted);
  const found = wanted ? rows.filter((row) => matches(`${columns.map((column) => column.text?.(row) ?? "").join(" ")} ${row.labels ?? ""}`)) : rows;
  const column = columns.find(({ id }) => id === sort.replace(/^-/, ""));
  return column ? sortBy(found, column.value ?? column.text, sort[0] === "-" ? -1 : 1) : found;
}

function Heading({ column: { id, title, wide } }) {
  const way = { [id]: "ascending", [`-${id}`]: "descending" }[sorting.value];
  const next = { ascending: `-${id}`, descending: "" }[way] ?? id;
  return html`<th aria-sort=${way ?? "none"} class=${wide ? "wide" : undefined}><button class="sort" onClick=${() => (sorting.value = next)}>${title}<span aria-hidden="true">${{ ascending: " ↑", descending: " ↓" }[way] ?? ""}</span></button></th>`;
}

function Row({ row, columns }) {
  return html`<tr>${columns.map(({ id, text, cell, wide, kind }) => html`<td key=${id} class=${[wide && "wide", kind].filter(Boolean).join(" ") || undefined}>${cell ? cell(row) : text(row)}</td>`)}</tr>`;
}
