// test/role/intake-batch.test.ts covers what a batch may hold; this file how much of it dq parses at once.
import { expect, it } from 'vitest';
import { DqError } from '../../src/core/errors.ts';
import { useCaseLimits } from '../../src/use-cases/limits.ts';
import { type BatchFormat, readBatch } from '../../src/use-cases/read-batch.ts';

const { batchStepBytes, itemBytesMore } = useCaseLimits;
const bodyBytesMax = 1_000;
const formats: readonly BatchFormat[] = ['json', 'ndjson'];

function batchOf(items: readonly string[], format: BatchFormat): Buffer {
  return Buffer.from(format === 'json' ? `[${items.join()}]` : items.join('\n'));
}

it('one job instead of a list: says how a list begins, and which call takes one job', async () => {
  await expect(readBatch(Buffer.from('{"topic":"t","body":1}'), 'json', bodyBytesMax)).rejects.toThrow(
    /must be a JSON list of jobs, such as \[\{.*POST \/v1\/topics\/TOPIC\/jobs takes one job$/,
  );
});

/** Turns of the event loop until the batch is read. */
async function turnsOf(bytes: Buffer, format: BatchFormat): Promise<number> {
  let turns = 0;
  const count = () => {
    turns += 1;
    immediate = setImmediate(count);
  };
  let immediate = setImmediate(count);
  try {
    await readBatch(bytes, format, bodyBytesMax);
  } finally {
    clearImmediate(immediate);
  }
  return turns;
}

it.each(formats)('batch of %s: the event loop turns while dq parses it', async (format) => {
  const item = `{"topic":"t","body":1,"backoff":[${'[],'.repeat(10_000)}1]}`;
  const bytes = batchOf(Array<string>(100).fill(item), format);
  expect(await turnsOf(bytes, format)).toBeGreaterThan(bytes.length / batchStepBytes / 2);
});

it('batch of json: the event loop turns within one long item', async () => {
  const bytes = Buffer.from(`[{"topic":"t","body":[${'[],'.repeat(batchStepBytes)}1]}]`);
  expect(await turnsOf(bytes, 'json')).toBeGreaterThan(1);
});

it.each(formats)(
  'batch of %s: an item larger than any job is one error, and no value is made',
  async (format) => {
    const good = '{"topic":"t","body":1}';
    const long = 'x'.repeat(itemBytesMore);
    const items = [
      ...[good, `{"topic":"t","body":[${'1,'.repeat(itemBytesMore)}1]}`, good],
      ...[`{"topic":"t","body":1,"backoff":["${long}"]}`, `{"topic":"t","body":1,"${long}":1}`, good],
    ];
    const read = await readBatch(batchOf(items, format), format, bodyBytesMax);
    expect(read.map((item) => (item instanceof DqError ? [item.code, item.message] : item.topic))).toEqual([
      't',
      ['body_too_large', expect.stringMatching(/^items\[1\]: has \d+ bytes.*limits\.bodyBytes.*send less/)],
      't',
      ['invalid', expect.stringMatching(/^items\[3\]: has \d+ bytes beside its body.*send shorter values/)],
      ['invalid', expect.stringMatching(/^items\[4\]: has \d+ bytes beside its body/)],
      't',
    ]);
  },
);

it('batch: a body of the longest escapes fits into a job', async () => {
  const body = '\\u0061'.repeat(bodyBytesMax);
  const item = `{"topic":"t","contentType":"text/plain","b\\u006fdy":"${body}"}`;
  const [read] = await readBatch(Buffer.from(`[${item}]`), 'json', bodyBytesMax);
  expect(read).toMatchObject({ topic: 't', request: { body: Buffer.from('a'.repeat(bodyBytesMax)) } });
});
