// Runs an owner of the embedded store in its own process, so that tests can kill, stop and starve it. The
// same file is both ends: forked, it runs the owner; imported, it starts and ends such processes.

import { type ChildProcess, execFileSync, fork } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import { StoreOwner } from '../../src/store/sqlite/owner/owner.ts';
import { silentLog } from '../../src/telemetry/log.ts';
import { ownerPaths } from './sqlite-store.ts';

/** Exit code after the store broke. */
export const fatalExit = 70;

const here = fileURLToPath(import.meta.url);

export class OwnerProcess {
  readonly #child: ChildProcess;
  #ended: Promise<number | null>;

  private constructor(child: ChildProcess) {
    this.#child = child;
    this.#ended = once(child, 'exit').then(([code]) => code as number | null);
  }

  /** Resolves when the owner serves; rejects with the reason if it does not start. */
  static async start(directory: string): Promise<OwnerProcess> {
    const child = fork(here, [directory], { execArgv: ['--import', 'tsx'] });
    const owner = new OwnerProcess(child);
    const [word] = (await Promise.race([once(child, 'message'), owner.#ended])) as [string];
    if (word === 'serving') return owner;
    await owner.#ended;
    throw new Error(String(word));
  }

  get pid(): number {
    return this.#child.pid as number;
  }

  /** The exit code; null: killed. */
  get ended(): Promise<number | null> {
    return this.#ended;
  }

  signal(name: 'SIGSTOP' | 'SIGCONT'): void {
    this.#child.kill(name);
  }

  async kill(): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#ended;
  }

  /** Hands over and ends. */
  async drain(): Promise<number | null> {
    this.#child.send('drain');
    return this.#ended;
  }

  /** Limits the size of its files: a write beyond it fails with EFBIG. */
  limitFileSize(bytes: number): void {
    execFileSync('prlimit', ['--pid', String(this.pid), `--fsize=${bytes}`]);
  }
}

async function serve(directory: string): Promise<void> {
  const owner = new StoreOwner({
    ...ownerPaths(directory),
    log: silentLog,
    onFatal: () => process.exit(fatalExit),
  });
  try {
    await owner.start();
  } catch (error) {
    process.send?.(String(error));
    process.disconnect();
    return;
  }
  process.send?.('serving');
  process.on('message', () => {
    owner.drain(2_000).then(
      () => process.exit(0),
      () => process.exit(1),
    );
  });
  // The test that started this process has died.
  process.on('disconnect', () => process.exit(0));
}

if (process.argv[1] === here && process.argv[2] !== undefined) await serve(process.argv[2]);
