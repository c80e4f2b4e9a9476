"use strict";
/** Where the parameters come from: every learned tensor with its product, box by box, so that the sum can be followed. */

function origin(pane, numbers) {
  const { data } = pane.page;
  const total = numbers.params().total;
  const boxes = numbers.stages("prefill").filter((stage) => stage.runs !== "mtp")
    .flatMap((stage, place) => sublayers(data, stage, place)).filter((box) => box.lines.some((place) => data.lines[place].tensors.length > 0));
  const parts = boxes.map((box) => part(numbers, box, boxes.some((other) => other !== box && other.title === box.title)));
  const head = ["weight", "what it is", "product", "parameters"].map((name, at) => tag("th", { scope: "col", class: at === 3 ? "n" : false }, name));
  return tag("details", { class: "origin", open: pane.folds.origin, ontoggle: (event) => (pane.folds.origin = event.target.open) },
    tag("summary", {}, `Where do the ${short(total)} parameters come from?`),
    tag("p", { class: "small" }, `${parts.filter((own) => own.whole > 0n).map((own) => `${own.title} ${grouped(own.whole)}`).join(" + ")} = ${grouped(total)}`),
    tag("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Table of weights" },
      tag("table", {}, tag("thead", {}, tag("tr", {}, head)), parts.map((own) => own.body),
        tag("tfoot", {}, tag("tr", {}, tag("th", { scope: "row", colspan: 3 }, "in all"), tag("td", { class: "n", "data-sum": "all" }, grouped(total)))))));
}

/** The tensors of one box: of one layer each, and how many layers have it. `several`: other boxes are called so, too. */
function part(numbers, box, several) {
  const { data } = numbers;
  const times = numbers.times(box.stage);
  let each = 0n, shared = 0n;
  const rows = box.lines.flatMap((place) => data.lines[place].tensors.map((tensor) => {
    const n = numbers.parameters(tensor);
    if (tensor.counted && tensor.shared) shared += n;
    else if (tensor.counted) each += n;
    return weight(numbers, data.lines[place], tensor, n);
  }));
  const whole = times * each + shared;
  const { name } = box.stage;
  const alike = name.endsWith(box.title.toLowerCase()) ? name[0].toUpperCase() + name.slice(1) : `${box.title} (${name})`;
  const title = several ? alike : box.title;
  const often = [...(times * each > 0n || shared === 0n ? [times === 1n ? grouped(each) : `${grouped(each)} × ${grouped(times)} layers`] : []),
    ...(shared > 0n ? [`${grouped(shared)} that all layers share`] : [])];
  const body = tag("tbody", {},
    tag("tr", { class: `c-${box.component} part` }, tag("th", { scope: "rowgroup", colspan: 2 }, title),
      tag("td", { class: "small" }, often.join(" + ")), tag("td", { class: "n", "data-sum": box.key }, grouped(whole))), rows);
  return { title, whole, body };
}

/** One tensor: what it is, and the product of what its indices run over. */
function weight(numbers, line, tensor, n) {
  const own = Object.fromEntries(line.indices.map((at) => [numbers.data.indices[at].letter, numbers.data.indices[at]]));
  const [, word, letters] = line.symbols[tensor.name];
  const found = letters.map((letter) => own[letter]);
  const sizes = found.map((index) => grouped(length(numbers, index))).join(" × ");
  const words = found.map((index) => index.over).join(" × ");
  const product = found.length === 0 ? "1" : words === sizes ? sizes : `${words} = ${sizes}`;
  return tag("tr", { class: tensor.counted ? false : "again" },
    tag("td", { class: "w sign" }, math(tensor.name)), tag("td", {}, numbers.data.words[word]), tag("td", { class: "small" }, product),
    tag("td", { class: "n" }, tensor.counted ? grouped(n) : "counted elsewhere"));
}
