"use strict";
/**
 * What a model costs at one setting: sizes, counts and products of these, all in BigInt.
 *
 * Every formula comes with the data: a size is a sum of terms in the model's keys, a count is a polynomial of the
 * length in pieces, a line's cost is a product of such. Here they are evaluated and added up, and nothing else.
 *
 * @typedef {Object} Setting
 * @property {Object<string, bigint>} keys   the model's keys that may move: d, n_heads, …
 * @property {bigint} length                 tokens of a sequence
 * @property {bigint} batch                  sequences
 * @property {"prefill"|"decode"} phase
 * @property {string} dtype                  the weights' type
 * @property {string} cache                  the cache's type
 * @property {boolean} modules               whether multi-token prediction is counted
 */

/** A setting that is no model: a size would be a fraction. */
class NoModel extends Error {}

/** A model's variant at a setting; every number is worked out when it is asked for. */
class Numbers {
  /** @param {Object} data all tables @param {Object} structure the variant @param {Setting} setting */
  constructor(data, structure, setting) {
    this.data = data;
    this.structure = structure;
    this.setting = setting;
    this.sizes = new Map();
    this.counts = new Map();
    this.lines = new Map();
  }

  /** @returns {bigint} the size at a place of the table */
  size(place) {
    if (!this.sizes.has(place)) this.sizes.set(place, evaluated(this.data.sizes[place][1], this.setting.keys));
    return this.sizes.get(place);
  }

  /** @returns {bigint} the product of several sizes */
  product(places) {
    return places.reduce((product, place) => product * this.size(place), 1n);
  }

  /** @returns {bigint} the count at a place of the table, at the setting's length */
  count(place) {
    if (!this.counts.has(place)) this.counts.set(place, polynomial(this.data.counts[place], this.setting.length));
    return this.counts.get(place);
  }

  /** @returns {Object[]} the stages of a phase; multi-token prediction where it is counted */
  stages(phase = this.setting.phase) {
    return this.structure.stages[phase].filter((stage) => stage.runs !== "mtp" || this.setting.modules);
  }

  /** @returns {bigint} how often a stage stands */
  times(stage) {
    const [constant, each, below] = stage.times.map(BigInt);
    return whole(constant + each * (this.setting.keys.n_layers ?? 0n), below);
  }

  /** @returns {bigint} how often a line runs in one layer: in every pass of a loop or in some */
  passes(stage, line) {
    return BigInt(stage.passes[line.passes]);
  }

  /** @returns {bigint} what a tensor has */
  parameters(tensor) {
    return this.product(tensor.sizes);
  }

  /** @returns {bigint} multiply-adds of one line of one sequence, twice */
  flops(line) {
    return line.terms === null ? 0n : 2n * this.count(line.terms[0]) * this.product(line.terms[1]);
  }

  /** @returns {bigint} bytes that one line keeps of one sequence */
  kept(line) {
    return line.store === null ? 0n : this.size(line.store.bytes[this.setting.cache]) * this.count(line.store.rows);
  }

  /** @returns {bigint} bytes of one copy of a tensor */
  bytes(tensor) {
    const [above, below, more] = tensor.bytes[this.setting.dtype];
    return whole(this.parameters(tensor) * BigInt(above), BigInt(below)) + this.size(more);
  }

  /** Every line of every stage of a phase. */
  *each(phase) {
    for (const stage of this.stages(phase)) {
      const times = this.times(stage);
      for (const place of this.data.bodies[stage.body].lines) yield [stage, times, this.data.lines[place]];
    }
  }

  /** Parameters: total, active, by component; those of multi-token prediction beside them. */
  params() {
    const found = { total: 0n, active: 0n, mtp: 0n, components: {}, bytes: 0n };
    for (const [stage, times, line] of this.each("prefill")) {
      for (const tensor of line.tensors) {
        if (!tensor.counted) continue;
        const copies = tensor.shared ? 1n : times;
        const n = copies * this.parameters(tensor);
        found.bytes += copies * this.bytes(tensor);
        if (stage.runs === "mtp") {
          found.mtp += n;
          continue;
        }
        found.total += n;
        found.active += copies * this.product(tensor.active);
        found.components[tensor.component] = (found.components[tensor.component] ?? 0n) + n;
      }
    }
    return found;
  }

  /** FLOPs of a pass over the batch: total, attention, by component. */
  work() {
    const found = { total: 0n, attention: 0n, components: {} };
    const add = (name, line, n) => {
      if (n === 0n) return;
      found.total += n;
      if (line.attends) found.attention += n;
      found.components[name] = (found.components[name] ?? 0n) + n;
    };
    const modules = this.stages().find((stage) => stage.runs === "mtp");
    const again = modules === undefined ? 0n : this.times(modules);
    for (const [stage, times, line] of this.each(this.setting.phase)) {
      const n = this.setting.batch * times * this.passes(stage, line) * this.flops(line);
      add(stage.runs === "mtp" ? "mtp" : line.component, line, n);
      if (stage.name === "output") add("mtp", line, again * n); // each module has the shared head behind it
    }
    return found;
  }

  /** The cache of the batch: bytes, and by what is kept. */
  cache() {
    const found = { total: 0n, kinds: {} };
    for (const [stage, times, line] of this.each("prefill")) {
      if (line.store === null) continue;
      const n = this.setting.batch * times * this.passes(stage, line) * this.kept(line);
      found.total += n;
      found.kinds[line.store.kind] = (found.kinds[line.store.kind] ?? 0n) + n;
    }
    return found;
  }

  /** @returns {bigint|null} bytes of activations at the widest moment of a pass; null where they are no products */
  activations() {
    const { batch, length, phase, dtype } = this.setting;
    const rules = this.data.pass;
    const past = batch * length;
    const atOnce = !("decode" in this.structure.stages); // every token is seen at once, none comes later
    const tokens = phase === "decode" ? batch : atOnce ? past : least(past, BigInt(rules.tokens));
    const source = phase === "decode" ? 0n : batch * this.count(this.structure.source);
    const width = BigInt(rules.widths[dtype]);
    let most = 0n;
    for (const stage of this.stages()) {
      const moments = this.data.bodies[stage.body].moments;
      if (moments === null) return null;
      if (this.times(stage) === 0n) continue;
      for (const moment of moments) {
        const [token, before, logits, once, other] = moment.map((parts) => this.sum(parts));
        const elements = token * tokens + before * past + once + other * source;
        const size = width * elements + BigInt(rules.logits) * logits * least(batch, tokens);
        if (size > most) most = size;
      }
    }
    return most;
  }

  sum(parts) {
    return parts.reduce((sum, [places, n]) => sum + BigInt(n) * this.product(places), 0n);
  }

  /** Memory of one device: weights, cache, activations. */
  memory() {
    const weights = this.params().bytes, cache = this.cache().total, activations = this.activations();
    return { weights, cache, activations, total: weights + cache + (activations ?? 0n) };
  }

  /** Throws NoModel where any size of the model would be a fraction or nothing. */
  check() {
    for (const stage of this.structure.stages.prefill) {
      if (this.times(stage) < 1n) throw new NoModel(stage.name);
      for (const place of this.data.bodies[stage.body].lines) {
        const line = this.data.lines[place];
        for (const index of line.indices) {
          const size = this.data.indices[index].size;
          if (size !== null && this.size(size) < 1n) throw new NoModel();
        }
      }
    }
    this.memory();
    return this;
  }
}

/** @returns {bigint} terms in the keys, each a fraction; NoModel where the sum is one */
function evaluated(terms, keys) {
  let above = 0n, below = 1n;
  for (const [n, m, powers] of terms) {
    let top = BigInt(n), bottom = BigInt(m);
    for (const [name, power] of Object.entries(powers)) {
      if (power > 0) top *= keys[name] ** BigInt(power);
      else bottom *= keys[name] ** BigInt(-power);
    }
    above = above * bottom + top * below;
    below *= bottom;
  }
  return whole(above, below);
}

/** @returns {bigint} a polynomial in pieces at a length */
function polynomial(pieces, length) {
  let found = pieces[0];
  for (const piece of pieces) if (BigInt(piece[0]) <= length) found = piece;
  const sum = found[2].reduceRight((sum, n) => sum * length + BigInt(n), 0n);
  return whole(sum, BigInt(found[1]));
}

/** @returns {bigint} a ratio that must be whole */
function whole(above, below) {
  if (above % below !== 0n) throw new NoModel("a fraction");
  return above / below;
}

function least(a, b) {
  return a < b ? a : b;
}

if (typeof module !== "undefined") module.exports = { Numbers, NoModel, evaluated, polynomial };
