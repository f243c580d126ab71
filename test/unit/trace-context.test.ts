// Tests the trace context with the cases of the W3C test suite (trace-context/test/test.py), by their names.
import { describe, expect, it } from 'vitest';
import { extensionOf, optionsIn } from '../../src/core/extension.ts';
import { childOf, parentOf, readTraceContext } from '../../src/core/trace-context.ts';

const traceId = '12345678901234567890123456789012';
const spanId = '1234567890123456';
const valid = `00-${traceId}-${spanId}-01`;
const stateOf = (state: string | string[]) => readTraceContext(valid, state)?.state;

describe('traceparent', () => {
  it.each([
    ['included', valid],
    ['trace_flags: unknown ones are kept', `00-${traceId}-${spanId}-ff`],
    ['version_0xcc', `cc-${traceId}-${spanId}-01`],
    ['version_0xcc with more', `cc-${traceId}-${spanId}-01-what-the-future-will-be-like`],
    ['ows_handling', ` \t ${valid} \t`],
  ])('valid: %s', (_name, header) => {
    const context = readTraceContext(header, undefined);
    expect(context).toMatchObject({ traceId, spanId, state: '' });
    expect(parentOf(context as never)).toMatch(
      /^00-12345678901234567890123456789012-1234567890123456-(01|ff)$/,
    );
  });

  it.each([
    ['absent', undefined],
    ['duplicated, joined', `${valid}, ${valid}`],
    ['duplicated, as a list', [valid, valid]],
    ['version_0x00 with more', `${valid}-extra`],
    ['version_0x00 with a dash', `${valid}-`],
    ['version_0xcc with more and no dash', `cc-${traceId}-${spanId}-01.what`],
    ['version_0xff', `ff-${traceId}-${spanId}-01`],
    ['version_illegal_characters', `.0-${traceId}-${spanId}-01`],
    ['version_too_long', `000-${traceId}-${spanId}-01`],
    ['version_too_short', `0-${traceId}-${spanId}-01`],
    ['trace_id_all_zero', `00-${'0'.repeat(32)}-${spanId}-01`],
    ['trace_id_illegal_characters', `00-.${traceId.slice(1)}-${spanId}-01`],
    ['trace_id_too_long', `00-${traceId}3-${spanId}-01`],
    ['trace_id_too_short', `00-${traceId.slice(1)}-${spanId}-01`],
    ['trace id in upper case', `00-${'A'.repeat(32)}-${spanId}-01`],
    ['parent_id_all_zero', `00-${traceId}-${'0'.repeat(16)}-01`],
    ['parent_id_illegal_characters', `00-${traceId}-.${spanId.slice(1)}-01`],
    ['parent_id_too_long', `00-${traceId}-${spanId}7-01`],
    ['parent_id_too_short', `00-${traceId}-${spanId.slice(1)}-01`],
    ['trace_flags_illegal_characters', `00-${traceId}-${spanId}-.0`],
    ['trace_flags_too_long', `00-${traceId}-${spanId}-001`],
    ['trace_flags_too_short', `00-${traceId}-${spanId}-1`],
  ])('invalid: %s', (_name, header) => {
    expect(readTraceContext(header, 'foo=1')).toBeNull();
  });
});

describe('tracestate', () => {
  it('is kept as it came, without blanks around its members and without empty ones', () => {
    expect(stateOf('foo=1,bar=2')).toBe('foo=1,bar=2');
    expect(stateOf(['foo=1', 'bar=2'])).toBe('foo=1,bar=2');
    expect(stateOf('foo=1 \t , \t bar=2, \t baz=3')).toBe('foo=1,bar=2,baz=3');
    expect(stateOf('foo=1,,bar=2,')).toBe('foo=1,bar=2');
    expect(stateOf('')).toBe('');
    expect(stateOf('foo@bar=1,0-1_2*3/4@vendor=x')).toBe('foo@bar=1,0-1_2*3/4@vendor=x');
    expect(stateOf('a=!~ b')).toBe('a=!~ b');
  });

  it.each([
    ['duplicated_keys', 'foo=1,foo=2'],
    ['no equals sign', 'foo'],
    ['empty value', 'foo='],
    ['equals sign in a value', 'foo=bar=baz'],
    ['upper case key', 'FOO=1'],
    ['dot in a key', 'foo.bar=1'],
    ['blank before the equals sign', 'foo =1'],
    ['two vendors', 'foo@bar@baz=1'],
    ['empty vendor', 'foo@=1'],
    ['empty tenant', '@foo=1'],
    ['key of 257', `${'z'.repeat(257)}=1`],
    ['vendor of 15', `${'t'.repeat(241)}@${'v'.repeat(15)}=1`],
    ['33 members', Array.from({ length: 33 }, (_, n) => `bar${n}=1`).join(',')],
    ['a control character', 'foo=\u0001'],
  ])('is dropped whole, and the parent kept: %s', (_name, state) => {
    expect(readTraceContext(valid, state)).toEqual({ traceId, spanId, flags: 1, state: '' });
  });

  it('too long: members above 128 characters go first, then the last ones', () => {
    const long = `long=${'x'.repeat(150)}`;
    const short = Array.from({ length: 10 }, (_, n) => `k${n}=${'y'.repeat(17)}`);
    expect(stateOf([long, ...short.slice(0, 4)])).toBe([long, ...short.slice(0, 4)].join(','));
    expect(stateOf([long, ...short.slice(0, 6)])).toBe(short.slice(0, 6).join(','));
    const many = Array.from({ length: 20 }, (_, n) => `m${n}=${'z'.repeat(20)}`);
    const kept = stateOf(many) ?? '';
    expect(many.join(',').startsWith(`${kept},`)).toBe(true);
    expect([kept.length > 225, kept.length <= 255]).toEqual([true, true]);
  });
});

it('an attempt is a child: the same trace, flags and state, and a span of its own', () => {
  const context = readTraceContext(valid, 'foo=1') as NonNullable<ReturnType<typeof readTraceContext>>;
  const [one, two] = [childOf(context), childOf(context)];
  expect(one).toMatch(new RegExp(`^00-${traceId}-[0-9a-f]{16}-01$`));
  expect(new Set([one, two, valid]).size).toBe(3);
});

it('a job keeps its trace in the extension block; one without costs no byte', () => {
  const trace = readTraceContext(valid, 'foo=1,bar=2') ?? undefined;
  expect(optionsIn(extensionOf({ trace, maxAttempts: 2 }))).toEqual({ trace, maxAttempts: 2 });
  expect(extensionOf({ trace: { ...trace, state: '' } as never })?.length).toBe(27);
  expect(extensionOf({ trace: undefined })).toBeNull();
});
