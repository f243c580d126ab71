// dq sink: receives callbacks and prints one line for each.

import type { Command } from 'commander';
import { formatDuration, formatInstant } from '../../core/duration.ts';
import { messageOf } from '../../core/errors.ts';
import { SinkKeys } from '../../sink/signature-check.ts';
import { openSink, type Sink, type SinkAnswer, type SinkReport } from '../../sink/sink-server.ts';
import { Exit } from '../exit.ts';
import { durationOf, gather, wholeOf } from '../flags.ts';
import { colors, escapeControls, excerpt, printData, say } from '../output/output.ts';

interface SinkFlags {
  readonly port: string;
  readonly host: string;
  readonly status: string;
  readonly reply: string;
  readonly delay: string;
  readonly secret: readonly string[];
  readonly json?: boolean;
}

/** Characters of a body in a line. */
const excerptMax = 120;

export function register(program: Command): void {
  program
    .command('sink')
    .description('receive callbacks for a trial and print one line per request')
    .option('--port <port>', 'port; 0 = a free one', '9000')
    .option('--host <address>', 'address to listen on', '127.0.0.1')
    .option('--status <status>', 'HTTP status of the reply', '200')
    .option('--reply <text>', 'body of the reply', '{"code":200}')
    .option('--delay <duration>', 'wait before the reply', '0')
    .option(
      '--secret <secret>',
      'secret for the signature check: whsec_…, TOPIC=whsec_… or trial; repeatable',
      gather,
      [],
    )
    .option('--json', 'one JSON object per request')
    .action(runSink);
}

async function runSink(flags: SinkFlags): Promise<void> {
  const answer = answerOf(flags);
  const keys = new SinkKeys();
  for (const text of flags.secret) {
    const wrong = keys.add(text);
    if (wrong !== null) throw new Exit('usage', `--secret: ${wrong}`);
  }
  const port = wholeOf('--port', flags.port, 0, 65_535);
  const print = flags.json ? jsonLine : textLine;
  const sink = await open(() =>
    openSink({ host: flags.host, port, answer, keys, onRequest: (report) => printData(print(report)) }),
  );
  const wait = answer.delayMs === 0 ? '' : ` after ${formatDuration(answer.delayMs)}`;
  say(`dq sink: ${sink.url} answers ${answer.status} ${escapeControls(answer.text)}${wait}; Ctrl-C ends it`);
  await new Promise<void>((resolve) => {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, resolve);
  });
  await sink.close();
}

async function open(listen: () => Promise<Sink>): Promise<Sink> {
  try {
    return await listen();
  } catch (error) {
    throw new Exit('failed', `cannot listen: ${messageOf(error)}`, { cause: error });
  }
}

function answerOf(flags: SinkFlags): SinkAnswer {
  const delayMs = durationOf('--delay', flags.delay);
  let contentType = 'application/json';
  try {
    JSON.parse(flags.reply);
  } catch {
    contentType = 'text/plain; charset=utf-8';
  }
  return {
    status: wholeOf('--status', flags.status, 200, 599),
    text: flags.reply,
    contentType,
    // Every sender gives up within an hour; a timer of weeks would overflow and fire at once.
    delayMs: Math.min(delayMs, 3_600_000),
  };
}

/** `16:53:07.120  POST /close  order.close  018f…  attempt 1/10  late 12ms  signature ok  {"order":1}` */
function textLine(report: SinkReport): string {
  const attempt = report.attempt === null ? '-' : `${report.attempt}/${report.maxAttempts ?? '?'}`;
  return [
    colors.dim(timeOfDay(report.at)),
    `${report.method} ${escapeControls(excerpt(report.path, excerptMax))}`,
    escapeControls(report.topic ?? '-'),
    escapeControls(report.id ?? '-'),
    `attempt ${attempt}`,
    latenessOf(report.latenessMs),
    `signature ${coloured(report.signature)}`,
    bodyText(report.body),
  ].join('  ');
}

function latenessOf(ms: number | null): string {
  if (ms === null) return 'late -';
  return ms < 0 ? `early ${formatDuration(-ms)}` : `late ${formatDuration(ms)}`;
}

function coloured(signature: SinkReport['signature']): string {
  if (signature === 'not checked') return signature;
  return signature === 'ok' ? colors.green(signature) : colors.red(signature);
}

function bodyText(body: Buffer): string {
  if (body.length === 0) return '(empty)';
  const text = utf8Of(body);
  return text === null ? `(${body.length} bytes, not text)` : escapeControls(excerpt(text, excerptMax));
}

function utf8Of(body: Buffer): string | null {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(body);
  } catch {
    return null;
  }
}

function timeOfDay(at: number): string {
  const time = new Date(at);
  const two = (n: number) => String(n).padStart(2, '0');
  return `${two(time.getHours())}:${two(time.getMinutes())}:${two(time.getSeconds())}.${String(at % 1_000).padStart(3, '0')}`;
}

/** The body like in the API: text in `body`, anything else in `bodyBase64`. */
function jsonLine(report: SinkReport): string {
  const { at, body, rawHeaders: _, ...rest } = report;
  const text = utf8Of(body);
  const shown = text === null ? { bodyBase64: body.toString('base64') } : { body: text };
  return JSON.stringify({ time: formatInstant(at), ...rest, ...shown });
}
