// dq start --no-deliveries: a restored backup can be looked at without a callback and without a mail.
import { expect, it } from 'vitest';
import { startDaemon } from '../support/daemon.ts';
import { addTopic } from '../support/producing.ts';
import { reload } from '../support/reloading.ts';
import { runDq } from '../support/run-dq.ts';
import { ok, startSink, status } from '../support/sink.ts';
import { startSmtpSink } from '../support/smtp-sink.ts';
import { until } from '../support/until.ts';

it('start --no-deliveries: calls nothing, mails nothing and says so; the next start does both', async () => {
  const [smtp, sink, failing] = [await startSmtpSink(), await startSink(ok), await startSink(status(410))];
  const config = (url: string) => ({
    smtp: { url, from: 'dq@example.org' },
    alerts: { emails: ['ops@example.org'] },
  });
  // The data of a backup: one job that waits, and a dead letter whose mail is due.
  const before = await startDaemon({ config: config('smtp://127.0.0.1:1') });
  const { directory } = before;
  await addTopic(before, 't', sink.url, { state: 'paused' });
  await addTopic(before, 'dying', failing.url);
  await before.push('t', '1', { id: 'waits' });
  await before.push('dying', '1', { id: 'dies' });
  await until('a mail is due', async () => (await before.api('GET', '/v1/alerts')).body.items.length === 1);
  expect(await before.stop()).toBe(0);

  const restored = { directory, config: config(smtp.url) };
  const quiet = await startDaemon({ ...restored, args: ['--no-deliveries'] });
  const sentence = 'off, by --no-deliveries: dq calls no job and sends no alert mail';
  const isHeld = async () => {
    const { notifiers } = (await quiet.api('GET', '/v1/topics/t/capacity')).body as {
      notifiers: { reasons: { code: string }[] | null }[];
    };
    const holds = ({ reasons }: (typeof notifiers)[number]) =>
      reasons?.some(({ code }) => code === 'no_deliveries') === true;
    return notifiers.length > 0 && notifiers.every(holds);
  };
  expect((await quiet.api('POST', '/v1/topics/t/resume')).status).toBe(200);
  await quiet.push('t', '1', { id: 'new' });
  const { code } = await reload(quiet);
  expect(code).toBe(0);
  await until('every notifier of the new generation holds its jobs', isHeld);
  await until('the timer works', async () => {
    const { body } = await quiet.api('GET', '/v1/topics/t/jobs/new');
    return body.state === 'ready';
  });
  expect(quiet.output()).toContain(`deliveries: ${sentence}`);
  const ready = await quiet.api('GET', '/readyz');
  expect(ready).toMatchObject({ status: 200, body: { warnings: [`deliveries: ${sentence}`] } });
  const metrics = await fetch(`${quiet.url}/metrics`, { headers: { connection: 'close' } });
  expect(await metrics.text()).toContain('\ndq_deliveries_enabled 0\n');
  expect((await runDq(['doctor', '--data-dir', quiet.dataDir])).stdout).toContain(`deliveries: ${sentence}`);
  expect((await runDq(['status', '--data-dir', quiet.dataDir])).stderr).toContain(`deliveries: ${sentence}`);
  expect(await quiet.stop()).toBe(0);
  expect([sink.arrivals.length, smtp.mails.length]).toEqual([0, 0]);

  const after = await startDaemon(restored);
  await until(
    'the jobs arrive',
    () =>
      sink.arrivals
        .map(({ id }) => id)
        .sort()
        .join() === 'new,waits',
  );
  await until('the mail arrives', () => smtp.mails.length > 0);
  expect((await after.api('GET', '/readyz')).body.warnings).toEqual([]);
});
