// Tests workers that die repeatedly: the exit code and the mails of a daemon that gives up. Simulated worlds
// show when it gives up, and when it continues.
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, it, onTestFinished } from 'vitest';
import { type AlteredDq, alteredDq } from '../support/altered-dq.ts';
import { startDaemon } from '../support/daemon.ts';
import { type Run, runDq } from '../support/run-dq.ts';
import { startSmtpSink } from '../support/smtp-sink.ts';
import { until } from '../support/until.ts';

type Smtp = Awaited<ReturnType<typeof startSmtpSink>>;

const configOf = (smtp: Smtp, ops: string) => ({
  smtp: { url: smtp.url, from: 'dq@example.org' },
  alerts: { emails: [ops], window: '1s' },
});
const subjectsTo = (smtp: Smtp, ops: string) =>
  smtp.mails.filter(({ to }) => to.includes(ops)).map(({ parsed }) => parsed.subject ?? '');
const lastWords = (role: string) =>
  new RegExp(
    `^dq: dq-${role} died 10 times within 60 s; the last time: dq-${role}\\S* \\(pid \\d+\\) exited with code 1.*$`,
    'm',
  );

/** `dq start -d` of a daemon whose timer `alter` breaks. */
async function startFailing(alter: (dq: AlteredDq) => void, env: Record<string, string> = {}): Promise<Run> {
  const directory = mkdtempSync(join(tmpdir(), 'dq-never-'));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  const dq = alteredDq();
  alter(dq);
  const places = ['--data-dir', join(directory, 'data'), '--log-dir', join(directory, 'logs')];
  return runDq(['start', '-d', '--port', '0', ...places], {
    cwd: directory,
    launcher: dq.launcher,
    timeoutMs: 100_000,
    env,
  });
}

async function neverReady(smtp: Smtp): Promise<void> {
  const run = await startFailing((dq) => dq.breakDown('dq-timer-0'), {
    DQ_SMTP__URL: smtp.url,
    DQ_SMTP__FROM: 'dq@example.org',
    DQ_ALERTS__EMAILS: 'never@example.org',
  });
  expect(run).toMatchObject({ code: 70, stdout: '', stderr: expect.stringMatching(lastWords('timer')) });
  // Sent by dq-upkeep before its end.
  expect(subjectsTo(smtp, 'never@example.org')).toEqual([
    expect.stringMatching(/^dq: the daemon has ended by itself: dq-timer died 10 times/),
  ]);
}

async function begin(smtp: Smtp, ops: string) {
  const dq = alteredDq();
  const config = configOf(smtp, ops);
  return { dq, config, daemon: await startDaemon({ launcher: dq.launcher, config }) };
}
type Begun = Awaited<ReturnType<typeof begin>>;

/** dq-upkeep dies, which would send the mail. */
async function noneAlive(smtp: Smtp, { dq, config, daemon }: Begun): Promise<void> {
  const workers = daemon.workers();
  dq.breakDown('dq-upkeep');
  process.kill(daemon.pidOf('dq-upkeep'), 'SIGKILL');
  await until('the daemon has given up', () => daemon.child.exitCode !== null, 90_000);
  expect(daemon.child.exitCode).toBe(70);
  // The pipe may deliver its last output after its end.
  await until('its last words', () => lastWords('upkeep').test(daemon.output()));
  expect(daemon.output()).toMatch(/Error: broken by the test/);
  expect(daemon.workers()).toEqual([]);
  expect(workers.length).toBeGreaterThan(0);
  expect(daemon.log('error')).toContainEqual(
    expect.objectContaining({ message: expect.stringMatching(/^giving up: dq-upkeep died 10 times/) }),
  );
  expect(subjectsTo(smtp, 'none@example.org')).toEqual([]);
  dq.mend('dq-upkeep');
  await startDaemon({ launcher: dq.launcher, directory: daemon.directory, config });
  await until('the next start mails it', () => subjectsTo(smtp, 'none@example.org').length === 1);
  expect(subjectsTo(smtp, 'none@example.org')[0]).toMatch(/^dq: the daemon has ended by itself: dq-upkeep/);
}

it('crash loop: exit 70 before the first ready and if no worker of the role lives', {
  timeout: 150_000,
}, async () => {
  const smtp = await startSmtpSink();
  const none = await begin(smtp, 'none@example.org');
  // In parallel: each waits for the backoff.
  await Promise.all([neverReady(smtp), noneAlive(smtp, none)]);
});
