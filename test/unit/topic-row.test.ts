import { describe, expect, it } from 'vitest';
import { topicDefaults } from '../../src/core/topic/topic.ts';
import type { TopicRecord } from '../../src/ports/registry.ts';
import { StoreError } from '../../src/ports/store-error.ts';
import { SecretCipher } from '../../src/registry/sql/keys/encryption.ts';
import { sqlLimits } from '../../src/registry/sql/limits.ts';
import { readTopic, toColumns } from '../../src/registry/sql/tables/topic-row.ts';
import { texts } from '../support/words.ts';

const cipher = new SecretCipher(Buffer.alloc(32));

function recordOf(name: string, settings: string, state = 'active'): TopicRecord {
  return { name, state, settings, secrets: '', revision: 7, createdAt: 1, updatedAt: 2 };
}

function read(name: string, settings: string, state?: string) {
  return readTopic(recordOf(name, settings, state), () => cipher);
}

function stored(topic: string, changes: object): TopicRecord {
  const draft = { ...topicDefaults, callbackUrl: 'http://x/', topic, state: 'active' as const, secrets: [] };
  return { ...recordOf(topic, ''), ...toColumns({ ...draft, ...changes }, cipher) };
}

describe('readTopic: settings that topics have in common', () => {
  it('each topic has its own texts, and shares the rest', () => {
    const common = { okStatus: ['2xx', '404'], timeoutMs: 1234 };
    const texts = [
      { callbackUrl: 'http://a/', title: 'quote " backslash \\ ","owner":"', owner: '' },
      { callbackUrl: 'http://b/?x={"a":1}', title: '', owner: 'Ünïcode "' },
    ];
    const [a, b] = texts.map((own, at) => readTopic(stored(`t${at}`, { ...common, ...own }), () => cipher));
    expect(a).toMatchObject({ topic: 't0', ...common, ...texts[0] });
    expect(b).toMatchObject({ topic: 't1', ...common, ...texts[1] });
    expect(a?.okStatus).toBe(b?.okStatus);
  });

  it('each topic has its own headers and secrets', () => {
    const drafts = ['one', 'two'].map((value) => ({
      headers: { 'x-a': value },
      secrets: [{ secret: value, untilAt: null }],
    }));
    const opened = drafts.map((draft, at) => readTopic(stored(`h${at}`, draft), () => cipher).open());
    expect(opened).toMatchObject(drafts);
  });

  it('a removal is read only of offline topics', () => {
    const settings = '{"callbackUrl":"http://x/","rate":3,"removal":{"jobs":"purge"}}';
    expect(read('r1', settings).removal).toBeUndefined();
    expect(read('r2', settings, 'offline').removal).toEqual({ jobs: 'purge' });
    expect(read('r3', settings).removal).toBeUndefined();
  });

  it('uncached settings are read as stored', () => {
    const numbers = Array.from({ length: sqlLimits.settingsKept + 2 }, (_, n) => n + 1);
    const rates = [...numbers, ...numbers].map(
      (rate) => read('many', `{"callbackUrl":"http://x/","rate":${rate}}`).rate,
    );
    expect(rates).toEqual([...numbers, ...numbers]);
  });

  it.each(texts`
    {"callbackUrl":"http://x/"} | { "callbackUrl": "http://x/", "rate": 0 } |
    {"rate":0,"callbackUrl":"http://x/"} | {"title":"","rate":0,"callbackUrl":"http://x/"} |
    {"title":"","callbackUrl":"http://x/","unknown":[1],"rate":0}
  `)('reads %s', (settings) => {
    const { headers: _, ...plain } = topicDefaults;
    const topic = read('t', settings);
    expect(topic).toMatchObject({ ...plain, callbackUrl: 'http://x/' });
    expect(topic).not.toHaveProperty('unknown');
  });

  it.each([
    '',
    'null',
    '{}',
    '{"callbackUrl":"http://x/",}',
    '{"callbackUrl":"http://x/","rate":0',
    '{"callbackUrl":"http://x/\u0001","rate":0}',
    '{"callbackUrl":"http://x/","rate":"0"}',
    '{"callbackUrl":"http://x/","headers":[]}',
    '{"title":"","rate":0}',
    '{"callbackUrl":5,"rate":0}',
  ])('rejects %s', (settings) => {
    read('t', '{"callbackUrl":"http://x/","rate":0}');
    expect(() => read('t', settings)).toThrow(StoreError);
  });
});
