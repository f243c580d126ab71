// Reads the header of a SQLite file without SQLite, which replays a WAL as soon as it opens the file.
// Hazard: not for a file that this process has open. Closing it here would drop the POSIX locks of the
// process.

import { closeSync, openSync, readSync, statSync } from 'node:fs';

/** The first 100 bytes, padded with zeros. */
export function readHeader(path: string): Buffer {
  const header = Buffer.alloc(100);
  const fd = openSync(path, 'r');
  try {
    readSync(fd, header, 0, header.length, 0);
  } finally {
    closeSync(fd);
  }
  return header;
}

/** Why the WAL beside a file with this header belongs to another file; null: it does not. Counts on a close
 *  with `journal_mode = DELETE`: the header says 2 from before the WAL exists until after it is removed. */
export function foreignLogText(path: string, header: Buffer): string | null {
  const logSize = statSync(`${path}-wal`, { throwIfNoEntry: false })?.size ?? 0;
  if (header[18] !== 1 || logSize === 0) return null;
  return `${path} was closed, but ${path}-wal belongs to another file: move it away, or restore the file that it belongs to`;
}
