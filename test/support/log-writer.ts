// Runs a process that logs requests for log tests: argv = directory, each line of stdin = numbers to log as
// `n`. Prints the number of lost lines when it changes, and at the end. The directory `-` is the standard
// output, whose lines of another kind these would be.
import { createInterface } from 'node:readline';
import { openLog } from '../../src/telemetry/open-log.ts';

const directory = process.argv[2] ?? '';
const output = directory === '-' ? process.stderr : process.stdout;
const log = openLog({
  config: {
    logDir: directory,
    ...{ 'log.level': 'info', 'log.request': 'all', 'log.notify': 'all', 'log.bytesMaxPerDay': 0 },
    timezone: 'UTC',
  },
  role: 'server',
  index: 0,
  title: 'dq-server-0',
  now: () => Date.parse('2030-01-31T12:00:00Z'),
  closeMs: 60_000,
});
let reported = 0;
const telling = setInterval(() => {
  if (log.dropped() === reported) return;
  reported = log.dropped();
  output.write(`${reported} lost\n`);
}, 5);
for await (const line of createInterface({ input: process.stdin }))
  for (const n of line.split(',')) log.request({ n: Number(n), pad: 'x'.repeat(500) });
clearInterval(telling);
await log.close();
output.write(`${log.dropped()} lost at the end\n`);
