"use strict";
/**
 * What a reader has set for one model: its switches, its keys, lengths and types, in words that an address can hold.
 */

class Settings {
  /** @param {Object} data all tables @param {Object<string, string>} words what an address says */
  constructor(data, words) {
    this.data = data;
    this.model = data.models.find((model) => model.name === words.m) ?? data.models[0];
    /** @type {Object<string, string>} the option of each group of switches */
    this.choices = {};
    for (const group of this.model.groups) {
      const known = group.choices.map((choice) => choice.name);
      this.choices[group.name] = known.includes(words[group.name]) ? words[group.name] : known[0];
    }
    if (this.variant() === undefined) for (const group of this.model.groups) this.choices[group.name] = group.choices[0].name;
    /** @type {Object<string, bigint>} keys that were moved */
    this.moved = {};
    for (const key of Object.keys(this.structure.keys)) if (whole_number(words[key])) this.moved[key] = BigInt(words[key]);
    this.length = whole_number(words.context) ? BigInt(words.context) : BigInt(this.model.c);
    this.batch = whole_number(words.batch) ? BigInt(words.batch) : 1n;
    this.phase = words.phase;
    this.dtype = words.dtype;
    this.cache = data.caches.includes(words.cache) ? words.cache : data.caches[0];
    this.mend();
  }

  /** @returns {number|undefined} the place of the variant that the switches make */
  variant(choices = this.choices) {
    return this.model.variants[this.model.groups.map((group) => choices[group.name]).join("|")];
  }

  /** @returns {Object} the variant that holds */
  get structure() {
    return this.model.structures[this.variant()];
  }

  /** @returns {string} why a switch has no such option here; "" where it has */
  refusal(group, choice) {
    const choices = { ...this.choices, [group]: choice };
    if (this.variant(choices) !== undefined) return "";
    return this.model.refused[this.model.groups.map((own) => choices[own.name]).join("|")];
  }

  choose(group, choice) {
    this.choices[group] = choice;
    this.mend();
  }

  /** @returns {Object<string, bigint>} every key that may move, with its value */
  get keys() {
    const own = Object.entries(this.structure.keys).map(([name, [, base]]) => [name, this.moved[name] ?? BigInt(base)]);
    return Object.fromEntries(own);
  }

  /** @returns {Setting} for Numbers */
  get setting() {
    return {
      keys: this.keys, length: this.length, batch: this.batch, phase: this.phase, dtype: this.dtype,
      cache: this.cache, modules: this.choices.mtp === "on",
    };
  }

  get numbers() {
    return new Numbers(this.data, this.structure, this.setting);
  }

  /** Takes back what is no model with the switches as they are: types, lengths, then keys. */
  mend() {
    const own = this.structure;
    if (!own.dtypes.includes(this.dtype)) this.dtype = own.dtypes[0];
    if (!Object.hasOwn(own.stages, this.phase)) this.phase = "prefill";
    const lengths = this.lengths();
    if (!lengths.includes(this.length)) this.length = nearest(lengths, this.length);
    for (const name of Object.keys(this.moved)) if (!(name in own.keys)) delete this.moved[name];
    while (Object.keys(this.moved).length > 0 && !this.holds()) delete this.moved[Object.keys(this.moved)[0]];
    if (!this.holds()) this.dtype = own.dtypes[0];
  }

  /** Whether there is such a model, with other values of keys. */
  holds(keys = {}) {
    try {
      new Numbers(this.data, this.structure, { ...this.setting, keys: { ...this.keys, ...keys } }).check();
      return true;
    } catch (error) {
      if (error instanceof NoModel) return false;
      throw error;
    }
  }

  /** @returns {bigint[]} values of a key for which there is a model */
  values(name) {
    const base = BigInt(this.structure.keys[name][1]);
    const candidates = CANDIDATES[name](base, this);
    return ordered([base, this.keys[name], ...candidates]).filter((n) => n > 0n && this.holds({ [name]: n }));
  }

  move(name, value) {
    delete this.moved[name];
    if (value !== BigInt(this.structure.keys[name][1])) this.moved[name] = value;
    this.mend();
  }

  /** @returns {bigint[]} contexts: powers of two and half between, as far as there are positions */
  lengths() {
    const step = BigInt(this.structure.step);
    const c = BigInt(this.model.c);
    const most = this.structure.longest === null ? 1n << 20n : BigInt(this.structure.longest); // of a table of positions
    const found = [c, this.structure.longest === null ? c : most];
    if (this.length <= this.longest()) found.push(this.length); // of an address or a field
    for (let n = 16n; n <= most; n *= 2n) found.push(n, n + n / 2n);
    return ordered(found).filter((n) => n % step === 0n && (n <= most || (n <= c && this.structure.longest === null)));
  }

  /** @returns {bigint} the longest context: of a table of positions its rows */
  longest() {
    const c = BigInt(this.model.c);
    if (this.structure.longest !== null) return BigInt(this.structure.longest);
    return c > 1n << 20n ? c : 1n << 20n;
  }

  /** @returns {Object<string, string>} what an address says, without what is so anyway */
  words() {
    const found = { m: this.model.name };
    for (const group of this.model.groups) {
      if (this.choices[group.name] !== group.choices[0].name) found[group.name] = this.choices[group.name];
    }
    for (const [name, value] of Object.entries(this.moved)) found[name] = String(value);
    if (this.length !== BigInt(this.model.c)) found.context = String(this.length);
    if (this.batch !== 1n) found.batch = String(this.batch);
    if (this.phase !== "prefill") found.phase = this.phase;
    if (this.dtype !== this.structure.dtypes[0]) found.dtype = this.dtype;
    if (this.cache !== this.data.caches[0]) found.cache = this.cache;
    return found;
  }

  /** @returns {string} the command that prints the same numbers */
  command() {
    const own = this.structure;
    const parts = ["gptcalc memory", this.model.name, ...own.words.map((word) => `--with ${word}`)];
    for (const [name, value] of Object.entries(this.moved)) parts.push(`--set ${own.keys[name][0]}=${value}`);
    if (this.length !== BigInt(this.model.c)) parts.push(`--context ${this.length}`);
    if (this.batch !== 1n) parts.push(`--batch ${this.batch}`);
    if (this.phase !== "prefill") parts.push(`--phase ${this.phase}`);
    if (this.dtype !== own.dtypes[0]) parts.push(`--dtype ${this.dtype}`);
    if (this.cache !== this.data.caches[0]) parts.push(`--kv-dtype ${this.cache}`);
    if (this.choices.mtp === "on") parts.push("--mtp");
    return parts.join(" ");
  }
}

/** Values of each key that are tried. */
const CANDIDATES = {
  d: (base) => {
    const unit = divisor(base, 64n);
    return eighths(base, 16n).map((n) => (n / unit) * unit);
  },
  n_heads: (base) => (base <= 16n ? range(1n, 2n * base, 1n) : eighths(base, 16n)),
  n_kv_heads: (_, settings) => {
    const heads = settings.keys.n_heads ?? 0n;
    return range(1n, heads / 2n, 1n).filter((n) => heads % n === 0n && n > 1n);
  },
  n_layers: (base, settings) => {
    const step = BigInt(settings.structure.deeper);
    if (step === 0n) return [];
    const stride = step * (1n + base / (16n * step));
    return [...range(base, 2n * base + stride, stride), ...range(stride, base, stride).map((n) => base - n)];
  },
  n_experts: (base) => [base / 4n, base / 2n, ...range(base, 4n * base, base)],
};

function eighths(base, most) {
  return range(1n, most, 1n).map((k) => (base * k) / 8n);
}

function range(first, last, step) {
  const found = [];
  for (let n = first; n <= last; n += step) found.push(n);
  return found;
}

function divisor(a, b) {
  return b === 0n ? a : divisor(b, a % b);
}

function ordered(values) {
  return [...new Set(values)].sort((a, b) => (a < b ? -1 : a > b ? 1 : 0));
}

function nearest(values, wanted) {
  const apart = (n) => (n < wanted ? wanted - n : n - wanted);
  return values.reduce((best, n) => (apart(n) < apart(best) ? n : best));
}

function whole_number(text) {
  return text !== undefined && /^[1-9]\d{0,8}$/.test(text);
}

if (typeof module !== "undefined") module.exports = { Settings };
