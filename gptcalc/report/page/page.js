"use strict";
/** The page: panes that show models, each with its settings, totals, picture and equations. */

const COMPONENTS = {
  embedding: "embedding", attention: "attention", recurrent: "recurrent", mlp: "feed-forward", experts: "experts",
  shared_experts: "shared experts", router: "router", norm: "norms", output: "output", other: "other",
  mtp: "multi-token prediction", weights: "weights", cache: "cache", activations: "activations",
};
const LABELS = {
  d: "Width d", n_layers: "Layers", n_heads: "Heads", n_kv_heads: "KV heads", n_experts: "Experts",
  length: "Context", batch: "Batch",
};
/** The largest batch and context that a field takes. */
const MOST = 1n << 20n;
const BATCHES = [1n, 2n, 4n, 8n, 16n, 32n, 64n, 128n, 256n];

/** @returns {string} 124439808 → 124,439,808 */
function grouped(n) {
  return String(n).replace(/\B(?=(\d{3})+$)/g, ",");
}

/** @returns {string} 124439808 → 124 M: three figures, rounded half up */
function short(n, unit = "") {
  const units = ["", "k", "M", "B", "T", "P", "E"].map((word) => (unit && word === "B" ? "G" : word));
  return scaled(n, 1000n, units, unit);
}

/** @returns {string} bytes: 37748736 → 36.0 MiB */
function bytes(n) {
  return scaled(n, 1024n, ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"], "B");
}

function scaled(n, base, words, unit) {
  let at = 0, below = 1n;
  while (at < words.length - 1 && n >= base * below) [at, below] = [at + 1, below * base];
  const value = Number((n * 10000n) / below) / 10000;
  const shown = at === 0 ? String(n) : value >= 99.95 ? value.toFixed(0) : value >= 9.995 ? value.toFixed(1) : value.toFixed(2);
  return `${shown} ${words[at]}${unit}`.trim();
}

/** An element of the page. */
function tag(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== false && value !== undefined) made.setAttribute(key, value === true ? "" : value);
  }
  made.append(...children.flat(Infinity));
  return made;
}

/** Puts fresh children in place of the old ones, all but those that hold an element that has to stay. */
function renew(old, fresh, stays) {
  const kept = [...old.childNodes].find((child) => child.contains(stays));
  const again = [...fresh.childNodes].find((child) => child.id === stays.id || child.querySelector?.(`[id="${stays.id}"]`));
  if (again === undefined) {
    old.replaceChildren(...fresh.childNodes);
    return;
  }
  for (const child of [...old.childNodes]) if (child !== kept) child.remove();
  const children = [...fresh.childNodes];
  const at = children.indexOf(again);
  kept.before(...children.slice(0, at));
  kept.after(...children.slice(at + 1));
  if (kept === stays) stays.setAttribute("aria-valuetext", again.getAttribute("aria-valuetext"));
  else renew(kept, again, stays);
}

/** One model with everything about it. */
class Pane {
  constructor(page, name, words) {
    this.page = page;
    this.name = name;
    this.settings = new Settings(page.data, words);
    this.open = undefined;
    /** @type {HTMLInputElement|undefined} the slider that is being moved: it has to stay where it is */
    this.held = undefined;
    this.folds = { controls: page.wide, symbols: true, origin: false };
    this.root = tag("section", { class: "pane", "aria-label": `Model ${name}` });
    this.root.addEventListener("click", (event) => this.clicked(event));
    this.root.addEventListener("keydown", (event) => {
      if ((event.key === "Enter" || event.key === " ") && event.target.closest("[data-box]")) {
        event.preventDefault();
        this.clicked(event);
      }
    });
  }

  clicked(event) {
    const box = event.target.closest("[data-box]");
    if (box === null) return;
    this.open = box.dataset.box;
    this.page.draw();
    document.getElementById(`${this.name}-box-${this.open}`).focus({ preventScroll: true });
    const panel = this.root.querySelector(".equations");
    if (panel.getBoundingClientRect().top > innerHeight - 80) panel.scrollIntoView({ behavior: "smooth", block: "start" });
  }

  /** The lines of this model, to mark those that another hasn't. */
  own() {
    return new Set([...this.settings.numbers.each(this.settings.phase)].map(([, , line]) => seen(this.page.data, line)));
  }

  /** Shows the model as it is set; `others`: the lines of the model beside, if there is one. */
  draw(others) {
    const numbers = this.settings.numbers;
    const { data } = this.page;
    const alone = new Set();
    if (others !== undefined) {
      for (const stage of numbers.stages()) {
        for (const place of data.bodies[stage.body].lines) if (!others.has(seen(data, data.lines[place]))) alone.add(place);
      }
    }
    const [drawing, boxes] = picture(numbers, this.open, alone, this.name);
    if (!boxes.some((box) => box.key === this.open)) {
      this.open = (boxes.find((box) => box.stage.runs === "layer") ?? boxes[0]).key;
      return this.draw(others);
    }
    const box = boxes.find((own) => own.key === this.open);
    const active = document.activeElement;
    const fresh = tag("div", {}, this.heading(), this.controls(), totals(this, numbers), origin(this, numbers),
      tag("div", { class: "drawing" }, drawing), equations(this, numbers, box, alone));
    if (this.held !== undefined && this.root.contains(this.held)) renew(this.root, fresh, this.held);
    else this.root.replaceChildren(...fresh.childNodes);
    if (active?.id && !active.isConnected) document.getElementById(active.id)?.focus({ preventScroll: true });
    return undefined;
  }

  heading() {
    const { data } = this.page;
    const id = `${this.name}-model`;
    const options = data.models.map((model) => tag("option", { value: model.name, selected: model === this.settings.model }, model.name));
    const close = this.page.panes.length < 2 ? [] :
      tag("button", { type: "button", class: "close", onclick: () => this.page.close(this) }, "Close");
    return tag("div", { class: "heading" },
      tag("label", { for: id, class: "hidden" }, "Model"),
      tag("select", { id, onchange: (event) => this.page.exchange(this, { m: event.target.value }) }, options), close,
      tag("button", { type: "button", id: `${this.name}-reset`, onclick: () => this.page.exchange(this, { m: this.settings.model.name }) }, "As published"));
  }

  controls() {
    const { settings } = this;
    const groups = settings.model.groups.filter((group) => group.choices.length > 1).map((group) =>
      this.switch(group.name, group.label, group.choices, settings.choices[group.name],
        (choice) => settings.refusal(group.name, choice), (choice) => settings.choose(group.name, choice)));
    if ("decode" in settings.structure.stages) {
      const phases = [{ name: "prefill", label: "prefill" }, { name: "decode", label: "decode, with cache" }];
      groups.push(this.switch("phase", "Pass", phases, settings.phase, () => "", (phase) => (settings.phase = phase)));
    }
    const sliders = Object.keys(settings.structure.keys).map((name) =>
      this.slider(name, settings.values(name), settings.keys[name], (value) => settings.move(name, value)));
    sliders.push(
      this.slider("length", settings.lengths(), settings.length, (value) => { settings.length = value; settings.mend(); }, LABELS.length, settings.longest()),
      this.slider("batch", ordered([...BATCHES, settings.batch]), settings.batch, (value) => (settings.batch = value), LABELS.batch, MOST),
      this.slider("dtype", settings.structure.dtypes, settings.dtype, (value) => { settings.dtype = value; settings.mend(); }, "Weights in"),
      this.slider("cache", this.page.data.caches, settings.cache, (value) => (settings.cache = value), "Cache in"),
    );
    return tag("details", { class: "controls", open: this.folds.controls, ontoggle: (event) => (this.folds.controls = event.target.open) },
      tag("summary", {}, "Settings"), tag("div", { class: "switches" }, groups), tag("div", { class: "sliders" }, sliders),
      tag("p", { class: "command" }, "The same from the command line: ", tag("code", {}, settings.command())));
  }

  switch(name, label, choices, now, refusal, choose) {
    return tag("fieldset", {}, tag("legend", {}, label), choices.map((choice) => {
      const id = `${this.name}-${name}-${choice.name}`;
      const why = refusal(choice.name);
      return tag("span", { class: "choice", title: why || undefined },
        tag("input", { type: "radio", id, name: `${this.name}-${name}`, value: choice.name, checked: choice.name === now,
          disabled: why !== "", onchange: () => this.change(() => choose(choice.name)) }),
        tag("label", { for: id }, choice.label));
    }));
  }

  /** A slider; with `most` beside it a field for any number up to that. */
  slider(name, values, now, move, label = LABELS[name], most = undefined) {
    const id = `${this.name}-${name}`;
    const shown = typeof now === "bigint" ? grouped(now) : now;
    const at = values.indexOf(now);
    return tag("div", { class: "slider" },
      tag("label", { for: id }, label), most === undefined ? tag("output", { for: id }, shown) : this.field(`${id}-exact`, `${label}, any number`, now, most, move),
      tag("input", { type: "range", id, min: 0, max: values.length - 1, step: 1, value: at, "aria-valuetext": shown,
        disabled: values.length < 2,
        oninput: (event) => {
          this.held = event.target;
          this.change(() => move(values[Number(event.target.value)]));
        },
        onchange: () => {
          this.held = undefined;
          this.page.draw();
        } }));
  }

  /** A field for an exact number; what is none leaves all as it was. */
  field(id, label, now, most, move) {
    return tag("input", { type: "number", id, class: "exact", "aria-label": label, min: 1, max: String(most), step: 1, value: String(now),
      onchange: (event) => this.change(() => {
        if (whole_number(event.target.value)) move(BigInt(event.target.value));
      }) });
  }

  change(how) {
    how();
    this.page.draw();
    const total = this.settings.numbers.params().total;
    document.getElementById("said").textContent = `${short(total)} parameters`;
  }
}

/** What makes lines of two models equal: how they read, and what they run over. */
function seen(data, line) {
  const numbers = Object.entries(line.symbols).filter(([name, [kind]]) => kind === "number" && name !== "ε");
  return `${data.maths[line.math]} ${line.where} ${line.kind} ${numbers.map(([name, [, , values]]) => `${name} ${values}`)}`;
}

// --- the page -------------------------------------------------------------------------------------------------------

class Page {
  constructor(data) {
    this.data = data;
    this.hint = document.getElementById("hint");
    this.wide = matchMedia("(min-width: 700px)").matches;
    this.panes = [];
    this.theme(stored("theme") ?? "automatic");
    document.getElementById("theme").addEventListener("click", () => this.theme(THEMES[(THEMES.indexOf(this.shown) + 1) % 3]));
    document.getElementById("beside").addEventListener("click", () => this.beside());
    addEventListener("hashchange", () => { if (location.hash !== this.hash) this.read(); });
    const place = document.getElementById("panes");
    for (const kind of ["pointerover", "focusin"]) place.addEventListener(kind, (event) => this.point(event.target));
    place.addEventListener("pointerleave", () => this.point(null));
    addEventListener("keydown", (event) => { if (event.key === "Escape") this.point(null); });
    this.read();
  }

  /** Panes as the address says, else as the page was made. */
  read() {
    const sides = decodeURIComponent(location.hash.slice(1)).split("|").filter(Boolean);
    const wanted = sides.length > 0 ? sides.slice(0, 2).map((side) => Object.fromEntries(new URLSearchParams(side)))
      : this.data.start;
    this.panes = wanted.map((words, at) => new Pane(this, "AB"[at], words));
    this.place();
  }

  place() {
    document.getElementById("panes").replaceChildren(...this.panes.map((pane) => pane.root));
    document.getElementById("panes").className = this.panes.length > 1 ? "two" : "one";
    document.getElementById("beside").hidden = this.panes.length > 1;
    this.draw();
  }

  draw() {
    const lines = this.panes.map((pane) => pane.own());
    this.panes.forEach((pane, at) => pane.draw(lines[1 - at]));
    const said = this.panes.map((pane) => new URLSearchParams(pane.settings.words()).toString()).join("|");
    this.hash = `#${said}`;
    history.replaceState(null, "", this.hash);
  }

  exchange(pane, words) {
    const at = this.panes.indexOf(pane);
    this.panes[at] = new Pane(this, pane.name, words);
    this.place();
  }

  beside() {
    const { models } = this.data;
    const now = this.panes[0].settings;
    const other = models.find((model) => model !== now.model);
    this.panes.push(new Pane(this, "B", other ? { m: other.name } : now.words()));
    this.place();
  }

  close(pane) {
    const [left] = this.panes.filter((own) => own !== pane);
    this.panes = [new Pane(this, "A", left.settings.words())];
    this.place();
  }

  theme(name) {
    this.shown = THEMES.includes(name) ? name : "automatic";
    document.documentElement.dataset.theme = this.shown;
    document.getElementById("theme").textContent = `Theme: ${this.shown}`;
    stored("theme", this.shown);
  }

  /** Lights up a symbol wherever it stands, and says what it is. */
  point(target) {
    for (const lit of document.querySelectorAll(".lit")) lit.classList.remove("lit");
    const symbol = target?.closest?.("[data-s]");
    const pane = symbol && this.panes.find((own) => own.root.contains(symbol));
    const known = pane?.symbols.get(symbol.dataset.s);
    this.hint.hidden = known === undefined;
    if (known === undefined) return;
    for (const same of pane.root.querySelectorAll(`[data-s="${CSS.escape(known.name)}"]`)) same.classList.add("lit");
    this.hint.replaceChildren(tag("b", {}, math(known.name)), ` ${known.means}`, known.value ? tag("small", {}, known.value) : "");
    const at = symbol.getBoundingClientRect();
    const left = Math.max(8, Math.min(at.left, innerWidth - this.hint.offsetWidth - 8));
    const above = at.top - this.hint.offsetHeight - 8;
    this.hint.style.translate = `${left}px ${above > 0 ? above : at.bottom + 8}px`;
  }
}

const THEMES = ["automatic", "light", "dark"];

/** What the browser keeps for the reader, where it does. */
function stored(name, value) {
  try {
    if (value !== undefined) localStorage.setItem(`gptcalc ${name}`, value);
    return localStorage.getItem(`gptcalc ${name}`);
  } catch {
    return null;
  }
}

/** @returns {Promise<Object>} the data, inflated */
async function unpacked(text) {
  const raw = Uint8Array.from(atob(text), (letter) => letter.codePointAt(0));
  const stream = new Blob([raw]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  return JSON.parse(await new Response(stream).text());
}

if (typeof document !== "undefined") {
  unpacked(document.getElementById("data").textContent).then((data) => { globalThis.page = new Page(data); });
}
