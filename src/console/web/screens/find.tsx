// The find box of the top bar. While a text is typed it lists, in this order: jobs with this id in all topics,
// jobs whose ids begin with it, topics, and the search of bodies. A query with keys (find-query.ts) leads to
// its screen.

import { useEffect, useLayoutEffect, useState } from 'preact/hooks';
import type { JobSummaryJson } from '../../../contract/api/job.ts';
import type { PageOf } from '../../../contract/api/schema.ts';
import type { TopicJson } from '../../../core/topic/settings.ts';
import { get } from '../api/call.ts';
import { type FindQuery, isSearchable, readQuery, screenOf, writeQuery } from '../find-query.ts';
import { Form } from '../parts/form.tsx';
import { Icon, JobState } from '../parts/parts.tsx';
import { go, href, hrefQuery, place } from '../router.ts';
import { t } from '../words/words.ts';

/** Wait after a key, ms: a typed word is one question. */
const typingMs = 200;
/** Jobs and topics that the list shows of each kind. */
const shown = 5;

interface Option {
  readonly to: string;
  readonly kind: 'exact' | 'prefix' | 'topic' | 'all';
  readonly text: string;
  readonly job?: JobSummaryJson;
}

const pathOf = (query: FindQuery): string => hrefQuery([screenOf(query)], query);

/** The query of the screen that is shown. */
function shownQuery(): string {
  const { path, query } = place.value;
  return path.length === 1 && (path[0] === 'jobs' || path[0] === 'dead')
    ? writeQuery(Object.fromEntries(query))
    : '';
}

/** The typed text, its options, and the one that the keys have chosen. */
function useFind() {
  const current = shownQuery();
  const [text, setText] = useState(current);
  const [isOpen, setOpen] = useState(false);
  // The chosen option by its address: answers that arrive later move the others.
  const [chosen, choose] = useState<string | null>(null);
  // An effect runs after the next frame, and would remove text that was typed before it.
  useLayoutEffect(() => setText(current), [current]);
  const options = useOptions(isOpen ? text.trim() : '');
  const at = options.findIndex(({ to }) => to === chosen);
  return {
    text,
    options,
    at,
    isListed: isOpen && options.length > 0,
    open: (): void => setOpen(true),
    close: (): void => {
      setOpen(false);
      choose(null);
    },
    type: (typed: string): void => {
      setText(typed);
      setOpen(true);
      choose(null);
    },
    move: (step: number): void => {
      setOpen(true);
      // One place more than options: none of them.
      const next = ((at + 1 + step + options.length + 1) % (options.length + 1)) - 1;
      choose(options[next]?.to ?? null);
    },
  };
}

const moves: Readonly<Record<string, number>> = { ArrowDown: 1, ArrowUp: -1 };

export function FindBox() {
  const { text, options, at, isListed, open, close, type, move } = useFind();
  const follow = (to: string): void => {
    close();
    document.querySelector<HTMLInputElement>('#find')?.blur();
    go(to);
  };
  const onKey = (event: KeyboardEvent): void => {
    const step = moves[event.key];
    if (step !== undefined && options.length > 0) {
      event.preventDefault();
      move(step);
    } else if (event.key === 'Escape') {
      event.preventDefault();
      if (isListed) close();
      else (event.currentTarget as HTMLInputElement).blur();
    }
  };
  return (
    <search class="find">
      <Form
        look=""
        onSend={() => {
          const to = options[at]?.to ?? targetOf(text, options);
          if (to !== null) follow(to);
        }}
      >
        <Icon name="search" />
        <label class="sr" for="find">
          {t('find_placeholder')}
        </label>
        <input
          id="find"
          role="combobox"
          aria-expanded={isListed}
          aria-controls="find-list"
          aria-autocomplete="list"
          aria-activedescendant={at >= 0 ? `find-${at}` : undefined}
          placeholder={t('find_placeholder')}
          autocomplete="off"
          spellcheck={false}
          value={text}
          onFocus={open}
          onBlur={close}
          onInput={(event) => type(event.currentTarget.value)}
          onKeyDown={onKey}
        />
        <kbd>/</kbd>
      </Form>
      <Options options={isListed ? options : []} at={at} follow={follow} />
    </search>
  );
}

function Options({
  options,
  at,
  follow,
}: {
  options: readonly Option[];
  at: number;
  follow: (to: string) => void;
}) {
  // Without a list the reference of the combobox must still lead somewhere.
  return (
    <div
      id="find-list"
      class={options.length > 0 ? 'find-list' : 'sr'}
      role="listbox"
      aria-label={t('find_results')}
    >
      {options.map((option, n) => (
        // A press moves the focus before the click: the list would close.
        // biome-ignore lint/a11y/useKeyWithClickEvents: the keys are those of the combobox
        // biome-ignore lint/a11y/useFocusableInteractive: the focus stays in the combobox
        <div
          key={option.to}
          id={`find-${n}`}
          role="option"
          aria-selected={n === at}
          class={n === at ? 'on' : ''}
          onMouseDown={(event) => event.preventDefault()}
          onClick={() => follow(option.to)}
        >
          <OptionText option={option} />
        </div>
      ))}
    </div>
  );
}

function OptionText({ option: { kind, text, job } }: { option: Option }) {
  if (job === undefined)
    return (
      <>
        <Icon name={kind === 'topic' ? 'topics' : 'search'} small />
        <span class={kind === 'topic' ? 'mono one-line' : 'one-line'}>{text}</span>
      </>
    );
  return (
    <>
      <Icon name="jobs" small />
      <span class="mono one-line">{text}</span>
      <span class="faint one-line">{job.topic}</span>
      <JobState {...job} />
    </>
  );
}

/** Where Enter leads without a chosen option; null: nowhere. */
function targetOf(input: string, options: readonly Option[]): string | null {
  const { query, text } = readQuery(input);
  if (Object.keys(query).length > 0)
    return pathOf(text === '' || query.body !== undefined ? query : { ...query, body: text });
  if (text === '') return null;
  const exact = options.filter(({ kind }) => kind === 'exact');
  const [first] = exact;
  if (first !== undefined && exact.length === 1) return first.to;
  return exact.length > 1 ? pathOf({ id: text }) : pathOf({ idPrefix: text });
}

/** In the order in which they are shown. */
const kinds: readonly Option['kind'][] = ['exact', 'prefix', 'topic', 'all'];

/** Answers of the API for a text without keys. A failed call has no options. */
function useOptions(input: string): readonly Option[] {
  const [found, setFound] = useState<{ text: string; options: readonly Option[] }>({ text: '', options: [] });
  const { query, text } = readQuery(input);
  const asks = Object.keys(query).length === 0 && text !== '';
  useEffect(() => {
    if (!asks) return;
    let ended = false;
    const add = (options: readonly Option[]): void => {
      if (ended || options.length === 0) return;
      setFound((last) => {
        const all = [...(last.text === text ? last.options : []), ...options];
        // Two answers may have the same job, in any order: an exact one stays exact.
        all.sort((a, b) => kinds.indexOf(a.kind) - kinds.indexOf(b.kind));
        return { text, options: all.filter((one, n) => all.findIndex(({ to }) => to === one.to) === n) };
      });
    };
    const jobs = async (kind: 'exact' | 'prefix', filter: Record<string, string>): Promise<void> => {
      const { items } = await get<PageOf<JobSummaryJson>>('/v1/jobs', { ...filter, limit: String(shown) });
      add(
        items
          .slice(0, shown)
          .map((job) => ({ kind, job, text: job.id, to: href('jobs', job.topic, job.id) })),
      );
    };
    const topics = async (): Promise<void> => {
      const { items } = await get<PageOf<TopicJson>>('/v1/topics', { search: text, limit: String(shown) });
      add(items.map(({ topic }) => ({ kind: 'topic', text: topic, to: href('topics', topic) })));
    };
    const timer = setTimeout(() => {
      // Tokens of some topics cannot ask for an id in all of them; ids that begin with it include it.
      const ignore = (): void => {};
      void jobs('exact', { id: text }).catch(ignore);
      void jobs('prefix', { idPrefix: text }).catch(ignore);
      void topics().catch(ignore);
    }, typingMs);
    return () => {
      ended = true;
      clearTimeout(timer);
    };
  }, [text, asks]);
  if (!asks) return [];
  return [
    ...(found.text === text ? found.options : []),
    { kind: 'all', text: t('find_ids', { text }), to: pathOf({ idPrefix: text }) },
    ...(isSearchable(text)
      ? [{ kind: 'all', text: t('find_bodies', { text }), to: pathOf({ body: text }) } as const]
      : []),
  ];
}
