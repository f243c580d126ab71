// The word check finds each pattern, and accepts similar correct sentences.
import { expect, it } from 'vitest';
import {
  checkCommentLength,
  checkWords,
  dataMark,
  patterns,
  withoutGlossary,
} from '../../scripts/check-words.ts';
import { texts } from '../support/words.ts';

const caught = [
  'Whoever comes first decides.',
  'It is read anew.', // check-words: data
  'What its digest says is none.', // check-words: data
  'The flag is no field of a topic.', // check-words: data
  'Notifiers are told at once.', // check-words: data
  'What systemd hears of it.', // check-words: data
  'The job is handed back.', // check-words: data
  'Redis is away.', // check-words: data
  'Redis cannot be asked.', // check-words: data
  'Leases end. What is over waits.', // check-words: data
  'As a rule it is short.', // check-words: data
];

it.each(caught.map((text, n) => [text, n] as const))('word check: finds "%s"', (text, n) => {
  expect(patterns[n]?.pattern.exec(text)).not.toBeNull();
  expect(checkWords(`a\n${text}`)).toContainEqual(expect.objectContaining({ line: 2 }));
});

it('word check: has a sample of every pattern', () => {
  expect(caught).toHaveLength(patterns.length);
});

it.each(texts`
  There is no reply. | A lease is no longer valid. | alert state 'nobody' is stored |
  The reply names what is wrong. It is not a topic.
`)('word check: accepts "%s"', (text) => {
  expect(checkWords(text)).toEqual([]);
});

it('word check: a comment line has at most 110 characters, code may have more', () => {
  const long = 'x'.repeat(120);
  expect(checkCommentLength(`const a = '${long}';\n// ${long}`)).toEqual([
    expect.objectContaining({ line: 2 }),
  ]);
  expect(checkCommentLength(`-- ${'x'.repeat(107)}`)).toEqual([]);
});

it('word check: leaves out the glossary and keeps the line numbers', () => {
  const text = withoutGlossary('# Map\n\n## Glossary\n\nnobody\n\n## Next\n\nnobody\n');
  expect(checkWords(text)).toEqual([expect.objectContaining({ line: 9, words: 'nobody' })]);
  expect(checkWords(withoutGlossary('## Glossary\n\nnobody\n'))).toEqual([]);
});

it('word check: accepts marked data, and rejects a mark without such words', () => {
  expect(checkWords(`${caught[0]} ${dataMark}`)).toEqual([]);
  expect(checkWords(`'stored', ${dataMark}`)).toEqual([
    expect.objectContaining({ line: 1, words: dataMark }),
  ]);
});
