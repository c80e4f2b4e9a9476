"use strict";
/** A model as a picture: from tokens to probabilities, the residual stream as its spine, a box for each sublayer. */

/** What sublayers are called, by what their weights are for. */
const TITLES = {
  attention: "Attention", recurrent: "Recurrent mixer", mlp: "Feed-forward", experts: "Experts", embedding: "Embedding",
  output: "Output", norm: "Norm", other: "Beside",
};
const WIDE = 400, SPINE = 46, LEFT = 92, RIGHT = 388, HIGH = 78, GAP = 26;

/**
 * The sublayers of a stage: lines that follow each other and belong together.
 * @returns {Object[]} {stage, part, title, component, lines, key}
 */
function sublayers(data, stage, place) {
  const found = [];
  for (const number of data.bodies[stage.body].lines) {
    const line = data.lines[number];
    const last = found.at(-1);
    const alone = stage.runs === "once";
    if (last !== undefined && (alone || last.part === line.part)) last.lines.push(number);
    else found.push({ stage, part: line.part, lines: [number] });
  }
  found.forEach((box, at) => {
    const own = box.lines.map((number) => data.lines[number].component).filter((name) => name !== "norm");
    box.component = stage.name.endsWith("embedding") ? "embedding" : stage.name.endsWith("output") ? "output"
      : ["attention", "recurrent", "experts", "mlp"].find((name) => own.includes(name)) ?? own[0] ?? "norm";
    const latent = box.lines.some((number) => data.lines[number].store?.kind === "latent");
    const across = box.lines.some((number) => data.lines[number].indices.some((place) => data.indices[place].hue === "source"));
    box.title = latent ? "Latent attention" : across ? "Cross-attention" : TITLES[box.component] ?? box.component;
    box.key = `${place}.${at}`;
  });
  return found;
}

/** @returns {Object} parameters of one copy, FLOPs and bytes kept by the lines of a box */
function costs(numbers, box) {
  const found = { params: 0n, flops: 0n, kept: 0n, caches: false };
  for (const number of box.lines) {
    const line = numbers.data.lines[number];
    for (const tensor of line.tensors) if (tensor.counted) found.params += numbers.parameters(tensor);
    found.flops += numbers.flops(line);
    found.kept += numbers.kept(line);
    if (line.store !== null) found.caches = true;
  }
  return found;
}

/**
 * The picture of a model.
 * @param {Numbers} numbers @param {string|undefined} open the box that is open @param {Set<number>} alone lines that
 * the other model doesn't have @param {string} name of the pane, for ids
 * @returns {[SVGElement, Object[]]} the picture and its boxes
 */
function picture(numbers, open, alone, name) {
  const { data, setting } = numbers;
  const stages = numbers.stages();
  const total = numbers.params().total;
  const boxes = [], shapes = [], frames = [];
  let y = 14;
  const text = (x, at, words, className, anchor = "start") =>
    element("text", { x, y: at, class: className, "text-anchor": anchor }, [words]);
  const spine = [];
  const line = (d, className) => element("path", { d, class: className });

  shapes.push(element("rect", { x: 8, y, width: 76, height: 26, rx: 13, class: "end" }), text(SPINE, y + 17, "tokens", "ends", "middle"));
  y += 26;
  const from = y;
  stages.forEach((stage, place) => {
    const own = sublayers(data, stage, place);
    const repeated = stage.runs !== "once";
    y += repeated ? 22 : 14;
    const top = y;
    if (repeated) y += 30;
    for (const box of own) {
      box.at = y;
      const end = y + HIGH;
      const differs = box.lines.some((number) => alone.has(number));
      const cost = costs(numbers, box);
      Object.assign(box, cost);
      const [into, out] = [y + 20, end - 16];
      if (repeated) {
        shapes.push(line(`M${SPINE} ${into}H${LEFT - 5}`, "flow"), head(LEFT - 1, into, "right"));
        shapes.push(line(`M${LEFT} ${out}H${SPINE + 14}`, "flow"), head(SPINE + 10, out, "left"));
        spine.push(out);
      } else if (place === 0) {
        shapes.push(line(`M${SPINE} ${into}H${LEFT - 5}`, "flow"), head(LEFT - 1, into, "right"));
        shapes.push(line(`M${LEFT} ${out}H${SPINE + 5}`, "flow"), head(SPINE + 2, out, "left"));
      } else {
        shapes.push(line(`M${SPINE} ${into}H${LEFT - 5}`, "flow"), head(LEFT - 1, into, "right"));
      }
      boxes.push(box);
      shapes.push(drawn(numbers, box, total, open === box.key, differs, name));
      y = end + GAP;
    }
    y -= GAP;
    if (repeated) {
      y += 12;
      const times = numbers.times(stage);
      frames.push(element("rect", { x: 4, y: top, width: WIDE - 8, height: y - top, rx: 14, class: "frame" }));
      const label = stage.runs === "mtp" ? "multi-token prediction" : `${times === 1n ? "" : `${grouped(times)} × `}${stage.name}`;
      frames.push(text(LEFT, top + 20, label, "times"));
      const each = own.reduce((sum, box) => sum + box.params, 0n);
      frames.push(text(RIGHT - 6, top + 20, `${short(each)} each`, "quiet", "end"));
    } else if (stage.name === "output") {
      const middle = (LEFT + RIGHT) / 2;
      shapes.push(line(`M${middle} ${y}V${y + 12}`, "flow"), head(middle, y + 16, "down"),
        element("rect", { x: middle - 92, y: y + 18, width: 184, height: 26, rx: 13, class: "end" }),
        text(middle, y + 35, result(data, stage), "ends", "middle"));
      y += 44;
    }
  });
  const stop = boxes.at(-1).at + 20;
  const stream = [
    line(`M${SPINE} ${from}V${stop}`, "spine"),
    ...spine.flatMap((at) => [
      element("circle", { cx: SPINE, cy: at, r: 9, class: "plus" }),
      line(`M${SPINE - 5} ${at}h10M${SPINE} ${at - 5}v10`, "sign"),
    ]),
  ];
  const label = element("text", { x: 0, y: 0, class: "along", transform: `translate(${SPINE - 15} ${(from + Math.min(stop, from + 220)) / 2 + 70}) rotate(-90)` }, [
    "x: ", element("tspan", { class: "h-token" }, [grouped(numbers.count(tokens(data, setting.phase, numbers)))]), " × ",
    element("tspan", { class: "h-stream" }, [grouped(width(numbers))]),
  ]);
  const svg = element("svg", { viewBox: `0 0 ${WIDE} ${y + 8}`, class: "picture", role: "group",
    "aria-label": "The data flow, from tokens to probabilities. Each box opens its equations." },
    [...frames, ...stream, label, ...shapes]);
  return [svg, boxes];
}

/** @returns {string} what a model gives in the end */
function result(data, stage) {
  const made = data.bodies[stage.body].lines.map((place) => data.lines[place].left);
  return made.includes("prob") ? "probability of every token" : made.includes("labels") ? "score of every label" : "states of the tokens";
}

/** A count that says how many new tokens there are, and the width of the stream, as the lines of the picture have them. */
function tokens(data, phase, numbers) {
  return found(numbers, (index) => index.hue === "token" && index.length !== null).length;
}

function width(numbers) {
  return numbers.size(found(numbers, (index) => index.hue === "stream").size);
}

function found(numbers, wanted) {
  for (const [, , line] of numbers.each(numbers.setting.phase)) {
    for (const place of line.indices) if (wanted(numbers.data.indices[place])) return numbers.data.indices[place];
  }
  throw new Error("no such index");
}

/** One box, which is a button. */
function drawn(numbers, box, total, isOpen, differs, name) {
  const { data } = numbers;
  const copies = numbers.times(box.stage);
  const whole = box.params * copies;
  const wide = RIGHT - LEFT;
  const share = total === 0n ? 0 : Number((whole * 10000n) / total) / 10000;
  const facts = letters(numbers, box);
  const cost = box.params === 0n ? "no weights" : copies === 1n ? short(whole) : `${short(box.params)} × ${grouped(copies)} = ${short(whole)}`;
  const spoken = `${box.title}${differs ? ", differs from the other model" : ""}: ${cost} parameters, ` +
    `${(100 * share).toFixed(1)} % of all${box.caches ? ", keeps a cache" : ""}`;
  const group = element("g", {
    class: `box c-${box.component}${isOpen ? " open" : ""}${differs ? " differs" : ""}`, role: "button", tabindex: 0,
    "aria-label": spoken, "aria-expanded": String(isOpen), "data-box": box.key, id: `${name}-box-${box.key}`,
  }, [
    element("rect", { x: LEFT, y: box.at, width: wide, height: HIGH, rx: 10, class: "body" }),
    element("path", { d: `M${LEFT + 10} ${box.at}h-2a8 8 0 0 0 -8 8v${HIGH - 16}a8 8 0 0 0 8 8h2z`, class: "edge" }),
    element("text", { x: LEFT + 20, y: box.at + 23, class: "title" }, [box.title]),
    element("text", { x: RIGHT - 12, y: box.at + 23, class: "amount", "text-anchor": "end" }, [
      ...(differs ? [element("tspan", { class: "mark" }, ["differs"]), "  "] : []), `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`]),
    element("text", { x: LEFT + 20, y: box.at + 42, class: "facts" }, facts),
    element("text", { x: LEFT + 20, y: box.at + 60, class: "cost" }, [cost]),
    element("rect", { x: LEFT + 20, y: box.at + HIGH - 11, width: wide - 40, height: 4, rx: 2, class: "rail" }),
    element("rect", { x: LEFT + 20, y: box.at + HIGH - 11, width: Math.max(share > 0 ? 2 : 0, (wide - 40) * share), height: 4, rx: 2, class: "share" }),
  ]);
  if (box.caches) group.append(store(RIGHT - 34, box.at + 44));
  return group;
}

/** The indices of a box, each in its colour, with what they run over. */
function letters(numbers, box) {
  const seen = new Map();
  for (const number of box.lines) {
    for (const place of numbers.data.lines[number].indices) {
      const index = numbers.data.indices[place];
      if (index.size !== null && index.hue !== "stream" && !seen.has(index.letter)) seen.set(index.letter, index);
    }
  }
  const parts = [];
  let room = 36;
  for (const index of [...seen.values()].filter((own) => own.hue !== "other")) {
    const words = `${index.letter} = ${grouped(numbers.size(index.size))}`;
    room -= words.length + 2;
    if (room < 0) break;
    if (parts.length > 0) parts.push("  ");
    parts.push(element("tspan", { class: `h-${index.hue}`, "data-s": index.letter }, [words]));
  }
  return parts.length > 0 ? parts : ["over the stream"];
}

/** A drum: something is kept. */
function store(x, y) {
  return element("g", { class: "store", "aria-hidden": "true" }, [
    element("path", { d: `M${x} ${y}v12c0 4 20 4 20 0v-12` }), element("ellipse", { cx: x + 10, cy: y, rx: 10, ry: 3.5 }),
  ]);
}

function head(x, y, way) {
  const turned = { right: `M${x} ${y}l-6 -4v8z`, left: `M${x} ${y}l6 -4v8z`, down: `M${x} ${y}l-4 -6h8z` };
  return element("path", { d: turned[way], class: "head" });
}

/** An element of SVG. */
function element(name, attributes, children = []) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}
