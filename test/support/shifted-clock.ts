// A copy of the built dq whose processes have a wrong wall clock: a module that loads first shifts Date by
// the ms in a file. The monotonic clock, timers and other programs stay correct.
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { onTestFinished } from 'vitest';
import { copyDq } from './copied-dq.ts';

const moduleText = (file: string) => `
import { readFileSync } from 'node:fs';
const Right = globalThis.Date;
const rightNow = Right.now.bind(Right);
let shiftMs = 0;
let readAt = -Infinity;
const now = () => {
  const at = performance.now();
  if (at - readAt > 20) {
    readAt = at;
    shiftMs = Number(readFileSync(${JSON.stringify(file)}, 'utf8'));
  }
  return rightNow() + shiftMs;
};
globalThis.Date = new Proxy(Right, {
  construct: (target, args, fresh) => Reflect.construct(target, args.length === 0 ? [now()] : args, fresh),
  get: (target, name) => (name === 'now' ? now : Reflect.get(target, name)),
});
`;

export interface DqWithClock {
  /** its bin/dq */
  readonly launcher: string;
  /** Sets the clock of its processes this far ahead. */
  shift(ms: number): void;
}

/** The end of the test removes it. */
export function dqWithClock(ms = 0): DqWithClock {
  const directory = mkdtempSync(join(tmpdir(), 'dq-clock-'));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  copyDq(directory);
  const [file, dist] = [join(directory, 'shift'), join(directory, 'dist')];
  const shift = (to: number) => writeFileSync(file, String(to));
  shift(ms);
  writeFileSync(join(dist, 'clock.mjs'), moduleText(file));
  for (const entry of ['cli.js', 'worker.js'].map((name) => join(dist, name)))
    writeFileSync(entry, `import './clock.mjs';\n${readFileSync(entry, 'utf8')}`);
  return { launcher: join(directory, 'bin/dq'), shift };
}
