// dq push --batch: pushes the lines of a file in order, one batch after the other. Lines travel as unchanged
// bytes, and the API validates them. A failure keeps the accepted jobs and reports their number.

import { createReadStream } from 'node:fs';
import type { BatchResultJson } from '../contract/api/push.ts';
import { messageOf } from '../core/errors.ts';
import { skipBlank } from '../core/json-span.ts';
import { hasByteOrderMark, withoutByteOrderMark } from '../core/json-text.ts';
import { limits } from '../core/limits.ts';
import { type ApiClient, ApiRefusal, type ApiReply, type Problem, sentenceOf } from './daemon/api-client.ts';
import { Exit, exitCodes } from './exit.ts';
import { cliLimits } from './limits.ts';
import { printData, say } from './output/output.ts';
import { startProgress } from './output/progress.ts';
import { type HeldReason, heldWarning } from './output/topic-words.ts';

/** Lines of one request. */
interface Batch {
  readonly bytes: Buffer;
  /** line number of each item, from 1 */
  readonly lines: readonly number[];
}

/** `source`: `-` for standard input, or a path with or without @. */
export async function pushBatch(client: ApiClient, source: string, asJson: boolean): Promise<void> {
  const progress = startProgress('pushed', null);
  let accepted = 0;
  let failed = 0;
  const held = new Map<string, HeldReason>();
  // The exit code when the reader closes the output before the end.
  process.exitCode = exitCodes.partlyFailed;
  try {
    for await (const batch of batchesOf(linesOf(source))) {
      const reply = await send(client, batch);
      accepted += reply.json.accepted;
      failed += reply.json.failed;
      progress.add(reply.json.accepted);
      if (asJson) printData(reply.text);
      printResults(reply.json, batch, asJson);
      for (const result of reply.json.results)
        if ('held' in result && result.held !== undefined) held.set(result.topic, result.held);
    }
  } catch (error) {
    if (!(error instanceof Exit) || accepted === 0) throw error;
    throw new Exit('partlyFailed', `${accepted} accepted; ${error.message}`, { cause: error });
  } finally {
    progress.stop();
    for (const [topic, why] of held) say(`dq: warning: ${heldWarning(topic, why)}`);
  }
  if (failed > 0)
    throw new Exit(accepted === 0 ? 'failed' : 'partlyFailed', `${accepted} accepted, ${failed} rejected`);
  process.exitCode = exitCodes.ok;
  say(`dq: ${accepted} accepted`);
}

async function send(client: ApiClient, batch: Batch): Promise<ApiReply<BatchResultJson>> {
  const body = { bytes: batch.bytes, contentType: 'application/x-ndjson' };
  try {
    return await client.call<BatchResultJson>({
      method: 'POST',
      path: ['v1', 'jobs'],
      body,
      needs: ['results'],
    });
  } catch (error) {
    if (!(error instanceof Exit)) throw error;
    const lines = `lines ${batch.lines[0]} to ${batch.lines.at(-1)}`;
    // The batch may be stored: without ids a repeat makes second jobs.
    const hint = isRejected(error) ? '' : ' (lines with an id can be pushed again safely)';
    throw new Exit(codeOf(error), `${lines}: ${error.message}${hint}`, { cause: error });
  }
}

/** No job of the batch is stored. */
function isRejected(error: Exit): boolean {
  return error instanceof ApiRefusal && (error.problem.status < 500 || error.problem.code === 'not_stored');
}

function codeOf(error: Exit): keyof typeof exitCodes {
  const [name] = Object.entries(exitCodes).find(([, code]) => code === error.exitCode) ?? ['failed'];
  return name as keyof typeof exitCodes;
}

/** Prints ids to stdout, errors to stderr. */
function printResults({ results }: BatchResultJson, { lines }: Batch, asJson: boolean): void {
  const ids: string[] = [];
  results.forEach((result, index) => {
    if ('code' in result) say(`dq: line ${lines[index]}: ${sentenceOf(ofLine(result))}`);
    else ids.push(result.id);
  });
  if (!asJson && ids.length > 0) printData(ids.join('\n'));
}

/** The error without its place in the request: the user knows the line of the file. */
function ofLine(problem: Problem): Problem {
  const place = /^items\[\d+\](\.|: |$)/;
  const errors = problem.errors.map((error) => ({ ...error, field: error.field.replace(place, '') }));
  return { ...problem, detail: problem.detail.replace(place, ''), errors };
}

/** At most limits.batchItemsMax lines and cliLimits.batchSendBytes, but at least one line. Yields the lines
 *  before an unreadable one, then throws. */
async function* batchesOf(lines: AsyncIterable<Buffer>): AsyncGenerator<Batch> {
  let gathered: Buffer[] = [];
  let numbers: number[] = [];
  let size = 0;
  let number = 0;
  let failure: Exit | null = null;
  const take = (): Batch => {
    const batch = { bytes: Buffer.concat(gathered), lines: numbers };
    gathered = [];
    numbers = [];
    size = 0;
    return batch;
  };
  try {
    for await (const read of lines) {
      number += 1;
      const line = number === 1 ? withoutMark(read) : read;
      // The API skips blank lines, which would shift the numbers.
      if (skipBlank(line, 0) === line.length) continue;
      const full = gathered.length === limits.batchItemsMax || size + line.length > cliLimits.batchSendBytes;
      if (full && gathered.length > 0) yield take();
      gathered.push(line);
      numbers.push(number);
      size += line.length;
    }
  } catch (error) {
    if (!(error instanceof Exit)) throw error;
    failure = error;
  }
  if (gathered.length > 0) yield take();
  if (failure !== null) throw failure;
}

/** Of the beginning of a file; says so. */
export function withoutMark(bytes: Buffer): Buffer {
  if (hasByteOrderMark(bytes)) say('dq: skipped the byte order mark at the beginning of the file');
  return withoutByteOrderMark(bytes);
}

/** Yields lines with their line breaks; adds one to the last line. */
async function* linesOf(source: string): AsyncGenerator<Buffer> {
  const path = source.startsWith('@') ? source.slice(1) : source;
  const input = (source === '-' ? process.stdin : createReadStream(path)) as AsyncIterable<Buffer>;
  let rest: Buffer[] = [];
  let size = 0;
  let number = 1;
  try {
    for await (const chunk of input) {
      let from = 0;
      for (let end = chunk.indexOf(0x0a); end >= 0; end = chunk.indexOf(0x0a, from)) {
        rest.push(chunk.subarray(from, end + 1));
        yield Buffer.concat(rest);
        rest = [];
        size = 0;
        number += 1;
        from = end + 1;
      }
      rest.push(chunk.subarray(from));
      size += chunk.length - from;
      // No daemon accepts more, and an endless line must end.
      if (size > cliLimits.pushInputBytesMax)
        throw new Exit('failed', `line ${number}: longer than ${cliLimits.pushInputBytesMax} bytes`);
    }
  } catch (error) {
    if (error instanceof Exit) throw error;
    throw new Exit('usage', `cannot read the input: ${messageOf(error)}`, { cause: error });
  }
  if (size > 0) yield Buffer.concat([...rest, Buffer.from('\n')]);
}
