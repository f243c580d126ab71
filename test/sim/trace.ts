// What happened in a world: a hash of everything, to compare two runs of a seed, and the last sentences, to
// read a failure. The hash is FNV-1a of 32 bits, twice with different starts and factors.

export class Trace {
  #a = 0x811c9dc5;
  #b = 0x01000193;
  readonly #kept: number;
  #sentences: string[] = [];

  /** `kept`: number of sentences */
  constructor(kept: number) {
    this.#kept = kept;
  }

  get hash(): string {
    return this.#a.toString(16).padStart(8, '0') + this.#b.toString(16).padStart(8, '0');
  }

  get sentences(): readonly string[] {
    return this.#sentences.slice(-this.#kept);
  }

  number(n: number): void {
    const whole = Math.floor(n * 1_024);
    this.#mix(whole & 0xffff);
    this.#mix(Math.floor(whole / 65_536) & 0xffff);
    this.#mix(Math.floor(whole / 4_294_967_296) & 0xffff);
  }

  text(text: string): void {
    for (let i = 0; i < text.length; i += 1) this.#mix(text.charCodeAt(i));
  }

  bytes(bytes: Uint8Array): void {
    let a = this.#a;
    for (let i = 0; i < bytes.length; i += 1) a = Math.imul(a ^ (bytes[i] as number), 0x01000193);
    this.#a = a >>> 0;
    this.#mix(bytes.length);
  }

  sentence(atMs: number, sentence: string): void {
    this.text(sentence);
    if (this.#kept === 0) return;
    this.#sentences.push(`${(atMs / 1_000).toFixed(3).padStart(8)} s  ${sentence}`);
    if (this.#sentences.length > 2 * this.#kept) this.#sentences = this.#sentences.slice(-this.#kept);
  }

  #mix(n: number): void {
    this.#a = Math.imul(this.#a ^ n, 0x01000193) >>> 0;
    this.#b = (Math.imul(this.#b ^ n, 0x85ebca6b) + 0x9e3779b9) >>> 0;
  }
}
