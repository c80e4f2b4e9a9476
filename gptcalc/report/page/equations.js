"use strict";
/** The sums of a box as formulas with their numbers, and every symbol in words. */

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
        line.tensors.some((tensor) => !tensor.counted) ? tag("span", { class: "where" }, "weights counted elsewhere") : []),
      cell(own, short), cell(flops, short), cell(kept, bytes));
  });
  return tag("section", { class: "equations", "aria-label": `Equations: ${box.title}` },
    tag("h2", {}, box.title, tag("small", {}, ` ${box.part && box.part !== box.stage.name ? `${box.part} ` : ""}of ${box.stage.name}${often}`)),
    tag("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Table of equations" },
      tag("table", {}, tag("thead", {}, tag("tr", {}, head)), tag("tbody", {}, rows))),
    legend(pane, numbers, box));
}

/** A line as MathML. */
function formula(numbers, line) {
  const holder = document.createElement("template");
  holder.innerHTML = `<math xmlns="http://www.w3.org/1998/Math/MathML">${numbers.data.maths[line.math]}</math>`;
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
      else if (kind === "number") shown.value = rest.length > 0 ? rest.join(" or ") : sized(numbers, name, box);
      else if (rest.length > 0 && rest.every((letter) => letter in own)) {
        shown.value = equal(rest.map((letter) => own[letter].over), rest.map((letter) => length(numbers, own[letter])));
      }
      found.set(name, shown);
    }
  }
  return found;
}

/** @returns {string} what a size is, where something of the box runs over it */
function sized(numbers, name, box) {
  const { data } = numbers;
  const found = box.lines.flatMap((place) => data.lines[place].indices).map((at) => data.indices[at]).find((index) => index.over === name);
  return found === undefined ? "" : grouped(length(numbers, found));
}

/** @returns {string} T × d = 1,024 × 768 = 786,432 */
function equal(words, sizes) {
  const steps = [words.join(" × "), sizes.map(grouped).join(" × "), grouped(sizes.reduce((a, b) => a * b, 1n))];
  return [...new Set(steps)].join(" = ").replace(/^(\d+) = /, "");
}

function length(numbers, index) {
  return index.size !== null ? numbers.size(index.size) : numbers.count(index.length);
}

const KINDS = { index: "Indices", value: "Values", weight: "Weights", number: "Numbers", function: "Functions" };

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
  return tag("details", { class: "symbols", open: pane.folds.symbols, ontoggle: (event) => (pane.folds.symbols = event.target.open) }, tag("summary", {}, "Symbols"), groups);
}

/** A symbol as it stands in lines: what is behind a _ above it. */
function math(name) {
  const [base, ...rest] = name.split("_");
  return [base, rest.length > 0 ? tag("sup", {}, rest.join(" ")) : []];
}
