// Tests which bodies are JSON, and the bounds of JSON that dq parses.
import { describe, expect, it } from 'vitest';
import { beyondBounds, isJsonType } from '../../src/core/json-text.ts';
import { limits } from '../../src/core/limits.ts';

const { jsonDepthMax, jsonValuesMax } = limits;
const many = `has more than ${jsonValuesMax} values; send less`;

it.each([
  [
    true,
    ['application/json', 'Application/JSON', 'application/json; charset=utf-8', 'application/json ;v=1'],
  ],
  [
    false,
    ['application/json-seq', 'application/json+x', 'application/jsonl', 'text/json', '', null, undefined],
  ],
])('a content type of JSON: %s', (isJson, types) => {
  for (const type of types) expect(isJsonType(type), String(type)).toBe(isJson);
});

describe('bounds of JSON', () => {
  it('depth: lists and objects count, texts do not', () => {
    const nested = (levels: number) => `${'[{"a":'.repeat(levels / 2)}1${'}]'.repeat(levels / 2)}`;
    expect(beyondBounds(nested(jsonDepthMax))).toBeNull();
    expect(beyondBounds(`[${nested(jsonDepthMax)}]`)).toContain('nested deeper');
    expect(beyondBounds(`["${'[{'.repeat(jsonDepthMax)}\\"[",1]`)).toBeNull();
  });

  it('values: each comma, colon, list and object counts, those in texts do not', () => {
    expect(beyondBounds(`[${'1,'.repeat(jsonValuesMax - 1)}1]`)).toBeNull();
    expect(beyondBounds(`[${'1,'.repeat(jsonValuesMax)}1]`)).toBe(many);
    expect(beyondBounds(`[${'{},'.repeat(jsonValuesMax / 2)}1]`)).toBe(many);
    expect(beyondBounds(`{${'"a":1,'.repeat(jsonValuesMax / 2)}"a":1}`)).toBe(many);
    expect(beyondBounds(`["${':,[]{}'.repeat(jsonValuesMax)}\\\\\\",,"]`)).toBeNull();
  });

  it('a text that is not JSON has an answer', () => {
    for (const text of ['', '"', '\\', ']]]]', '"\\', '{"a', ',']) expect(beyondBounds(text)).toBeNull();
  });

  it('the largest body of a schedule is within them', () => {
    const bytes = limits.scheduleBodyBytesMax;
    for (const part of ['[],', '{},', '1,', '{"":1},', '[[]],'])
      expect(beyondBounds(`[${part.repeat((bytes - 3) / part.length)}1]`), part).toBeNull();
  });
});
