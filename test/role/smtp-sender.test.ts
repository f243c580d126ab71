// Sends one mail to a real mail server: answers for each address, failures, hostile text.
import { describe, expect, it } from 'vitest';
import { type Answers, type MailTimes, openMailSender } from '../../src/mail/smtp-sender.ts';
import { selfSigned } from '../support/self-signed.ts';
import { startSilentServer, startSmtpSink } from '../support/smtp-sink.ts';

const open = (url: string, times?: MailTimes) => {
  const sender = openMailSender({ 'smtp.url': url, 'smtp.from': 'dq@example.org' }, times);
  if (sender === null) throw new Error('no sender');
  return sender;
};
const mailTo = (...to: string[]) => ({ to, subject: 'dq: 1 job died: t', text: 'a line\nänother\n' });
/** `failed` if every address failed */
const kinds = (answers: Answers) => {
  const all = [...answers].map(([address, { kind }]) => [address, kind]);
  return all.every(([, kind]) => kind === 'failed') ? 'failed' : Object.fromEntries(all);
};
/** the answer for a@x.org */
const answerOf = async (answers: Promise<Answers>) => (await answers).get('a@x.org');

describe('smtp-sender: mail', () => {
  it('goes to every address at once, as plain text', async () => {
    const smtp = await startSmtpSink();
    const sent = await open(smtp.url).send(mailTo('a@x.org', 'B@X.org'));
    expect(kinds(sent)).toEqual({ 'a@x.org': 'accepted', 'B@X.org': 'accepted' });
    expect(smtp.mails).toHaveLength(1);
    const [mail] = smtp.mails;
    expect(mail?.from).toBe('dq@example.org');
    expect(mail?.to.map((address) => address.toLowerCase())).toEqual(['a@x.org', 'b@x.org']);
    expect(mail?.parsed).toMatchObject({
      subject: 'dq: 1 job died: t',
      from: { name: 'dq', address: 'dq@example.org' },
      text: 'a line\nänother\n',
      attachments: [],
    });
    expect(mail?.parsed.html).toBeUndefined();
    expect(mail?.raw).toMatch(/^Auto-Submitted: auto-generated\r?$/m);
    expect(mail?.raw).toMatch(/^Content-Type: text\/plain/m);
  });

  it('returns accepted, deferred and rejected addresses together', async () => {
    const smtp = await startSmtpSink();
    smtp.judgeAddress((address) => ({ 'Late@x.org': 450, 'gone@x.org': 550 })[address] ?? null);
    const sent = await open(smtp.url).send(mailTo('a@x.org', 'Late@x.org', 'gone@x.org'));
    expect(kinds(sent)).toEqual({ 'a@x.org': 'accepted', 'Late@x.org': 'deferred', 'gone@x.org': 'refused' });
    expect(smtp.mails.map(({ to }) => to)).toEqual([['a@x.org']]);
  });

  it.each([
    [
      'every address is deferred or rejected',
      (s: Smtp) => s.judgeAddress((a) => (a === 'a@x.org' ? 451 : 550)),
      'deferred',
      'refused',
    ],
    ['the text is deferred', (s: Smtp) => s.judgeMail(() => 452), 'deferred', 'deferred'],
    ['the text is rejected', (s: Smtp) => s.judgeMail(() => 554), 'refused', 'refused'],
  ] as const)('%s: returns that for each address', async (_, judge, first, second) => {
    const smtp = await startSmtpSink();
    judge(smtp);
    const sent = await open(smtp.url).send(mailTo('a@x.org', 'b@x.org'));
    expect(kinds(sent)).toEqual({ 'a@x.org': first, 'b@x.org': second });
    expect(smtp.mails).toEqual([]);
  });

  it.each([450, 550])('a sender rejected with %d fails the whole mail', async (status) => {
    const smtp = await startSmtpSink();
    smtp.judgeSender(() => status);
    expect(kinds(await open(smtp.url).send(mailTo('a@x.org')))).toBe('failed');
  });

  it('rejects an invalid address without a connection', async () => {
    const smtp = await startSmtpSink();
    const sender = open(smtp.url);
    for (const to of ['a@x.org\r\nRCPT TO:<b@x.org>', 'a@x.org, b@x.org', '<a@x.org>', ''])
      await expect(sender.send(mailTo('c@x.org', to))).rejects.toThrow('invalid mail address');
    expect(smtp.connections()).toBe(0);
  });

  it('line breaks in the subject add no header', async () => {
    const smtp = await startSmtpSink();
    const subject = 'x\r\nBcc: evil@x.org\r\n\r\nbody\u0000\u007f';
    await open(smtp.url).send({ to: ['a@x.org'], subject, text: '.\r\n.\r\nMAIL FROM:<evil@x.org>\r\n' });
    expect(smtp.mails).toHaveLength(1);
    expect(smtp.asked).toEqual(['a@x.org']);
    expect(smtp.mails[0]?.parsed.headers.map(({ key }) => key)).not.toContain('bcc');
    expect(smtp.mails[0]?.parsed.subject).toBe('x Bcc: evil@x.org body');
    expect(smtp.mails[0]?.parsed.text).toBe('.\n.\nMAIL FROM:<evil@x.org>\n');
  });
});

type Smtp = Awaited<ReturnType<typeof startSmtpSink>>;

describe('smtp-sender: mail server', () => {
  const short: MailTimes = { wholeMs: 3_000, connectMs: 300, idleMs: 300 };

  it('not listening: fails', async () => {
    const smtp = await startSmtpSink();
    await smtp.close();
    expect(kinds(await open(smtp.url).send(mailTo('a@x.org')))).toBe('failed');
  });

  it('silent, before its greeting or later: fails in time', async () => {
    const silent = await startSilentServer();
    expect(await answerOf(open(silent.url, short).send(mailTo('a@x.org')))).toMatchObject({
      kind: 'failed',
      // Which of the two limits comes first is chance.
      reason: expect.stringMatching(/greeting|timeout/i),
    });
    const smtp = await startSmtpSink();
    for (const hang of [
      () => smtp.judgeMail(() => 'hang'),
      () => smtp.judgeAddress(() => 'hang'),
      () => smtp.judgeSender(() => 'hang'),
    ]) {
      hang();
      expect(kinds(await open(smtp.url, short).send(mailTo('a@x.org')))).toBe('failed');
    }
  });

  it('keeps talking: is cut off when the time of the mail is over', async () => {
    const smtp = await startSmtpSink();
    smtp.judgeMail(() => 'hang');
    const sent = await open(smtp.url, { wholeMs: 400, connectMs: 5_000, idleMs: 5_000 }).send(
      mailTo('a@x.org'),
    );
    expect(kinds(sent)).toBe('failed');
  });

  it('self-signed certificate: rejected unless the configuration allows it', async () => {
    const secure = await startSmtpSink({ ...selfSigned, secure: true });
    const starttls = await startSmtpSink({ ...selfSigned, disabledCommands: [] });
    for (const { url } of [secure, starttls]) {
      expect(await answerOf(open(url).send(mailTo('a@x.org')))).toMatchObject({
        kind: 'failed',
        reason: expect.stringMatching(/self.signed/i),
      });
      expect(kinds(await open(`${url}?tls.rejectUnauthorized=false`).send(mailTo('a@x.org')))).toEqual({
        'a@x.org': 'accepted',
      });
    }
    expect(kinds(await open(`${starttls.url}?ignoreTLS=true`).send(mailTo('a@x.org')))).toEqual({
      'a@x.org': 'accepted',
    });
  });

  it('without TLS: gets no password', async () => {
    const seen: string[] = [];
    const smtp = await startSmtpSink({
      authOptional: false,
      allowInsecureAuth: true,
      onAuth({ username, password }, _session, done) {
        seen.push(`${username}:${password}`);
        done(null, { user: username });
      },
    });
    const url = smtp.url.replace('//', '//user:s3cret@');
    const answer = await answerOf(open(url).send(mailTo('a@x.org')));
    expect(answer?.kind).toBe('failed');
    expect(JSON.stringify(answer)).not.toContain('s3cret');
    expect(seen).toEqual([]);
    expect(kinds(await open(`${url}?ignoreTLS=true`).send(mailTo('a@x.org')))).toEqual({
      'a@x.org': 'accepted',
    });
    expect(seen).toEqual(['user:s3cret']);
  });

  it('rejects the login: fails, and the reason shows no password', async () => {
    const smtp = await startSmtpSink({
      ...selfSigned,
      secure: true,
      authOptional: false,
      onAuth: (_auth, _session, done) => done(new Error('Invalid username or password')),
    });
    const url = `${smtp.url.replace('//', '//user:s3cret@')}?tls.rejectUnauthorized=false`;
    const answer = await answerOf(open(url).send(mailTo('a@x.org')));
    expect(answer).toMatchObject({ kind: 'failed', reason: expect.stringContaining('535') });
    expect(JSON.stringify(answer)).not.toContain('s3cret');
  });
});
