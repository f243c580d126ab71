// Tests a daemon that gives up: what `dq start -d` prints, its exit code, and the mail of the next start.
// Simulated worlds show when a daemon gives up, and when it continues; role/incidents the mail of dq-upkeep
// that lives.
import { expect, it, onTestFinished } from 'vitest';
import { startDaemon } from '../support/daemon.ts';
import { misbehaving } from '../support/misbehaving.ts';
import { runDq } from '../support/run-dq.ts';
import { startSmtpSink } from '../support/smtp-sink.ts';
import { temporaryDirectory } from '../support/sqlite-store.ts';
import { until } from '../support/until.ts';

it('crash loop: exit 70 with the reason, and no process; the next start mails it', async () => {
  const smtp = await startSmtpSink();
  const subjects = () => smtp.mails.map(({ parsed }) => parsed.subject ?? '');
  const { path: directory, remove } = temporaryDirectory();
  onTestFinished(remove);
  const { execArgv, env, breakDown, mend } = misbehaving();
  const config = {
    smtp: { url: smtp.url, from: 'dq@example.org' },
    alerts: { emails: ['ops@example.org'], window: '1s' },
  };
  breakDown('dq-upkeep');
  const places = ['--data-dir', `${directory}/data`, '--log-dir', `${directory}/logs`];
  const given = {
    DQ_SMTP__URL: smtp.url,
    DQ_SMTP__FROM: config.smtp.from,
    DQ_ALERTS__EMAILS: 'ops@example.org',
  };
  const run = await runDq(['start', '-d', '--port', '0', ...places], {
    ...{ cwd: directory, execArgv, env: { ...env, ...given }, isProcess: true },
  });
  const reason =
    /^dq: dq-upkeep died 10 times within 60 s; the last time: dq-upkeep \(pid \d+\) exited with code 1.*$/m;
  expect(run).toMatchObject({ code: 70, stdout: '', stderr: expect.stringMatching(reason) });
  expect(subjects()).toEqual([]);
  mend('dq-upkeep');
  const daemon = await startDaemon({ directory, config, execArgv, env });
  const errors = daemon.log('error').map(({ message }) => message);
  expect(errors).toContainEqual(expect.stringMatching(/^giving up: dq-upkeep died 10 times/));
  await until('the next start mails it', () => subjects().length === 1);
  expect(subjects()).toEqual([expect.stringMatching(/^dq: the daemon has ended by itself: dq-upkeep/)]);
});
