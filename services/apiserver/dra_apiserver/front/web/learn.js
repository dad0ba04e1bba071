// The lessons of `dralab learn`: a text, a task, the learner's file, and goals that follow the lesson's cluster.

import { effect, signal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { request } from "./api.js";
import { informers } from "./cluster.js";
import { html } from "./html.js";
import { Markdown } from "./markdown.js";

// How long changes of the cluster are gathered before the goals are looked at again, in milliseconds.
const TOGETHER = 250;
const NOTHING = { goals: [], advice: [], explanations: [], problem: "", solved: false };

const state = signal(undefined);
const verdict = signal(NOTHING);
const hints = signal([]);
const solution = signal("");
/** What is being done, or what went wrong. */
const busy = signal("");
const failure = signal("");

const post = (path, body = {}) => request(path, { method: "POST", body });

/** Does some work that the page waits for. */
async function work(what, doing) {
  busy.value = what;
  failure.value = "";
  try {
    await doing();
  } catch (error) {
    failure.value = error.message;
  } finally {
    busy.value = "";
  }
}

/** Another cluster: everything that the page knows of the one before is void. */
const move = (what, path, body) => work(what, () => post(path, body).then(() => location.reload()));

const check = (text) => work("Checking…", async () => show(await post("/learn/check", { text })));

function show(found) {
  verdict.value = found;
  if (!found.solved) return;
  const { lessons, lesson } = state.value;
  state.value = { lesson, lessons: lessons.map((one) => (one.number === lesson.number ? { ...one, done: true } : one)) };
}

/** Looks at the goals whenever the cluster has changed; what a check said stays, until all of them are reached. */
function follow() {
  let timer;
  const look = () =>
    request("/learn/goals").then(
      ({ goals, solved }) => busy.value || show(solved ? { ...NOTHING, goals, solved } : { ...verdict.value, goals, solved }),
      () => {},
    );
  const stop = effect(() => {
    for (const informer of Object.values(informers)) informer.version.value;
    clearTimeout(timer);
    timer = setTimeout(look, TOGETHER);
  });
  return () => {
    clearTimeout(timer);
    stop();
  };
}

export function Learn() {
  useEffect(() => {
    request("/learn/state").then(
      (found) => {
        state.value = found;
        if (!verdict.value.goals.length) verdict.value = { ...NOTHING, goals: found.lesson.goals };
      },
      (error) => (failure.value = error.message),
    );
    return follow();
  }, []);
  const { lessons, lesson } = state.value ?? {};
  return html`<section class="learn" aria-label="Lessons" aria-busy=${busy.value !== ""}>
    ${lesson && html`<${Contents} lessons=${lessons} current=${lesson.number} />`}
    <p aria-live="polite" class="note">${busy.value}</p>
    ${failure.value && html`<p class="bad" role="alert">${failure.value}</p>`}
    ${lesson && html`<div class="halves"><${Page} lesson=${lesson} /><${Work} key=${lesson.number} lesson=${lesson} lessons=${lessons} /></div>`}
  </section>`;
}

function Contents({ lessons, current }) {
  const start = (number) => move("Starting the lesson's cluster…", "/learn/lesson", { number });
  return html`<ol class="lessons" aria-label="All lessons">${lessons.map(({ number, title, done }) => html`<li>
    <button aria-current=${number === current ? "step" : undefined} disabled=${busy.value !== ""} onClick=${() => start(number)}>${number} ${title}${done && " ✓"}${done && html`<span class="hidden"> solved</span>`}</button></li>`)}</ol>`;
}

function Page({ lesson }) {
  return html`<article><h1>${lesson.title}</h1><${Markdown} text=${lesson.about} />
    <h2>Task</h2><${Markdown} text=${lesson.task} />
    ${verdict.value.solved && html`<h2>Solved</h2><${Markdown} text=${lesson.solved} />`}</article>`;
}

function Work({ lesson, lessons }) {
  const field = useRef(null);
  const waits = busy.value !== "";
  const next = lessons.find((one) => one.number > lesson.number && !one.done) ?? lessons.find((one) => !one.done && one.number !== lesson.number);
  const keys = (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
    event.preventDefault();
    if (!waits) check(field.current.value);
  };
  const { goals, problem, advice, explanations, solved } = verdict.value;
  const said = problem || advice.length || explanations.length || hints.value.length || solution.value;
  // Goals and advice come before the editor, where they are seen without scrolling.
  return html`<div>
    <h2 id="goals">Goals</h2>
    <ul class="goals" aria-labelledby="goals" aria-live="polite">${goals.map(({ text, reached }) => html`<li key=${text}><span class=${`chip ${reached ? "free" : "waiting"}`}>${reached ? "reached" : "open"}</span> ${text}</li>`)}</ul>
    <p class="controls"><button disabled=${waits} onClick=${() => check(field.current.value)}>Check</button>
      <button disabled=${waits} onClick=${() => work("", async () => (hints.value = (await post("/learn/hint")).hints))}>Hint</button>
      <button disabled=${waits} onClick=${() => work("", async () => (solution.value = (await request("/learn/solution")).text))}>Solution</button>
      <button disabled=${waits} onClick=${() => move("Starting the lesson again…", "/learn/reset")}>Begin again</button>
      ${solved && next && html`<button disabled=${waits} onClick=${() => move("Starting the lesson's cluster…", "/learn/lesson", { number: next.number })}>Next: ${next.title}</button>`}</p>
    <div class="advice" role="region" aria-label="Advice" aria-live="polite" tabindex=${said ? 0 : undefined}>${problem && html`<p class="bad">${problem}</p>`}
      ${advice.map((text) => html`<div class="change"><${Markdown} text=${text} /></div>`)}
      ${explanations.map((text) => html`<pre tabindex="0">${text}</pre>`)}
      ${solved && !next && html`<p><b>All lessons are solved.</b></p>`}
      ${hints.value.map((text, index) => html`<div class="change"><b>Hint ${index + 1}</b><${Markdown} text=${text} /></div>`)}
      ${solution.value && html`<details open><summary>Solution</summary><pre tabindex="0">${solution.value}</pre></details>`}</div>
    <div class="editor"><label for="answer">Your file, <code>${lesson.file}</code> (Ctrl+Enter checks it)</label>
      <textarea id="answer" ref=${field} rows=${Math.min(30, lesson.text.split("\n").length + 1)} spellcheck="false" autocomplete="off" defaultValue=${lesson.text} onKeyDown=${keys}></textarea></div>
    <p class="note">In the file's folder, commands of dralab mean this lesson's cluster; so do the other views here.</p>
  </div>`;
}
