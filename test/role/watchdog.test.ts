// Tests the watchdog thread in processes of its own.
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { expect, it } from 'vitest';
import { until } from '../support/until.ts';

const source = join(import.meta.dirname, '../../src/process/watchdog.ts');

/** A process with a watchdog of two ticks that then runs `body`. */
function watched(body: string): { child: ReturnType<typeof spawn>; text: () => string } {
  const script = `import { startWatchdog } from ${JSON.stringify(source)};
    const beat = startWatchdog('dq-test', 2, (error) => { throw error; });
    setInterval(beat, 500).unref();
    ${body}`;
  const child = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '-e', script], {
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  let text = '';
  for (const stream of [child.stdout, child.stderr]) stream?.on('data', (chunk: Buffer) => (text += chunk));
  return { child, text: () => text };
}

it('watchdog: ends a process with a blocked main loop, with the reason', async () => {
  const { child, text } = watched('for (;;) {}');
  expect((await once(child, 'exit'))[1]).toBe('SIGKILL');
  expect(text()).toBe('dq-test: watchdog: the main loop stood still for 2 s; process killed\n');
});

it('watchdog: keeps no idle process alive', async () => {
  const { child, text } = watched('');
  expect(await once(child, 'exit')).toEqual([0, null]);
  expect(text()).toBe('');
});

it('watchdog: spares a process that was stopped as a whole', async () => {
  // The time that passes is the condition under test: twice the ticks, with the process stopped.
  const { child, text } = watched(
    `setInterval(() => console.log('alive'), 100); process.stdin.on('end', () => process.exit(0)).resume();`,
  );
  await until('it runs', () => text().includes('alive'));
  const stopped = performance.now();
  child.kill('SIGSTOP');
  await until('4 s have passed', () => performance.now() - stopped > 4_000);
  const before = text().length;
  child.kill('SIGCONT');
  await until('it continues', () => text().length > before + 100);
  child.stdin?.end();
  expect(await once(child, 'exit')).toEqual([0, null]);
});
