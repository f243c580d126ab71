// One question per name at a time: who asks while it is under way waits for its answer. The system's resolver occupies a
// thread per question, eight of the sixteen at most, and goes on after its call has been given up: without this, one topic
// whose name hangs the resolver would soon hold all eight, and no other topic could be resolved. Keeps no answer: how long
// one holds is the resolver's affair.

import type { LookupFunction } from 'node:net';

type Found = Parameters<LookupFunction>[2];

/** All who ask must ask with the same options. */
export function sharedLookup(lookup: LookupFunction): LookupFunction {
  const underWay = new Map<string, Found[]>();
  return (name, options, found) => {
    const others = underWay.get(name);
    if (others !== undefined) {
      others.push(found);
      return;
    }
    const asking = [found];
    underWay.set(name, asking);
    lookup(name, options, (...answer) => {
      underWay.delete(name);
      for (const one of asking) one(...answer);
    });
  };
}
