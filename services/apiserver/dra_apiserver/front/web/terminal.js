// A terminal on a container. What draws it, xterm.js, is loaded when the first one opens.

import { useEffect, useRef, useState } from "preact/hooks";
import { execute } from "./exec.js";
import { html } from "./html.js";
import { withoutInlineStyles } from "./inlinestyles.js";
import { readOnly } from "./moments.js";

const STYLES = "/assets/xterm.css";
const dark = matchMedia("(prefers-color-scheme: dark)");

export function Terminal({ pod, container }) {
  const [command, setCommand] = useState("sh");
  const [run, setRun] = useState(0);
  const [outcome, setOutcome] = useState("");
  if (readOnly.value) return null;
  const open = (event) => {
    event.preventDefault();
    setOutcome("");
    setRun(run + 1);
  };
  return html`<form class="controls" onSubmit=${open}>
      <label>Run <input value=${command} size="12" spellcheck="false" autocapitalize="off" onInput=${(event) => setCommand(event.target.value)} /></label>
      <button>Open a terminal</button>
      ${run > 0 && html`<button type="button" onClick=${() => setRun(0)}>Close it</button>`}</form>
    ${run > 0 && html`<${Screen} key=${run} pod=${pod} container=${container} command=${words(command)} ended=${setOutcome} />
      <p class="note">Shift+Tab leaves the terminal.</p>`}
    <p aria-live="polite">${run > 0 && outcome}</p>`;
}

/** A command's words; those in quotes stay together. */
const words = (text) => [...text.matchAll(/"([^"]*)"|'([^']*)'|(\S+)/g)].map(([, a, b, c]) => a ?? b ?? c);

function Screen({ pod, container, command, ended }) {
  const ref = useRef(null);
  useEffect(() => {
    let close = () => {};
    let gone = false;
    load().then(
      (made) => gone || (close = connect(ref.current, made, { pod, container, command }, ended)),
      (error) => ended(error.message),
    );
    return () => {
      gone = true;
      close();
    };
  }, []);
  return html`<div class="shell" ref=${ref} role="group" aria-label=${`Terminal in ${container}`}></div>`;
}

async function load() {
  if (!document.querySelector(`link[href="${STYLES}"]`)) {
    const link = Object.assign(document.createElement("link"), { rel: "stylesheet", href: STYLES });
    const loaded = new Promise((done, fail) => Object.assign(link, { onload: done, onerror: fail }));
    document.head.append(link);
    await loaded;
    withoutInlineStyles();
  }
  const [{ Terminal: Xterm }, { FitAddon }] = await Promise.all([import("@xterm/xterm"), import("@xterm/addon-fit")]);
  return { Xterm, FitAddon };
}

/** Joins a terminal in `element` to a command; gives what ends both. */
function connect(element, { Xterm, FitAddon }, what, ended) {
  const screen = new Xterm({
    fontFamily: "ui-monospace, monospace",
    fontSize: 14,
    minimumContrastRatio: 4.5,
    screenReaderMode: true,
    theme: theme(),
  });
  const fit = new FitAddon();
  screen.loadAddon(fit);
  screen.open(element);
  // The shell gets every key but this one: without a mouse there has to be a way out.
  screen.attachCustomKeyEventHandler((event) => !(event.key === "Tab" && event.shiftKey));
  const session = execute(what, (bytes) => screen.write(bytes), (text) => {
    screen.options.disableStdin = true;
    ended(text);
  });
  screen.onData(session.write);
  screen.onResize(({ cols, rows }) => session.resize(cols, rows));
  const observer = new ResizeObserver(() => fit.fit());
  observer.observe(element);
  fit.fit();
  session.resize(screen.cols, screen.rows);
  screen.focus();
  const recolour = () => (screen.options.theme = theme());
  dark.addEventListener("change", recolour);
  return () => {
    dark.removeEventListener("change", recolour);
    observer.disconnect();
    session.close();
    screen.dispose();
  };
}

function theme() {
  const style = getComputedStyle(document.documentElement);
  const [background, foreground, accent] = ["--raised", "--text", "--accent"].map((name) => style.getPropertyValue(name).trim());
  return { background, foreground, cursor: foreground, cursorAccent: background, selectionBackground: accent };
}
