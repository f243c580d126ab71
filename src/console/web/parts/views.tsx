// The views of a list: the filters of its address under a name. `today` is given; further ones are kept in
// this browser.

import { useState } from 'preact/hooks';
import { recalled, remember } from '../remembered.ts';
import { hrefQuery, place } from '../router.ts';
import { t } from '../words/words.ts';
import { Button, TextChip } from './parts.tsx';

type Query = Readonly<Record<string, string>>;

/** By name. */
function read(key: string): Readonly<Record<string, Query>> {
  try {
    return JSON.parse(recalled(key) ?? '{}');
  } catch {
    return {};
  }
}

/** `today`: members of the address that name the jobs of today. */
export function Views({ list, today }: { list: 'jobs' | 'dead'; today: Query }) {
  const key = `dq-views-${list}`;
  const [kept, setKept] = useState(read(key));
  const now = Object.fromEntries(place.value.query);
  const keep = (next: typeof kept): void => {
    remember(key, JSON.stringify(next));
    setKept(next);
  };
  const isNow = (query: Query): boolean => hrefQuery([list], query) === hrefQuery([list], now);
  const all = Object.entries({ [t('today')]: today, ...kept });
  const shown = all.find(([, query]) => isNow(query))?.[0];
  return (
    <div class="fields">
      {all.map(([name, query]) => (
        <a key={name} class="btn s" aria-current={name === shown} href={hrefQuery([list], query)}>
          {name}
        </a>
      ))}
      {shown === undefined && Object.keys(now).length > 0 ? (
        <TextChip
          label={t('keep_view')}
          value=""
          placeholder={t('name')}
          onChange={(name) => name !== '' && keep({ ...kept, [name]: now })}
        />
      ) : null}
      {shown !== undefined && Object.hasOwn(kept, shown) ? (
        <Button
          look="plain s"
          onClick={() => keep(Object.fromEntries(Object.entries(kept).filter(([name]) => name !== shown)))}
        >
          {t('forget_view')}
        </Button>
      ) : null}
    </div>
  );
}
