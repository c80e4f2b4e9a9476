"use strict";
/** What a model costs: four figures with their parts, and the cache against the context. */

function totals(pane, numbers) {
  const params = numbers.params(), work = numbers.work(), cache = numbers.cache(), memory = numbers.memory();
  const { setting } = numbers;
  const each = next(pane.settings);
  const active = params.active === params.total ? "" : `, of which a token uses ${short(params.active)}`;
  const modules = params.mtp === 0n ? "" : `; beside them ${grouped(params.mtp)} of multi-token prediction`;
  return tag("div", { class: "totals" },
    card("Parameters", params.total, short(params.total), `${grouped(params.total)} = ${summed(numbers)}${active}${modules}`, params.components, short, apart(params)),
    card("Cache", cache.total, bytes(cache.total),
      cache.total === 0n ? "nothing is kept" : `${grouped(cache.total)} bytes; a further token of a sequence adds ${bytes(each)}`, null, bytes, growth(pane)),
    card("FLOPs", work.total, short(work.total, "FLOP"),
      `${grouped(work.total)} for ${setting.phase === "decode" ? "one more token" : `a prompt of ${grouped(setting.length)}`}${setting.batch > 1n ? ` × ${setting.batch}` : ""}`,
      work.components, (n) => short(n, "FLOP")),
    card("Memory", memory.total, bytes(memory.total), `${grouped(memory.total)} bytes; activations are an estimate`,
      { weights: memory.weights, cache: memory.cache, activations: memory.activations ?? 0n }, bytes));
}

/** @returns {Array} why a part is less than the boxes of its name: they have the norms that they read through */
function apart(params) {
  return (params.components.norm ?? 0n) === 0n ? [] : [tag("p", { class: "small" },
    "Here norms stand apart; a box of the picture and its sum have their own among their weights.")];
}

/** @returns {string} the parameters stage by stage: embedding 39.4 M + 12 layers × 7.09 M + output 1.54 k */
function summed(numbers) {
  const each = numbers.stages("prefill").filter((stage) => stage.runs !== "mtp").map((stage) => {
    const times = numbers.times(stage);
    const tensors = numbers.data.bodies[stage.body].lines.flatMap((place) => numbers.data.lines[place].tensors);
    const own = tensors.filter((tensor) => tensor.counted).reduce((sum, tensor) => sum + numbers.parameters(tensor), 0n);
    if (times === 1n) return `${stage.runs === "layer" ? "layer" : stage.name} ${short(own)}`;
    return `${grouped(times)} ${stage.runs === "encoder" ? "encoder " : ""}layers × ${short(own)}`;
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
