// Keeps names sorted while single names come and go, in pieces: moving 100,000 names per insert would be too
// slow.
// Invariant: every piece is sorted and not empty, and ends before the next begins.

const pieceMax = 512;

export class NameOrder {
  #pieces: string[][] = [];

  constructor(names: Iterable<string>) {
    const all = [...names].sort();
    for (let at = 0; at < all.length; at += pieceMax / 2) this.#pieces.push(all.slice(at, at + pieceMax / 2));
  }

  /** Adds a name that is not present. */
  add(name: string): void {
    if (this.#pieces.length === 0) {
      this.#pieces.push([name]);
      return;
    }
    const no = Math.min(this.#pieceOf(name), this.#pieces.length - 1);
    const piece = this.#pieces[no] as string[];
    piece.splice(firstFrom(piece, name), 0, name);
    if (piece.length > pieceMax)
      this.#pieces.splice(no, 1, piece.slice(0, pieceMax / 2), piece.slice(pieceMax / 2));
  }

  remove(name: string): void {
    const no = this.#pieceOf(name);
    const piece = this.#pieces[no] ?? [];
    const at = firstFrom(piece, name);
    if (piece[at] !== name) return;
    piece.splice(at, 1);
    if (piece.length === 0) this.#pieces.splice(no, 1);
  }

  /** At most `max` names greater than `name`. */
  after(name: string, max: number): string[] {
    const found: string[] = [];
    for (let no = this.#pieceOf(name); no < this.#pieces.length && found.length < max; no += 1) {
      const piece = this.#pieces[no] as string[];
      let at = firstFrom(piece, name);
      if (piece[at] === name) at += 1;
      found.push(...piece.slice(at, at + max - found.length));
    }
    return found;
  }

  /** Index of the first piece whose last name is `name` or greater. */
  #pieceOf(name: string): number {
    return firstWhere(this.#pieces.length, (no) => ((this.#pieces[no] as string[]).at(-1) as string) >= name);
  }
}

function firstFrom(piece: readonly string[], name: string): number {
  return firstWhere(piece.length, (at) => (piece[at] as string) >= name);
}

/** The smallest number from 0 for which `holds` is true; `end` if there is none. */
function firstWhere(end: number, holds: (no: number) => boolean): number {
  let [from, to] = [0, end];
  while (from < to) {
    const middle = (from + to) >> 1;
    if (holds(middle)) to = middle;
    else from = middle + 1;
  }
  return from;
}
