// The word check catches what it is for, and nothing that merely looks like it.
import { expect, it } from 'vitest';
import { checkCommentLength, checkWords, patterns, withoutGlossary } from '../../scripts/check-words.ts';

const caught = [
  'Whoever comes first decides.',
  'It is read anew.',
  'What its digest says is none.',
  'The flag is no field of a topic.',
  'Notifiers are told at once.',
  'What systemd hears of it.',
  'The job is handed back.',
  'Redis is away.',
  'Redis cannot be asked.',
  'Leases end. What is over waits.',
  'As a rule it is short.',
];

it.each(caught.map((text, n) => [text, n] as const))('word check: finds "%s"', (text, n) => {
  expect(patterns[n]?.pattern.exec(text)).not.toBeNull();
  expect(checkWords(`a\n${text}`)).toContainEqual(expect.objectContaining({ line: 2 }));
});

it('word check: has a sample of every pattern', () => {
  expect(caught).toHaveLength(patterns.length);
});

it.each([
  'There is no reply.',
  'A lease is no longer valid.',
  "alert state 'nobody' is stored",
  'The reply names what is wrong. It is not a topic.',
])('word check: accepts "%s"', (text) => {
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
