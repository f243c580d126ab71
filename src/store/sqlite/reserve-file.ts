// The reserve file beside the store: 16 MiB that a full disk gives back, so that jobs can still be finished. Owns that one
// file. Invariant: pushes are taken only while it is there, so the room it gave back is used up by settles alone.

import { rmSync } from 'node:fs';
import { open, rename, rm, stat } from 'node:fs/promises';
import { limits } from '../../core/limits.ts';

const chunkBytes = 1024 * 1024;

export class ReserveFile {
  readonly #path: string;
  readonly #onChange: (isThere: boolean, error: unknown) => void;
  #isThere = false;
  #isMissed = false;
  #timer: NodeJS.Timeout | null = null;
  #making: Promise<void> | null = null;
  #closed = false;

  /** Told when the reserve is lost (with the reason), and when it is there again. */
  constructor(path: string, onChange: (isThere: boolean, error: unknown) => void) {
    this.#path = path;
    this.#onChange = onChange;
  }

  get isThere(): boolean {
    return this.#isThere;
  }

  /** Makes it, or goes on trying in the background. */
  async start(): Promise<void> {
    const found = await stat(this.#path).catch(() => null);
    if (found?.size === limits.reserveFileBytes) this.#isThere = true;
    else {
      this.#making = this.#make();
      await this.#making;
    }
  }

  /** At once: the caller is about to write into the room it leaves. */
  giveBack(reason: unknown): void {
    if (!this.#isThere) return;
    this.#isThere = false;
    rmSync(this.#path, { force: true });
    this.#miss(reason);
    this.#tryLater();
  }

  async close(): Promise<void> {
    this.#closed = true;
    if (this.#timer !== null) clearTimeout(this.#timer);
    await this.#making;
  }

  #tryLater(): void {
    if (this.#closed) return;
    this.#timer = setTimeout(() => {
      this.#making = this.#make();
    }, limits.reserveFileAgainMs);
  }

  /** Never rejects. Written whole under another name: a file of this name is the whole reserve. */
  async #make(): Promise<void> {
    const fresh = `${this.#path}.new`;
    try {
      const file = await open(fresh, 'w', 0o600);
      try {
        // Written, not truncated to its length: a sparse file holds no room.
        const zeros = Buffer.alloc(chunkBytes);
        for (let at = 0; at < limits.reserveFileBytes; at += chunkBytes)
          await file.write(zeros, 0, chunkBytes, at);
        await file.sync();
      } finally {
        await file.close();
      }
      await rename(fresh, this.#path);
      this.#isThere = true;
      if (this.#isMissed) this.#onChange(true, null);
      this.#isMissed = false;
    } catch (error) {
      // What is left of it is tried again in a second, whole.
      await rm(fresh, { force: true }).catch(() => undefined);
      this.#miss(error);
      this.#tryLater();
    }
  }

  #miss(reason: unknown): void {
    if (!this.#isMissed) this.#onChange(false, reason);
    this.#isMissed = true;
  }
}
