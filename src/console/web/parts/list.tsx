// A list: a table where it fits, cards where it does not and on a phone, both from one specification of the
// columns. Draws what stands in its place as well: bars while nothing is known, and a sentence without rows.

import { type ComponentChildren, Fragment } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import type { CallError } from '../api/call.ts';
import { clock } from '../format.ts';
import { language, t } from '../words/words.ts';
import { Button, Empty, More, Waiting } from './parts.tsx';
import { Time } from './time.tsx';

export interface Column<T> {
  /** null: a column of actions, whose head only screen readers read */
  readonly head: string | null;
  readonly cell: (item: T) => ComponentChildren;
  /** how a card shows it, where it differs from the table */
  readonly card?: (item: T) => ComponentChildren;
  /** classes of the cells; the head gets some of them (headLooks). `extra` and then `spare` columns leave a
   *  table that is too wide; `cut`: gives way to the others, `cut id` as the last; `text`: wraps */
  readonly look?: string;
  /** class of the head alone: a width, or `wrap` */
  readonly width?: string;
  /** a card puts the head before the cell */
  readonly isNamed?: true;
  /** that of a card, which has no room for the order of the rows */
  readonly cardHead?: string;
  readonly tip?: (item: T) => string | undefined;
  /** the table does not have it now */
  readonly isOff?: boolean;
}

/** The times of a member; null: none. */
export const timeColumn = <K extends string>(
  head: string,
  member: K,
  look: string,
  text = clock,
): Column<Readonly<Record<K, string | null>>> => ({
  head,
  look,
  isNamed: true,
  cell: (item) => {
    const at: string | null = item[member];
    return at === null ? <span class="faint">–</span> : <Time at={at} text={text} />;
  },
});

/** The lines of a card, each with columns from left to right. */
interface CardLines<K extends string> {
  readonly row: readonly K[];
  readonly soft?: readonly K[];
  readonly faint?: readonly K[];
  /** buttons, below the texts */
  readonly act?: readonly K[];
}

const cardLines = ['row', 'soft', 'faint', 'act'] as const;

interface ListProps<T, K extends string> {
  /** null: not read yet */
  readonly items: readonly T[] | null;
  readonly error?: CallError | null;
  /** bars while the items are read */
  readonly rows?: number;
  /** in place of no items */
  readonly empty: ComponentChildren;
  /** Reads the next page; null: this is all. */
  readonly more?: (() => void) | null;
  /** Items that `more` shows; default: those of a page. */
  readonly moreCount?: number;
  readonly keyOf: (item: T) => string | number;
  readonly columns: Readonly<Record<K, Column<T>>>;
  /** the lines of a card, or what draws one */
  readonly card: CardLines<NoInfer<K>> | ((item: T) => ComponentChildren);
  readonly selection?: Selection<T> | undefined;
  /** what an open row shows below itself; null: the row is closed */
  readonly detail?: (item: T) => ComponentChildren;
  /** class of the table */
  readonly look?: string;
}

export function List<T, K extends string>(props: ListProps<T, K>) {
  const { items, error = null, rows = 4, empty, more = null, moreCount } = props;
  if (items === null) return <Waiting rows={rows} error={error} />;
  // A page can be empty although a further one has matches.
  if (items.length === 0)
    return (
      <>
        <Empty>{empty}</Empty>
        <More next={more} count={moreCount} />
      </>
    );
  return (
    <>
      <Fitting key={language.value} count={items.length}>
        <Table {...props} items={items} />
        <Cards {...props} items={items} />
      </Fitting>
      <More next={more} count={moreCount} />
    </>
  );
}

/** `tight`: without extra columns, and with shorter texts; `least`: also without spare columns. CSS shows one of
 *  table and cards. */
const shapes = ['wide', 'tight', 'least', 'cards'] as const;

/** A table and its cards, of which one fits. New texts of the same rows only make it narrower: a list whose
 *  times are counted would change its shape each second. */
function Fitting({ count, children }: { count: number; children: ComponentChildren }) {
  const box = useRef<HTMLDivElement>(null);
  const shape = useRef(0);
  /** Takes the first shape, from this one on, whose table is no wider than its place. */
  const choose = (first: number): void => {
    const at = box.current;
    if (at === null) return;
    for (shape.current = first; ; shape.current += 1) {
      at.dataset['shape'] = shapes[shape.current];
      const isLast = shape.current === shapes.length - 1;
      if (isLast || (at.querySelector('table')?.offsetWidth ?? 0) <= at.clientWidth) return;
    }
  };
  useLayoutEffect(() => choose(0), [count]);
  useLayoutEffect(() => choose(shape.current));
  useLayoutEffect(() => {
    // The ruler has no height: a shape changes the height of the list, which would be observed again.
    const ruler = box.current?.lastElementChild;
    if (!ruler) return;
    const observer = new ResizeObserver(() => choose(0));
    observer.observe(ruler);
    return () => observer.disconnect();
  }, []);
  return (
    <div class="list-box" ref={box}>
      {children}
      <div />
    </div>
  );
}

/** The row that is open, of those that show more below themselves: a text that may be cut opens it. */
export function useOpenRow() {
  const [open, setOpen] = useState<string | null>(null);
  return {
    isOpen: (key: string): boolean => key === open,
    opener: (key: string, text: string) =>
      text === '' ? (
        '–'
      ) : (
        <button
          type="button"
          class="opener"
          aria-expanded={key === open}
          onClick={() => setOpen(key === open ? null : key)}
        >
          {text}
        </button>
      ),
  };
}

type Known<T, K extends string> = ListProps<T, K> & { readonly items: readonly T[] };

const classOf = (...names: readonly (string | false | undefined)[]): string | undefined =>
  names.filter(Boolean).join(' ') || undefined;

const hasLook = (look: string, name: string): boolean => look.split(' ').includes(name);
/** Looks of cells that the head of their column has as well. */
const headLooks = ['right', 'extra', 'spare'] as const;

function Table<T, K extends string>({ items, columns, keyOf, selection, detail, look }: Known<T, K>) {
  const shown = Object.values<Column<T>>(columns).filter(({ isOff }) => isOff !== true);
  return (
    <table class={classOf('desk', look)}>
      <thead>
        <tr>
          {selection === undefined ? null : (
            <th class="w0">
              <input
                type="checkbox"
                aria-label={t('select_page')}
                checked={selection.isWholePage}
                onChange={selection.togglePage}
              />
            </th>
          )}
          {shown.map(({ head, look: cells = '', width }) => (
            <th key={head} class={classOf(...headLooks.filter((one) => hasLook(cells, one)), width)}>
              {head ?? <span class="sr">{t('actions')}</span>}
            </th>
          ))}
        </tr>
      </thead>
      <tbody>
        {items.map((item) => {
          const open = detail?.(item) ?? null;
          return (
            <Fragment key={keyOf(item)}>
              <tr class={selection?.isPicked(item) ? 'picked' : undefined}>
                {selection === undefined ? null : (
                  <td>
                    <PickBox item={item} selection={selection} />
                  </td>
                )}
                {shown.map(({ head, cell, look: cells, tip }) => (
                  <td key={head} class={cells} title={tip?.(item)}>
                    {cell(item)}
                  </td>
                ))}
              </tr>
              {open === null ? null : (
                <tr>
                  <td class="text" colSpan={shown.length + (selection === undefined ? 0 : 1)}>
                    {open}
                  </td>
                </tr>
              )}
            </Fragment>
          );
        })}
      </tbody>
    </table>
  );
}

function Cards<T, K extends string>({ items, columns, card, keyOf, selection, detail }: Known<T, K>) {
  const cellOf = (key: K, item: T): ComponentChildren => {
    const { head, cardHead = head, cell, card: own, look = '', isNamed } = columns[key];
    const shown = (own ?? cell)(item);
    if (shown === null) return null;
    if (isNamed)
      return (
        <span key={key} class="num">
          {[cardHead, ': ', shown]}
        </span>
      );
    if (head !== null && hasLook(look, 'right'))
      return (
        <span key={key} class="num">
          {shown}
        </span>
      );
    // A line lays out elements, not texts.
    return typeof shown === 'object' ? (
      shown
    ) : (
      <span key={key} class={hasLook(look, 'mono') ? 'mono' : undefined}>
        {shown}
      </span>
    );
  };
  return (
    <ul class="cards">
      {items.map((item) => (
        <li key={keyOf(item)} class={selection?.isPicked(item) ? 'picked' : undefined}>
          {typeof card === 'function'
            ? card(item)
            : cardLines.map((line) =>
                card[line] === undefined ? null : (
                  <div key={line} class={line === 'row' ? 'row' : `row ${line}`}>
                    {line === 'row' && selection?.canPick(item) ? (
                      <PickBox item={item} selection={selection} />
                    ) : null}
                    {card[line].map((key) => cellOf(key, item))}
                  </div>
                ),
              )}
          {detail?.(item)}
        </li>
      ))}
    </ul>
  );
}

// Selection

export interface Selection<T> {
  readonly chosen: readonly T[];
  /** every item that matches, also those that the page does not show */
  readonly isAll: boolean;
  readonly isWholePage: boolean;
  readonly isPicked: (item: T) => boolean;
  readonly canPick: (item: T) => boolean;
  readonly nameOf: (item: T) => string;
  readonly toggle: (item: T) => void;
  readonly togglePage: () => void;
  readonly pickAll: () => void;
  readonly clear: () => void;
}

/** `of`: what the items match; another one clears the selection, and so does an empty list. */
export function useSelection<T extends { readonly id: string }>(
  items: readonly T[],
  keyOf: (item: T) => string,
  of: unknown,
  canPick: (item: T) => boolean = () => true,
): Selection<T> {
  const [picked, setPicked] = useState<ReadonlySet<string>>(new Set());
  const [isAll, setAll] = useState(false);
  const pick = (some: readonly T[]): void => {
    setAll(false);
    setPicked(new Set(some.map(keyOf)));
  };
  useLayoutEffect(() => pick([]), [JSON.stringify(of), items.length === 0]);
  const pickable = items.filter(canPick);
  const isPicked = (item: T): boolean => canPick(item) && (isAll || picked.has(keyOf(item)));
  const chosen = pickable.filter(isPicked);
  const isWholePage = chosen.length === pickable.length;
  return {
    chosen,
    isAll,
    isWholePage,
    isPicked,
    canPick,
    nameOf: ({ id }) => id,
    toggle: (item) => pick(isPicked(item) ? chosen.filter((one) => one !== item) : [...chosen, item]),
    togglePage: () => pick(isWholePage ? [] : pickable),
    pickAll: () => setAll(true),
    clear: () => pick([]),
  };
}

function PickBox<T>({ item, selection }: { item: T; selection: Selection<T> }) {
  return (
    <input
      type="checkbox"
      aria-label={t('select_row', { id: selection.nameOf(item) })}
      disabled={!selection.canPick(item)}
      checked={selection.isPicked(item)}
      onChange={() => selection.toggle(item)}
    />
  );
}

/** Above a list with a selection: its number, and the actions on it. `allText`: of the button that selects all
 *  that match; null: an action on them is not possible. */
export function PickBar<T>({
  selection: { chosen, isAll, pickAll },
  allText,
  children,
}: {
  selection: Selection<T>;
  allText: string | null;
  children: ComponentChildren;
}) {
  if (chosen.length === 0) return null;
  return (
    <div class="pickbar">
      <b>{isAll ? t('all_match_selected') : t('selected', { count: chosen.length })}</b>
      {isAll || allText === null ? null : (
        <Button look="plain s" onClick={pickAll}>
          {allText}
        </Button>
      )}
      <span class="grow" />
      {children}
    </div>
  );
}
