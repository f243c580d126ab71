// A mail server for tests: real SMTP on a free port; keeps every accepted mail and replies as the test sets.

import type { AddressInfo } from 'node:net';
import { createServer, type Server, type Socket } from 'node:net';
import PostalMime, { type Email } from 'postal-mime';
import { SMTPServer, type SMTPServerOptions } from 'smtp-server';
import { onTestFinished } from 'vitest';
import { listening } from './listening.ts';

export interface Mail {
  readonly from: string;
  /** of the envelope, in its order */
  readonly to: readonly string[];
  readonly raw: string;
  readonly parsed: Email;
  readonly arrivedAt: number;
}

/** null = accept; a status such as 450 or 550 = reject; `cut` = close the connection without a reply */
type Judge<T> = (what: T) => number | null | 'hang' | 'cut';

export interface SmtpSink {
  readonly url: string;
  readonly port: number;
  /** accepted with 250, oldest first */
  readonly mails: readonly Mail[];
  /** addresses of every RCPT TO, accepted or not */
  readonly asked: readonly string[];
  connections(): number;
  /** sets the verdict for later mails */
  judgeSender(judge: Judge<string>): void;
  judgeAddress(judge: Judge<string>): void;
  judgeMail(judge: Judge<Mail>): void;
  /** Called when a whole mail has arrived, right before its 250. */
  onMail(listener: (mail: Mail) => void): void;
  close(): Promise<void>;
}

export async function startSmtpSink(
  options: SMTPServerOptions & { readonly port?: number } = {},
): Promise<SmtpSink> {
  const mails: Mail[] = [];
  const asked: string[] = [];
  let connections = 0;
  let judgeSender: Judge<string> = () => null;
  let judgeAddress: Judge<string> = () => null;
  let judgeMail: Judge<Mail> = () => null;
  let listener: (mail: Mail) => void = () => {};
  const sockets = new Set<Socket>();
  const answer = (verdict: ReturnType<Judge<unknown>>, done: (error?: Error | null) => void) => {
    if (verdict === 'hang') return;
    // The sockets of the one client: no test has two at a time.
    if (verdict === 'cut') for (const socket of sockets) socket.destroy();
    else if (verdict === null) done();
    else done(Object.assign(new Error(`the test set ${verdict}`), { responseCode: verdict }));
  };
  const { port: wanted = 0, ...more } = options;
  const server = new SMTPServer({
    authOptional: true,
    disabledCommands: ['STARTTLS'],
    disableReverseLookup: true,
    logger: false,
    closeTimeout: 10,
    onConnect(_session, done) {
      connections += 1;
      done();
    },
    onMailFrom: ({ address }, _session, done) => answer(judgeSender(address), done),
    onRcptTo({ address }, _session, done) {
      asked.push(address);
      answer(judgeAddress(address), done);
    },
    onData(stream, session, done) {
      const chunks: Buffer[] = [];
      stream.on('data', (chunk: Buffer) => chunks.push(chunk));
      stream.on('end', () => {
        const raw = Buffer.concat(chunks);
        void PostalMime.parse(raw).then((parsed) => {
          const { mailFrom, rcptTo } = session.envelope;
          const mail: Mail = {
            from: mailFrom === false ? '' : mailFrom.address,
            to: rcptTo.map(({ address }) => address),
            raw: raw.toString(),
            parsed,
            arrivedAt: Date.now(),
          };
          const verdict = judgeMail(mail);
          if (verdict === null) {
            mails.push(mail);
            listener(mail);
          }
          answer(verdict, done);
        });
      });
    },
    ...more,
  });
  // Some tests break connections on purpose.
  server.on('error', () => {});
  server.server.on('connection', (socket: Socket) => {
    sockets.add(socket);
    socket.on('close', () => sockets.delete(socket));
  });
  await new Promise<void>((resolve) => server.listen(wanted, '127.0.0.1', resolve));
  const { port } = server.server.address() as AddressInfo;
  let closed: Promise<void> | null = null;
  const close = () => {
    closed ??= new Promise<void>((resolve) => server.close(resolve));
    return closed;
  };
  onTestFinished(close);
  return {
    url: `${options.secure === true ? 'smtps' : 'smtp'}://127.0.0.1:${port}`,
    port,
    mails,
    asked,
    connections: () => connections,
    judgeSender: (judge) => {
      judgeSender = judge;
    },
    judgeAddress: (judge) => {
      judgeAddress = judge;
    },
    judgeMail: (judge) => {
      judgeMail = judge;
    },
    onMail: (callback) => {
      listener = callback;
    },
    close,
  };
}

/** Accepts connections and never sends anything. */
export async function startSilentServer(): Promise<{ readonly url: string; readonly port: number }> {
  const sockets = new Set<Socket>();
  const server: Server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
  });
  const port = await listening(server);
  return { url: `smtp://127.0.0.1:${port}`, port };
}
