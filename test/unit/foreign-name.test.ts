import { expect, it } from 'vitest';
import { foreignOfTopic, topicOfForeign } from '../../src/core/topic/topic.ts';

it('foreign topic names: unchanged where dq allows them, else their bytes', () => {
  expect(topicOfForeign('order.close_1-a')).toBe('order.close_1-a');
  expect(topicOfForeign('会员')).toBe('x__e4_bc_9a_e5_91_98');
  expect(topicOfForeign('a b_c')).toBe('x_a_20b_5fc');
  expect(topicOfForeign('_a')).toBe('x__5fa');
  expect(topicOfForeign('')).toBeNull();
  expect(topicOfForeign('会'.repeat(14))).toHaveLength(128);
  expect(topicOfForeign('会'.repeat(15))).toBeNull();
});

it('foreign topic names: are read back', () => {
  for (const name of ['order.close_1-a', '会员', 'a b_c', '_a', 'x_a', 'x_', 'x_20', 'x y_'])
    expect(foreignOfTopic(topicOfForeign(name) ?? '')).toBe(name);
});

it('foreign topic names: an encoded name means the same topic as its original', () => {
  for (const name of ['会员', 'a b_c', ' '])
    expect(topicOfForeign(topicOfForeign(name) ?? '')).toBe(topicOfForeign(name));
});
