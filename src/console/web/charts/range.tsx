// The range of charts, in the query of the page.

import { hrefQuery, place } from '../router.ts';
import { t } from '../words/words.ts';

export const ranges = ['1h', '6h', '24h', '7d', '30d'] as const;
export type Range = (typeof ranges)[number];

/** Of the address; `usual` where it names none. */
export function rangeOf(usual: Range = '1h'): Range {
  const given = place.value.query.get('range');
  return ranges.find((range) => range === given) ?? usual;
}

export function RangeChoice({ value, most = '30d' }: { value: Range; most?: Range }) {
  const { path, query } = place.value;
  return (
    <nav class="seg" aria-label={t('range')}>
      {ranges.slice(0, ranges.indexOf(most) + 1).map((range) => (
        <a
          key={range}
          href={hrefQuery(path, { ...Object.fromEntries(query), range })}
          aria-current={range === value ? 'true' : undefined}
        >
          {t(`range_${range}`)}
        </a>
      ))}
    </nav>
  );
}
