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

/** One model with everything about it. */
class Pane {
  constructor(page, name, words) {
    this.page = page;
    this.name = name;
    this.settings = new Settings(page.data, words);
    this.open = undefined;
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
    const focus = document.activeElement?.id;
    this.root.replaceChildren(
      this.heading(), this.controls(), totals(this, numbers),
      tag("div", { class: "drawing" }, drawing),
      equations(this, numbers, box, alone),
    );
    if (focus) document.getElementById(focus)?.focus({ preventScroll: true });
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
      this.slider("length", settings.lengths(), settings.length, (value) => (settings.length = value)),
      this.slider("batch", ordered([...BATCHES, settings.batch]), settings.batch, (value) => (settings.batch = value)),
      this.slider("dtype", settings.structure.dtypes, settings.dtype, (value) => { settings.dtype = value; settings.mend(); }, "Weights in"),
      this.slider("cache", this.page.data.caches, settings.cache, (value) => (settings.cache = value), "Cache in"),
    );
    return tag("details", { class: "controls", open: this.page.wide },
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

  slider(name, values, now, move, label = LABELS[name]) {
    const id = `${this.name}-${name}`;
    const shown = typeof now === "bigint" ? grouped(now) : now;
    const at = values.indexOf(now);
    return tag("div", { class: "slider" },
      tag("label", { for: id }, label), tag("output", { for: id }, shown),
      tag("input", { type: "range", id, min: 0, max: values.length - 1, step: 1, value: at, "aria-valuetext": shown,
        disabled: values.length < 2, oninput: (event) => this.change(() => move(values[Number(event.target.value)])) }));
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
  return `${data.maths[line.math]} ${line.where} ${line.kind}`;
}

// --- totals ---------------------------------------------------------------------------------------------------------

function totals(pane, numbers) {
  const params = numbers.params(), work = numbers.work(), cache = numbers.cache(), memory = numbers.memory();
  const { setting } = numbers;
  const each = next(pane.settings);
  const active = params.active === params.total ? "" : `, of which a token uses ${short(params.active)}`;
  const modules = params.mtp === 0n ? "" : `; beside them ${grouped(params.mtp)} of multi-token prediction`;
  return tag("div", { class: "totals" },
    card("Parameters", params.total, short(params.total), `${grouped(params.total)} = ${summed(numbers)}${active}${modules}`, params.components, short),
    card("Cache", cache.total, bytes(cache.total),
      cache.total === 0n ? "nothing is kept" : `${grouped(cache.total)} bytes; a further token of a sequence adds ${bytes(each)}`, null, bytes, growth(pane)),
    card("FLOPs", work.total, short(work.total, "FLOP"),
      `${grouped(work.total)} for ${setting.phase === "decode" ? "one more token" : `a prompt of ${grouped(setting.length)}`}${setting.batch > 1n ? ` × ${setting.batch}` : ""}`,
      work.components, (n) => short(n, "FLOP")),
    card("Memory", memory.total, bytes(memory.total), `${grouped(memory.total)} bytes; activations are an estimate`,
      { weights: memory.weights, cache: memory.cache, activations: memory.activations ?? 0n }, bytes));
}

/** @returns {string} the parameters stage by stage: 39.4 M + 12 × 7.09 M + 1.54 k */
function summed(numbers) {
  const each = numbers.stages("prefill").filter((stage) => stage.runs !== "mtp").map((stage) => {
    const times = numbers.times(stage);
    const tensors = numbers.data.bodies[stage.body].lines.flatMap((place) => numbers.data.lines[place].tensors);
    const own = tensors.filter((tensor) => tensor.counted).reduce((sum, tensor) => sum + numbers.parameters(tensor), 0n);
    return `${times === 1n ? "" : `${grouped(times)} × `}${short(own)}`;
  });
  return each.join(" + ");
}

/** Bytes by which the cache of one sequence grows with a token. */
function next(settings) {
  const step = BigInt(settings.structure.step);
  const at = (length) => new Numbers(settings.data, settings.structure, { ...settings.setting, length, batch: 1n }).cache().total;
  return (at(settings.length + step) - at(settings.length)) / step;
}

/** One figure: the number, in words, and its parts as a bar with a list. */
function card(title, value, large, small, parts, shown, extra = []) {
  const found = Object.entries(parts ?? {}).filter(([, n]) => n > 0n).sort(([, a], [, b]) => (a < b ? 1 : -1));
  const share = (n) => (value === 0n ? 0 : Number((n * 1000n) / value) / 10);
  return tag("article", { class: "card", "data-total": title.toLowerCase(), "data-value": String(value) },
    tag("h3", {}, title), tag("p", { class: "large" }, large), tag("p", { class: "small" }, small),
    found.length === 0 ? [] : tag("div", { class: "bar", "aria-hidden": "true" },
      found.map(([name, n]) => tag("span", { class: `c-${name}`, style: `flex-grow:${Math.max(share(n), 0.2)}` }))),
    found.length === 0 ? [] : tag("ul", { class: "parts" }, found.map(([name, n]) =>
      tag("li", { "data-part": name, "data-value": String(n) }, tag("i", { class: `c-${name}` }), tag("span", {}, COMPONENTS[name] ?? name),
        tag("b", {}, shown(n)), tag("small", {}, share(n) < 0.1 ? "<0.1 %" : `${share(n).toFixed(1)} %`)))),
    extra);
}

/** The cache against the context, of every pane. */
function growth(pane) {
  const { panes } = pane.page;
  const last = panes.flatMap(({ settings }) => [BigInt(settings.model.c), settings.length]).reduce((a, b) => (a > b ? a : b));
  const curves = panes.map(({ settings }) => ordered([...settings.lengths(), ...(settings.structure.longest === null && last % BigInt(settings.structure.step) === 0n ? [last] : [])]).filter((length) => length <= last).map((length) =>
    [length, new Numbers(settings.data, settings.structure, { ...settings.setting, length }).cache().total]));
  const most = curves.flat().reduce((most, [, n]) => (n > most ? n : most), 1n);
  const x = (length) => 8 + (264 * Number((length * 10000n) / last)) / 10000;
  const y = (n) => 84 - (74 * Number((n * 1000n) / most)) / 1000;
  const now = pane.settings.length;
  const mine = panes.indexOf(pane);
  const found = curves[mine].find(([length]) => length === now);
  return element("svg", { viewBox: "0 0 280 104", class: "growth", role: "img",
    "aria-label": `The cache against the context, up to ${bytes(most)} within ${grouped(last)} tokens` }, [
    element("path", { d: "M8 84H272", class: "axis" }),
    element("text", { x: 8, y: 99, class: "tick" }, ["0"]),
    element("text", { x: 272, y: 99, class: "tick", "text-anchor": "end" }, [`${grouped(last)} tokens`]),
    element("text", { x: 8, y: 12, class: "tick" }, [bytes(most)]),
    ...curves.map((curve, at) => element("path", { class: at === mine ? "curve" : "curve other",
      d: curve.map(([length, n], place) => `${place ? "L" : "M"}${x(length).toFixed(1)} ${y(n).toFixed(1)}`).join("") })),
    ...(found ? [element("circle", { cx: x(now), cy: y(found[1]), r: 4, class: "here" })] : []),
  ]);
}

// --- equations ------------------------------------------------------------------------------------------------------

function equations(pane, numbers, box, alone) {
  const { data } = pane.page;
  const times = numbers.times(box.stage);
  const often = times === 1n ? "" : `, in each of ${grouped(times)}`;
  const head = ["equation", "parameters", "FLOPs", "kept"].map((name, at) => tag("th", { scope: "col", class: at ? "n" : false }, name));
  const rows = box.lines.map((place) => {
    const line = data.lines[place];
    const own = line.tensors.filter((tensor) => tensor.counted).reduce((sum, tensor) => sum + numbers.parameters(tensor), 0n);
    const flops = numbers.setting.batch * numbers.flops(line);
    const kept = numbers.setting.batch * numbers.kept(line);
    const differs = alone.has(place);
    const cell = (n, how) => tag("td", { class: "n", title: n === 0n ? undefined : grouped(n) }, n === 0n ? "" : how(n));
    return tag("tr", { class: differs ? "differs" : false, "data-line": place },
      tag("td", {}, differs ? tag("span", { class: "hidden" }, "differs: ") : [], formula(numbers, line),
        line.where ? tag("span", { class: "where" }, line.where) : [],
        line.tensors.some((tensor) => !tensor.counted) ? tag("span", { class: "where" }, "weights counted above") : []),
      cell(own, short), cell(flops, short), cell(kept, bytes));
  });
  return tag("section", { class: "equations", "aria-label": `Equations: ${box.title}` },
    tag("h2", {}, box.title, tag("small", {}, ` ${box.part && box.part !== box.stage.name ? `${box.part} ` : ""}of ${box.stage.name}${often}`)),
    tag("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Table of equations" },
      tag("table", {}, tag("thead", {}, tag("tr", {}, head)), tag("tbody", {}, rows))),
    legend(pane, numbers, box));
}

/** A line as MathML, its numbers as they are now. */
function formula(numbers, line) {
  const holder = document.createElement("template");
  holder.innerHTML = `<math xmlns="http://www.w3.org/1998/Math/MathML">${numbers.data.maths[line.math]}</math>`;
  for (const number of holder.content.querySelectorAll("[data-z]")) number.textContent = String(numbers.size(Number(number.dataset.z)));
  return holder.content.firstElementChild;
}

/** Every symbol of a box once: indices with what they run over, others with their shapes. */
function symbols(numbers, box) {
  const { data } = numbers;
  const found = new Map();
  for (const place of box.lines) {
    const line = data.lines[place];
    const own = Object.fromEntries(line.indices.map((at) => [data.indices[at].letter, data.indices[at]]));
    for (const [letter, index] of Object.entries(own)) {
      const size = length(numbers, index);
      found.set(letter, { kind: "index", name: letter, hue: index.hue, means: index.means, value: equal([index.over], [size]) });
    }
    for (const [name, [kind, word, rest]] of Object.entries(line.symbols)) {
      if (found.has(name)) continue;
      const shown = { kind, name, means: data.words[word], value: "" };
      if (kind === "function") shown.definition = rest;
      else if (rest.length > 0 && rest.every((letter) => letter in own)) {
        shown.value = equal(rest.map((letter) => own[letter].over), rest.map((letter) => length(numbers, own[letter])));
      }
      found.set(name, shown);
    }
  }
  return found;
}

/** @returns {string} T × d = 1,024 × 768 = 786,432 */
function equal(words, sizes) {
  const steps = [words.join(" × "), sizes.map(grouped).join(" × "), grouped(sizes.reduce((a, b) => a * b, 1n))];
  return [...new Set(steps)].join(" = ").replace(/^(\d+) = /, "");
}

function length(numbers, index) {
  return index.size !== null ? numbers.size(index.size) : numbers.count(index.length);
}

const KINDS = { index: "Indices", value: "Values", weight: "Weights", function: "Functions" };

function legend(pane, numbers, box) {
  const { data } = numbers;
  pane.symbols = symbols(numbers, box);
  const groups = Object.entries(KINDS).map(([kind, title]) => {
    const own = [...pane.symbols.values()].filter((symbol) => symbol.kind === kind);
    if (own.length === 0) return [];
    return tag("div", {}, tag("h3", {}, title), tag("dl", { class: "legend" }, own.map((symbol) => [
      tag("dt", { "data-s": symbol.name, class: symbol.kind === "index" ? `h-${symbol.hue}` : symbol.kind === "weight" ? "w" : false }, math(symbol.name)),
      tag("dd", {}, symbol.means, symbol.value ? tag("small", {}, ` ${symbol.value}`) : [],
        (symbol.definition ?? []).map((place) =>
          tag("div", { tabindex: 0, role: "group", "aria-label": `${symbol.name}, defined` }, formula(numbers, { math: place })))),
    ])));
  });
  return tag("details", { class: "symbols", open: true }, tag("summary", {}, "Symbols"), groups);
}

/** A symbol as it stands in lines: what is behind a _ above it. */
function math(name) {
  const [base, ...rest] = name.split("_");
  return [base, rest.length > 0 ? tag("sup", {}, rest.join(" ")) : []];
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
