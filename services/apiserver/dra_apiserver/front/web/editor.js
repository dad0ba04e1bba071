// A field for text with completions: what can follow at the cursor, chosen by keyboard or mouse.

import { useRef, useState } from "preact/hooks";
import { html } from "./html.js";

/** `text` is a signal; `complete(value, cursor)` gives `{from, options: [{text, note}]}`. */
export function Editor({ id, label, text, rows, placeholder, complete }) {
  const ref = useRef(null);
  const [open, setOpen] = useState(undefined);
  const [active, setActive] = useState(0);
  const suggest = () => {
    const found = complete(ref.current.value, ref.current.selectionStart);
    setOpen(found.options.length ? found : undefined);
    setActive(0);
  };
  const accept = (option) => {
    const { selectionStart, value } = ref.current;
    const cursor = open.from + option.text.length;
    // At once: what is typed next goes behind it.
    ref.current.value = value.slice(0, open.from) + option.text + value.slice(selectionStart);
    ref.current.setSelectionRange(cursor, cursor);
    ref.current.focus();
    text.value = ref.current.value;
    suggest();
  };
  const keys = {
    ArrowDown: () => setActive((active + 1) % open.options.length),
    ArrowUp: () => setActive((active + open.options.length - 1) % open.options.length),
    Enter: () => accept(open.options[active]),
    Tab: () => accept(open.options[active]),
    Escape: () => setOpen(undefined),
  };
  return html`<div class="editor">
    <label for=${id}>${label}</label>
    <textarea id=${id} ref=${ref} rows=${rows} spellcheck="false" autocomplete="off"
      aria-controls="options" aria-autocomplete="list" aria-activedescendant=${open ? `option-${active}` : undefined} value=${text}
      placeholder=${placeholder}
      onInput=${(event) => { text.value = event.target.value; suggest(); }}
      onKeyDown=${(event) => { if (open && event.key in keys) { event.preventDefault(); keys[event.key](); } }}
      onBlur=${() => setTimeout(() => setOpen(undefined), 150)}></textarea>
    <ul id="options" class="options" role="listbox" aria-label="Completions" hidden=${!open}>
      ${(open?.options ?? []).map((option, index) => html`<li id=${`option-${index}`} role="option" aria-selected=${index === active}
        onMouseDown=${(event) => { event.preventDefault(); accept(option); }}><code>${option.text}</code> <small>${option.note}</small></li>`)}
    </ul>
  </div>`;
}

/** Each problem with the line that it is in, and a caret under its character. */
export function Problems({ text, problems }) {
  return html`<div role="alert" class="problems">${problems.map(({ offset, message }) => {
    if (offset < 0) return html`<p class="bad">${message}</p>`;
    const before = [...text].slice(0, offset).join("");
    const start = before.lastIndexOf("\n") + 1;
    const line = text.slice(start).split("\n")[0];
    return html`<pre class="bad">${line}\n${" ".repeat(before.length - start)}^ ${message}</pre>`;
  })}</div>`;
}

/**
 * Calls `ask(text, signal)` once the keys rest, and `answered` with what it gives; an answer to an older text is dropped.
 * Gives what stops it.
 */
export function askLater(delay, ask, answered) {
  const controller = new AbortController();
  const timer = setTimeout(async () => {
    try {
      answered(await ask(controller.signal));
    } catch (error) {
      if (!controller.signal.aborted) answered({ failure: error.message });
    }
  }, delay);
  return () => {
    clearTimeout(timer);
    controller.abort();
  };
}
