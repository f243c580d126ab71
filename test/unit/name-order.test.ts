import { expect, it } from 'vitest';
import { NameOrder } from '../../src/registry/topic-book.ts';

it('name order: stays sorted while names come and go', () => {
  const names = Array.from({ length: 2_000 }, (_, i) => `t${(i * 7_919) % 2_000}`);
  const order = new NameOrder(names.slice(0, 600));
  const known = new Set(names.slice(0, 600));
  for (const [i, name] of names.slice(600).entries()) {
    order.add(name);
    known.add(name);
    const gone = names[i] as string;
    if (i % 3 === 0 && known.delete(gone)) order.remove(gone);
  }
  order.remove('not there');
  const sorted = [...known].sort();
  expect(order.after('', 5_000)).toEqual(sorted);
  const read: string[] = [];
  for (let page = order.after('', 97); page.length > 0; page = order.after(read.at(-1) as string, 97))
    read.push(...page);
  expect(read).toEqual(sorted);
  for (const name of sorted) order.remove(name);
  expect(order.after('', 1)).toEqual([]);
  order.add('a');
  expect(order.after('', 1)).toEqual(['a']);
});
